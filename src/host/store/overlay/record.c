/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host/store/overlay/overlay_internal.h"

int64_t ov_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

int ov_record_add(int dir_fd, const char *name, const char *text)
{
    return symlinkat(text, dir_fd, name) < 0 ? -errno : 0;
}

/* The names of new texts start with a dot: no record does, and load removes them. */
int ov_record_replace(int dir_fd, const char *name, const char *text)
{
    char fresh[CAY_STORE_NAME_SIZE + 1];
    snprintf(fresh, sizeof(fresh), ".%s", name);
    if (symlinkat(text, dir_fd, fresh) < 0) {
        if (errno != EEXIST)
            return -errno;
        if (unlinkat(dir_fd, fresh, 0) < 0 || symlinkat(text, dir_fd, fresh) < 0)
            return -errno;
    }
    if (renameat(dir_fd, fresh, dir_fd, name) == 0)
        return 0;
    int rc = -errno;
    unlinkat(dir_fd, fresh, 0);
    return rc;
}

int ov_record_read(int dir_fd, const char *name, char *text, size_t size)
{
    ssize_t len = readlinkat(dir_fd, name, text, size - 1);
    if (len < 0)
        return -errno;
    text[len] = '\0';
    return (size_t)len == size - 1 ? -EBADMSG : 0;
}

int ov_record_remove(int dir_fd, const char *name)
{
    return unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT ? 0 : -errno;
}

int ov_session_save(struct ov_store *ov, const struct ov_session *session)
{
    char name[CAY_STORE_ID_SIZE];
    char text[128];
    ov_id_text(session->node.id, name);
    snprintf(text, sizeof(text), "1 %016" PRIx64 " %016" PRIx64 " %" PRIu64 " %" PRId64,
             session->upper->node.id, session->copy ? session->copy->node.id : 0,
             session->generation, session->created_ms);
    return ov_record_replace(ov->sessions_fd, name, text);
}
