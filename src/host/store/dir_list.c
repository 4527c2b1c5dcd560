/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/dir_list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sort.h"
#include "base/stop.h"
#include "host/store/store.h"

enum { READ_BYTES = 16 * 1024 };

static int add(struct cay_dir_list *list, const char *name, uint64_t ino)
{
    size_t before = list->has_inodes ? sizeof(ino) : 0;
    size_t len = strlen(name) + 1;
    if (list->text_len + before + len > CAY_STORE_DIR_BYTES_MAX)
        return -E2BIG;
    if (list->text_len + before + len > list->text_cap) {
        list->text_cap = CAY_MAX(list->text_cap * 2, list->text_len + before + len + 1024);
        list->text = cay_realloc_array(list->text, list->text_cap, 1);
    }
    if (list->count == list->cap) {
        list->cap = CAY_MAX(list->cap * 2, (size_t)64);
        list->offsets = cay_realloc_array(list->offsets, list->cap, sizeof(*list->offsets));
    }
    memcpy(list->text + list->text_len, &ino, before);
    memcpy(list->text + list->text_len + before, name, len);
    list->offsets[list->count++] = list->text_len + before;
    list->text_len += before + len;
    return 0;
}

int cay_dir_list_add(struct cay_dir_list *list, const char *name)
{
    return add(list, name, 0);
}

int cay_dir_list_read(struct cay_dir_list *list, int dir_fd)
{
    cay_autoclose int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOATIME);
    if (fd < 0)
        return -errno;
    [[gnu::uninitialized]] _Alignas(struct dirent64) char buf[READ_BYTES];
    for (;;) {
        if (cay_stop_asked())
            return -ECANCELED;
        ssize_t len = getdents64(fd, buf, sizeof(buf));
        if (len < 0)
            return -errno;
        if (len == 0)
            return 0;
        for (ssize_t at = 0; at < len;) {
            const struct dirent64 *entry = (const struct dirent64 *)(const void *)(buf + at);
            at += entry->d_reclen;
            if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
                continue;
            int rc = add(list, entry->d_name, entry->d_ino);
            if (rc < 0)
                return rc;
        }
    }
}

static int compare(const void *a, const void *b, void *text)
{
    return strcmp((const char *)text + *(const size_t *)a, (const char *)text + *(const size_t *)b);
}

void cay_dir_list_sort(struct cay_dir_list *list)
{
    if (list->count < 2)
        return;
    cay_sort(list->offsets, list->count, sizeof(*list->offsets), compare, list->text);
    size_t kept = 1;
    for (size_t i = 1; i < list->count; i++) {
        if (strcmp(cay_dir_list_name(list, i), cay_dir_list_name(list, kept - 1)))
            list->offsets[kept++] = list->offsets[i];
    }
    list->count = kept;
}

void cay_dir_list_finish(struct cay_dir_list *list)
{
    free(list->text);
    free(list->offsets);
    *list = (struct cay_dir_list){};
}
