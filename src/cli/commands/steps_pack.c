/* SPDX-License-Identifier: Apache-2.0 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/library.h"
#include "cli/commands/steps.h"

enum { PACKED_BYTES_MAX = 15 << 20, PIECE_BYTES = 64 * 1024 };

/* Loaded when a build needs it: with all that it needs itself it costs more than most calls. */
#define FUNCTIONS(X)                 \
    X(archive_entry_clear)           \
    X(archive_entry_copy_stat)       \
    X(archive_entry_free)            \
    X(archive_entry_new)             \
    X(archive_entry_set_pathname)    \
    X(archive_entry_set_symlink)     \
    X(archive_write_add_filter_gzip) \
    X(archive_write_close)           \
    X(archive_write_data)            \
    X(archive_write_free)            \
    X(archive_write_header)          \
    X(archive_write_new)             \
    X(archive_write_open_memory)     \
    X(archive_write_set_format_pax_restricted)

CAY_LIBRARY(lib, "libarchive.so.13", FUNCTIONS);

static bool load(struct cay_error *err)
{
    return cay_library_load(&lib_library) ||
           cay_fail(err, CAY_R_NOT_SUPPORTED,
                    "files for a build are packed by libarchive, which cannot be loaded; "
                    "install the package libarchive13");
}

static bool too_much(struct cay_error *err)
{
    return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "the context is too large: %d MiB packed is what a build takes",
                    PACKED_BYTES_MAX >> 20);
}

static bool add_content(struct archive *archive, const char *path, struct cay_error *err)
{
    cay_autofree char *piece = cay_alloc(PIECE_BYTES);
    cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t len = fd < 0 ? -1 : 1;
    while (len > 0) {
        len = read(fd, piece, PIECE_BYTES);
        if (len > 0 && lib.archive_write_data(archive, piece, (size_t)len) < 0)
            return too_much(err);
    }
    return len == 0 ||
           cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "cannot read '%.100s'", path);
}

static bool add(struct archive *archive, struct archive_entry *entry, const FTSENT *found,
                size_t root_len, struct cay_error *err)
{
    const char *name = found->fts_path + root_len;
    char target[4096];
    while (*name == '/')
        name++;
    if (!*name)
        return true;
    lib.archive_entry_clear(entry);
    lib.archive_entry_copy_stat(entry, found->fts_statp);
    lib.archive_entry_set_pathname(entry, name);
    if (found->fts_info == FTS_SL || found->fts_info == FTS_SLNONE) {
        ssize_t len = readlink(found->fts_accpath, target, sizeof(target) - 1);
        if (len < 0)
            return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "cannot read '%.100s'",
                                  found->fts_path);
        target[len] = '\0';
        lib.archive_entry_set_symlink(entry, target);
    } else if (found->fts_info != FTS_F && found->fts_info != FTS_D) {
        return true; /* sockets, devices */
    }
    if (lib.archive_write_header(archive, entry) != ARCHIVE_OK)
        return too_much(err);
    return found->fts_info != FTS_F || add_content(archive, found->fts_accpath, err);
}

static bool add_all(struct archive *archive, const char *directory, struct cay_error *err)
{
    cay_autofree char *root = cay_strdup(directory);
    char *const roots[] = {root, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    struct archive_entry *entry = lib.archive_entry_new();
    bool is_good = walk && entry;
    if (!is_good)
        cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "cannot open '%.100s'", directory);
    for (FTSENT *found; is_good && (found = fts_read(walk));) {
        if (found->fts_info == FTS_DP)
            continue;
        if (found->fts_info == FTS_DNR || found->fts_info == FTS_ERR || found->fts_info == FTS_NS)
            is_good = cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -found->fts_errno,
                                     "cannot read '%.100s'", found->fts_path);
        else
            is_good = add(archive, entry, found, strlen(directory), err);
    }
    if (walk)
        fts_close(walk);
    lib.archive_entry_free(entry);
    return is_good;
}

bool cay_steps_pack(const char *directory, struct cay_arena *arena, struct cay_str *out_archive,
                    struct cay_error *err)
{
    if (!load(err))
        return false;
    cay_autofree char *packed = cay_alloc(PACKED_BYTES_MAX);
    size_t used = 0;
    struct archive *archive = lib.archive_write_new();
    bool is_good =
        archive && lib.archive_write_set_format_pax_restricted(archive) == ARCHIVE_OK &&
        lib.archive_write_add_filter_gzip(archive) == ARCHIVE_OK &&
        lib.archive_write_open_memory(archive, packed, PACKED_BYTES_MAX, &used) == ARCHIVE_OK;
    if (!is_good)
        cay_fail(err, CAY_R_INTERNAL, "make an archive");
    is_good = is_good && add_all(archive, directory, err);
    if (is_good && lib.archive_write_close(archive) != ARCHIVE_OK)
        is_good = too_much(err);
    lib.archive_write_free(archive);
    if (!is_good)
        return false;
    *out_archive = cay_arena_str(arena, (struct cay_str){packed, used});
    return out_archive->ptr || cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
}
