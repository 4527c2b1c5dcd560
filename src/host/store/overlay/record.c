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

void ov_session_name(const struct ov_session *session, char out[static OV_RECORD_SIZE])
{
    snprintf(out, OV_RECORD_SIZE,
             "%016" PRIx64 ",%016" PRIx64 ",%016" PRIx64 ",%" PRIu64 ",%" PRId64, session->node.id,
             session->upper->node.id, session->copy ? session->copy->node.id : 0,
             session->generation, session->created_ms);
}

void ov_snapshot_name(const struct ov_snapshot *snapshot, char out[static OV_RECORD_SIZE])
{
    snprintf(out, OV_RECORD_SIZE, "%016" PRIx64 ",%016" PRIx64 ",%" PRId64 ",%d", snapshot->node.id,
             snapshot->top->node.id, snapshot->created_ms, snapshot->changed);
}

/* A new file for names to be links to; the old one stays as long as it has some. */
static int new_anchor(struct ov_store *ov)
{
    char fresh[CAY_STORE_ID_SIZE + 8];
    char id[CAY_STORE_ID_SIZE];
    cay_store_new_id(id);
    snprintf(fresh, sizeof(fresh), "anchor-%s", id);
    cay_autoclose int fd =
        openat(ov->root_fd, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    return renameat(ov->root_fd, fresh, ov->root_fd, "anchor") < 0 ? -errno : 0;
}

int ov_name_add(struct ov_store *ov, int dir_fd, const char *name)
{
    for (int tries = 0;; tries++) {
        if (linkat(ov->root_fd, "anchor", dir_fd, name, 0) == 0)
            return 0;
        if ((errno != ENOENT && errno != EMLINK) || tries == 3)
            return -errno;
        int rc = new_anchor(ov);
        if (rc < 0)
            return rc;
    }
}

int ov_session_change(struct ov_store *ov, const struct ov_session *before,
                      const struct ov_session *after)
{
    char old_name[OV_RECORD_SIZE];
    char new_name[OV_RECORD_SIZE];
    ov_session_name(before, old_name);
    ov_session_name(after, new_name);
    return renameat(ov->sessions_fd, old_name, ov->sessions_fd, new_name) < 0 ? -errno : 0;
}
