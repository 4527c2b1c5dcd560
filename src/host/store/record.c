/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host/store/dir_list.h"
#include "host/store/store.h"

int64_t cay_record_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

int cay_record_add(int dir_fd, const char *name, const char *text)
{
    return symlinkat(text, dir_fd, name) < 0 ? -errno : 0;
}

/* The names of new texts start with a dot: no record does, and they are removed when found. */
int cay_record_replace(int dir_fd, const char *name, const char *text)
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

int cay_record_read(int dir_fd, const char *name, char *text, size_t size)
{
    ssize_t len = readlinkat(dir_fd, name, text, size - 1);
    if (len < 0)
        return -errno;
    text[len] = '\0';
    return (size_t)len == size - 1 ? -EBADMSG : 0;
}

int cay_record_remove(int dir_fd, const char *name)
{
    return unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT ? 0 : -errno;
}

int cay_record_remove_of(int dir_fd, const char *id)
{
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    int rc = cay_dir_list_read(&names, dir_fd);
    for (size_t i = 0; rc == 0 && i < names.count; i++) {
        const char *name = cay_dir_list_name(&names, i);
        if (strncmp(name, id, strlen(id)) == 0 && name[strlen(id)] == ',')
            rc = cay_record_remove(dir_fd, name);
    }
    return rc;
}

bool cay_record_is_leftover(int dir_fd, const char *name)
{
    if (name[0] != '.')
        return false;
    unlinkat(dir_fd, name, 0);
    return true;
}

static const char anchor_prefix[] = "anchor-";

/* A new file for names to be links to; the old one stays as long as it has some. */
static int new_anchor(int root_fd)
{
    char fresh[CAY_STORE_ID_SIZE + sizeof(anchor_prefix)];
    char id[CAY_STORE_ID_SIZE];
    cay_store_new_id(id);
    snprintf(fresh, sizeof(fresh), "%s%s", anchor_prefix, id);
    cay_autoclose int fd =
        openat(root_fd, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    return renameat(root_fd, fresh, root_fd, "anchor") < 0 ? -errno : 0;
}

int cay_record_link(int root_fd, int dir_fd, const char *name)
{
    for (int tries = 0;; tries++) {
        if (linkat(root_fd, "anchor", dir_fd, name, 0) == 0)
            return 0;
        if ((errno != ENOENT && errno != EMLINK) || tries == 3)
            return -errno;
        int rc = new_anchor(root_fd);
        if (rc < 0)
            return rc;
    }
}

void cay_record_clean_anchors(int root_fd)
{
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    if (cay_dir_list_read(&names, root_fd) < 0)
        return;
    for (size_t i = 0; i < names.count; i++) {
        const char *name = cay_dir_list_name(&names, i);
        if (!strncmp(name, anchor_prefix, strlen(anchor_prefix)))
            unlinkat(root_fd, name, 0);
    }
}
