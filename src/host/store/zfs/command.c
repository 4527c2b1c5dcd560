/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "host/store/zfs/zfs_internal.h"
#include "sys/run.h"

enum {
    TIMEOUT_MS = 120'000,
    OUTPUT_BYTES_MAX = 64 << 20,
};

bool zfs_call(const struct zfs_args *args, struct cay_buf *out, struct cay_error *err)
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, OUTPUT_BYTES_MAX);
    const struct cay_program run = {.argv = args->argv, .timeout_ms = TIMEOUT_MS, .out = &text};
    int status = cay_run(&run);
    if (status == -ENOENT)
        return cay_fail(err, CAY_R_NOT_SUPPORTED, "the command '%s' is not there", args->argv[0]);
    if (status < 0)
        return cay_store_fail(err, status, "run %s %s", args->argv[0], args->argv[1]);
    if (status == 0) {
        if (out)
            cay_buf_append_str(out, cay_buf_str(&text));
        /* What did not fit was dropped. */
        return !out || text.len < OUTPUT_BYTES_MAX ||
               cay_fail(err, CAY_R_STORE_FAILED, "%s %s printed more than can be read",
                        args->argv[0], args->argv[1]);
    }
    cay_buf_append_byte(&text, '\0');
    size_t len = text.failed ? 0 : strcspn(text.data, "\n");
    bool full = !text.failed && (strstr(text.data, "out of space") || strstr(text.data, "quota"));
    bool busy = !text.failed && strstr(text.data, "is busy");
    cay_fail(err, full ? CAY_R_NO_SPACE : CAY_R_STORE_FAILED, "%s %s: %.*s", args->argv[0],
             args->argv[1], (int)CAY_MIN(len, (size_t)150), text.failed ? "" : text.data);
    err->sys_errno = busy ? EBUSY : 0;
    return false;
}

/* Of several mounts on the way the longest counts, of two at one place the later. */
bool zfs_find_dataset(const char *path, char out[static ZFS_NAME_SIZE], bool *out_is_fuse)
{
    cay_autofree char *real = realpath(path, NULL);
    FILE *mounts = real ? fopen("/proc/self/mounts", "re") : NULL;
    if (!mounts)
        return false;
    size_t best = 0;
    bool is_zfs = false;
    bool is_fuse = false;
    cay_autofree char *line = NULL;
    size_t cap = 0;
    while (getline(&line, &cap, mounts) > 0) {
        char source[ZFS_NAME_SIZE];
        [[gnu::uninitialized]] char point[PATH_MAX];
        char type[32];
        if (sscanf(line, "%255s %4095s %31s", source, point, type) != 3)
            continue;
        size_t len = strcmp(point, "/") ? strlen(point) : 0;
        if (strncmp(real, point, len) || (real[len] && real[len] != '/') || len < best)
            continue;
        best = len;
        is_fuse = !strcmp(type, "fuse.zfs");
        is_zfs = is_fuse || !strcmp(type, "zfs");
        snprintf(out, ZFS_NAME_SIZE, "%s", source);
    }
    (void)fclose(mounts);
    if (out_is_fuse)
        *out_is_fuse = is_fuse;
    return is_zfs;
}

bool zfs_tells_written(const char *dataset)
{
    struct cay_error ignored;
    return zfs_call(
        &(struct zfs_args){{"zfs", "get", "-H", "-p", "-o", "value", "written", dataset}}, NULL,
        &ignored);
}

enum cay_store_health zfs_read_health(struct cay_str text)
{
    static const struct {
        const char *word;
        enum cay_store_health health;
    } words[] = {
        {"ONLINE", CAY_STORE_ONLINE},     {"DEGRADED", CAY_STORE_DEGRADED},
        {"FAULTED", CAY_STORE_FAULTED},   {"OFFLINE", CAY_STORE_OFFLINE},
        {"UNAVAIL", CAY_STORE_UNAVAIL},   {"REMOVED", CAY_STORE_REMOVED},
        {"SUSPENDED", CAY_STORE_FAULTED},
    };
    struct cay_str word = text;
    while (word.len && (word.ptr[word.len - 1] == '\n' || word.ptr[word.len - 1] == ' '))
        word.len--;
    for (size_t i = 0; i < CAY_COUNT(words); i++) {
        if (cay_str_is(word, words[i].word))
            return words[i].health;
    }
    return CAY_STORE_HEALTH_UNKNOWN;
}

bool zfs_pool_health(const char *dataset, enum cay_store_health *out_health, struct cay_error *err)
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, OUTPUT_BYTES_MAX);
    char pool[ZFS_NAME_SIZE];
    snprintf(pool, sizeof(pool), "%.*s", (int)strcspn(dataset, "/"), dataset);
    if (!zfs_call(&(struct zfs_args){{"zpool", "list", "-H", "-o", "health", pool}}, &text, err))
        return false;
    *out_health = zfs_read_health(cay_buf_str(&text));
    return true;
}
