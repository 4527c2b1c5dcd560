/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A tar archive, read once from its start to its end, also from a pipe. It is the root of a file
 * system or holds an image; the first name in it that is not the root tells.
 */

#include <archive.h>
#include <archive_entry.h>
#include <limits.h>

#include "host/store/base_import.h"
#include "host/store/image_files.h"
#include "host/store/unpack.h"

static bool is_hex_name(struct cay_str name)
{
    return name.len >= CAY_SHA256_HEX_SIZE - 1 &&
           cay_sha256_is_hex((struct cay_str){name.ptr, CAY_SHA256_HEX_SIZE - 1});
}

/* Names that stand at the top of image archives and of no root. */
static bool is_image_name(const char *path)
{
    static const char *const known[] = {"blobs", "index.json", "oci-layout", "repositories",
                                        "manifest.json"};
    struct cay_str rest = cay_str(path);
    struct cay_str first = {};
    (void)cay_str_split(&rest, '/', &first);
    bool is_known = is_hex_name(first);
    for (size_t i = 0; i < CAY_COUNT(known); i++)
        is_known = is_known || cay_str_is(first, known[i]);
    return is_known;
}

static bool is_image(const struct cay_base_import *import, const char *path)
{
    if (import->options->format == CAY_BASE_FORMAT_AUTO)
        return is_image_name(path);
    return import->options->format != CAY_BASE_FORMAT_TAR;
}

bool cay_base_read_tar(struct cay_base_import *import, int fd, struct cay_image_files *files,
                       struct cay_error *err)
{
    cay_auto(cay_archive_in_finish) struct cay_archive_in in = {};
    if (!cay_archive_in_open(&in, fd, true, err))
        return false;
    bool is_decided = false;
    for (;;) {
        struct archive_entry *entry = NULL;
        char path[PATH_MAX];
        if (!cay_archive_in_next(&in, &entry, err))
            return false;
        if (!entry)
            break;
        const char *raw = cay_archive_path(entry);
        if (!raw || !*raw || !cay_archive_clean(raw, path))
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "'%.80s' in the archive is no name inside it", raw ? raw : "");
        if (*path && !is_decided)
            import->is_image = is_image(import, path);
        is_decided = is_decided || *path;
        bool is_good = import->is_image ? cay_image_files_add(files, &in, entry, path, err)
                                        : cay_unpack_entry(&import->unpack, &in, entry, path, err);
        if (!is_good)
            return false;
    }
    if (!is_decided && !import->unpack.stats.entries)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the archive is empty");
    char sha256[CAY_SHA256_HEX_SIZE];
    if (!cay_archive_in_drain(&in, sha256, err))
        return false;
    import->info->bytes_read = in.bytes;
    const char *wanted = import->options->sha256;
    if (wanted && *wanted && strcmp(wanted, sha256) != 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "sha256: the data have another one, %s",
                        sha256);
    return true;
}
