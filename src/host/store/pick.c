/* SPDX-License-Identifier: Apache-2.0 */

/* Which store a directory gets when nobody says. */

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/store/record.h"
#include "host/store/store_ops.h"

static const struct cay_store_ops *find(const char *kind)
{
    const struct cay_store_ops *const *ops = cay_store_registry;
    while (*ops && strcmp((*ops)->name, kind))
        ops++;
    return *ops;
}

/* The directory, or what it will be made in. */
static void find_nearest(const char *path, char out[static PATH_MAX])
{
    struct stat info;
    snprintf(out, PATH_MAX, "%s", path);
    while (stat(out, &info) < 0 || !S_ISDIR(info.st_mode)) {
        char *slash = strrchr(out, '/');
        if (!slash || slash == out) {
            snprintf(out, PATH_MAX, "%s", slash ? "/" : ".");
            return;
        }
        *slash = '\0';
    }
}

/* Every store writes its name into a new directory, before a blank and a version. */
static const struct cay_store_ops *find_by_format(const char *directory)
{
    char text[64];
    cay_autoclose int fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || cay_record_read(fd, "format", text, sizeof(text)) < 0)
        return NULL;
    text[strcspn(text, " ")] = '\0';
    return find(text);
}

const char *cay_store_pick(const char *directory)
{
    [[gnu::uninitialized]] char nearest[PATH_MAX];
    const struct cay_store_ops *used = find_by_format(directory);
    if (used)
        return used->name;
    find_nearest(directory, nearest);
    struct cay_error ignored;
    for (const struct cay_store_ops *const *ops = cay_store_registry; *ops; ops++) {
        if ((*ops)->check && (*ops)->check(nearest, &ignored))
            return (*ops)->name;
    }
    return cay_store_overlay.name; /* which says what is wrong when it is opened */
}

const char *cay_store_choice(size_t at)
{
    for (const struct cay_store_ops *const *ops = cay_store_registry; *ops; ops++) {
        if ((*ops)->check && at-- == 0)
            return (*ops)->name;
    }
    return NULL;
}

bool cay_store_takes_snapshots(const char *kind)
{
    const struct cay_store_ops *ops = find(kind);
    return ops && ops->caps & CAY_STORE_SNAPSHOTS;
}

bool cay_store_keeps_limits(const char *kind)
{
    const struct cay_store_ops *ops = find(kind);
    return ops && ops->caps & CAY_STORE_KERNEL_QUOTA && (!ops->has_quota || ops->has_quota());
}

bool cay_store_check(const char *kind, const char *directory, struct cay_error *err)
{
    [[gnu::uninitialized]] char nearest[PATH_MAX];
    const struct cay_store_ops *ops = find(kind);
    assert(ops);
    find_nearest(directory, nearest);
    return !ops->check || ops->check(nearest, err);
}
