/* SPDX-License-Identifier: Apache-2.0 */
#include "host/build/build_copy.h"

#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/store/base.h"
#include "host/store/unpack.h"
#include "sys/pin.h"
#include "tool/tree/user.h"

#define UNPACKED_BYTES_MAX ((uint64_t)8 << 30)

struct placing {
    struct cay_build_copy *copy;
    char source[PATH_MAX];      /* clean; empty: everything */
    char destination[PATH_MAX]; /* clean, without a slash at either end */
    bool is_into;               /* a file goes below the destination */
    uint32_t uid, gid;
    bool has_mode;
    unsigned mode;
};

/* Up to the last '/' before what is special in patterns. */
static struct cay_str plain_part(struct cay_str source)
{
    size_t plain = 0;
    for (size_t i = 0; i < source.len; i++) {
        if (memchr("*?[{", source.ptr[i], 4))
            return (struct cay_str){source.ptr, plain};
        if (source.ptr[i] == '/')
            plain = i + 1;
    }
    return source;
}

static bool too_long(struct cay_error *err)
{
    return cay_fail(err, CAY_R_INVALID_ARGUMENT, "a path is too long, or has '..'");
}

static bool clean(struct cay_str path, char out[static PATH_MAX])
{
    char raw[PATH_MAX];
    if (path.len >= sizeof(raw) || (path.len && memchr(path.ptr, '\0', path.len)))
        return false;
    snprintf(raw, sizeof(raw), "%.*s", (int)path.len, path.len ? path.ptr : "");
    return cay_archive_clean(raw, out);
}

/* What of a path lies below the source; NULL: it is not part of it. Empty: it is the source. */
static const char *below(const struct placing *self, const char *path)
{
    size_t len = strlen(self->source);
    if (len == 0)
        return path;
    if (strncmp(path, self->source, len) != 0 || (path[len] && path[len] != '/'))
        return NULL;
    return path[len] ? path + len + 1 : path + len;
}

static bool place(const struct placing *self, const char *rest, bool is_dir,
                  char out[static PATH_MAX])
{
    const char *name = strrchr(self->source, '/');
    name = name ? name + 1 : self->source;
    const char *last = *rest ? rest : (!is_dir && self->is_into) ? name : "";
    int len = snprintf(out, PATH_MAX, "%s%s%s", self->destination,
                       self->destination[0] && *last ? "/" : "", last);
    return len < PATH_MAX;
}

static bool put_entry(const struct placing *self, struct cay_unpack *unpack,
                      struct cay_archive_in *in, struct archive_entry *entry, uint64_t *entries,
                      struct cay_error *err)
{
    char path[PATH_MAX];
    char target[PATH_MAX];
    char linked[PATH_MAX];
    const char *raw = cay_archive_path(entry);
    const char *link = cay_archive_hard_link(entry);
    if (!raw || !*raw || !cay_archive_clean(raw, path))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "'%.80s' in the context is no name inside it",
                        raw ? raw : "");
    const char *rest = below(self, path);
    bool is_dir = archive_entry_filetype(entry) == AE_IFDIR;
    if (!rest)
        return true;
    if (!place(self, rest, is_dir, target))
        return too_long(err);
    ++*entries;
    if (link) {
        const char *link_rest = cay_archive_clean(link, linked) ? below(self, linked) : NULL;
        char link_target[PATH_MAX];
        if (!link_rest || !place(self, link_rest, false, link_target))
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "'%.80s' in the context is a hard link to what is not copied", path);
        return cay_unpack_link(unpack, target, link_target, err);
    }
    if (!target[0])
        return true; /* the root stays what it is */
    archive_entry_set_uid(entry, self->uid);
    archive_entry_set_gid(entry, self->gid);
    if (!is_dir) /* set-uid bits are not taken over */
        archive_entry_set_perm(entry, self->has_mode ? (__LA_MODE_T)self->mode
                                                     : archive_entry_perm(entry) & 0777);
    return cay_unpack_entry(unpack, in, entry, target, err);
}

static bool put_all(struct placing *self, int fd, uint64_t *entries, struct cay_error *err)
{
    struct cay_unpack unpack = {.root_fd = self->copy->tree.root_fd,
                                .id_base = self->copy->tree.id_base,
                                .entries_max = CAY_BASE_ENTRIES_MAX,
                                .bytes_max = UNPACKED_BYTES_MAX,
                                .take = cay_quota_take,
                                .take_ctx = &self->copy->taker};
    cay_auto(cay_archive_in_finish) struct cay_archive_in in = {};
    bool is_good = cay_archive_in_open(&in, fd, false, err);
    struct archive_entry *entry = NULL;
    while (is_good && (is_good = cay_archive_in_next(&in, &entry, err)) && entry)
        is_good = put_entry(self, &unpack, &in, entry, entries, err);
    if (is_good)
        cay_unpack_times(&unpack);
    cay_unpack_finish(&unpack);
    return is_good;
}

static bool find_owner(struct placing *self, struct cay_error *err)
{
    struct cay_str group = self->copy->owner;
    struct cay_str name = {};
    struct cay_user user;
    uint64_t number = 0;
    if (!group.len)
        return true;
    (void)cay_str_split(&group, ':', &name);
    if (name.len && !cay_user_find(&self->copy->tree, name, true, &user, err))
        return false;
    self->uid = name.len ? user.uid : 0;
    self->gid = name.len ? user.gid : 0;
    if (!group.len)
        return true;
    if (cay_str_to_u64(group, CAY_TREE_IDS - 1, &number) == 0) {
        self->gid = (uint32_t)number;
        return true;
    }
    if (!cay_user_find(&self->copy->tree, group, false, &user, err))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "the group '%.*s' is not known; give its number",
                        (int)CAY_MIN(group.len, (size_t)64), group.ptr);
    self->gid = user.gid;
    return true;
}

static bool read_mode(struct placing *self, struct cay_error *err)
{
    struct cay_str mode = self->copy->mode;
    for (size_t i = 0; i < mode.len; i++) {
        if (mode.ptr[i] < '0' || mode.ptr[i] > '7' || mode.len > 5)
            return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the mode is octal, e.g. 0755");
        self->mode = self->mode * 8 + (unsigned)(mode.ptr[i] - '0');
    }
    self->has_mode = mode.len > 0;
    self->mode &= 0777;
    return true;
}

/* In the rights of the sandbox's root. */
static bool copy_inside(struct placing *self, int context_fd, uint64_t *entries,
                        struct cay_error *err)
{
    struct cay_str wanted = self->copy->destination;
    char path[PATH_MAX + 1];
    snprintf(path, sizeof(path), "/%s", self->destination);
    cay_autoclose int dir_fd = cay_tree_open(&self->copy->tree, path, O_PATH | O_DIRECTORY);
    self->is_into = dir_fd >= 0 || (wanted.len && wanted.ptr[wanted.len - 1] == '/');
    return put_all(self, context_fd, entries, err);
}

/* At its beginning, with a position of its own; or -errno. */
static int open_archive(const struct cay_build_copy *copy)
{
    if (copy->files_fd >= 0)
        return cay_pin_reopen(copy->files_fd, O_RDONLY);
    cay_autoclose int fd = memfd_create("context", MFD_CLOEXEC);
    if (fd < 0 || write(fd, copy->context.ptr, copy->context.len) != (ssize_t)copy->context.len ||
        lseek(fd, 0, SEEK_SET) < 0)
        return errno ? -errno : -EIO;
    return cay_take_fd(fd);
}

bool cay_build_copy(struct cay_build_copy *copy, struct cay_error *err)
{
    struct placing self = {.copy = copy};
    if (!clean(plain_part(copy->source), self.source) ||
        !clean(copy->destination, self.destination))
        return too_long(err);
    cay_autoclose int fd = open_archive(copy);
    if (fd < 0)
        return cay_fail_errno(err, CAY_R_RESOURCE_EXHAUSTED, fd, "keep the context");
    if (!read_mode(&self, err) || !find_owner(&self, err))
        return false;
    struct cay_tree_visit visit = {};
    bool is_good =
        cay_tree_enter(&copy->tree, &visit, err) && copy_inside(&self, fd, &copy->entries, err);
    cay_tree_leave(&visit);
    if (is_good && !copy->entries && self.source[0])
        return cay_fail(err, CAY_R_FILE_NOT_FOUND,
                        "there is no '%.100s' among the files that COPY takes", self.source);
    return is_good;
}
