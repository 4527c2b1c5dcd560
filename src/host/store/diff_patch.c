/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/diff_patch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "host/store/store_ops.h"

enum content {
    CONTENT_NONE = 0, /* the side has nothing to show */
    CONTENT_TEXT,
    CONTENT_BINARY, /* or too large */
};

/* Git's way: names with odd bytes are written in double quotes, octal for what has no letter. */
static void put_path(struct cay_buf *out, const char *prefix, const char *path)
{
    bool odd = false;
    for (const char *c = path; *c; c++)
        odd =
            odd || (unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f || *c == '"' || *c == '\\';
    if (!odd) {
        cay_buf_printf(out, "%s%s", prefix, path);
        return;
    }
    cay_buf_printf(out, "\"%s", prefix);
    for (const char *c = path; *c; c++) {
        if (*c == '"' || *c == '\\')
            cay_buf_printf(out, "\\%c", *c);
        else if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f)
            cay_buf_printf(out, "\\%03o", (unsigned)(unsigned char)*c);
        else
            cay_buf_append_byte(out, (unsigned char)*c);
    }
    cay_buf_append_byte(out, '"');
}

static bool is_shown(const struct cay_diff_side *side)
{
    return side->dir_fd >= 0 && (S_ISREG(side->st.st_mode) || S_ISLNK(side->st.st_mode));
}

static unsigned git_mode(const struct stat *st)
{
    if (S_ISLNK(st->st_mode))
        return 0120000;
    return st->st_mode & 0111 ? 0100755 : 0100644;
}

static int read_file(const struct cay_diff_side *side, struct cay_buf *out)
{
    cay_autoclose int fd =
        openat(side->dir_fd, side->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    for (;;) {
        char *room = cay_buf_reserve(out, 16 * 1024);
        if (!room)
            return 0; /* grew while we looked: failed says so */
        ssize_t len = read(fd, room, 16 * 1024);
        if (len <= 0)
            return len < 0 ? -errno : 0;
        cay_buf_grew(out, (size_t)len);
    }
}

static int load(const struct cay_diff_side *side, struct cay_buf *out, enum content *out_content)
{
    *out_content = CONTENT_NONE;
    if (!is_shown(side))
        return 0;
    *out_content = CONTENT_BINARY;
    int rc = 0;
    if (S_ISLNK(side->st.st_mode)) {
        char *room = cay_buf_reserve(out, PATH_MAX);
        ssize_t len = room ? readlinkat(side->dir_fd, side->name, room, PATH_MAX) : 0;
        rc = len < 0 ? -errno : 0;
        cay_buf_grew(out, (size_t)CAY_MAX(len, 0));
    } else {
        if (side->st.st_size > CAY_PATCH_FILE_BYTES_MAX)
            return 0;
        rc = read_file(side, out);
    }
    if (!rc && !out->failed && !cay_patch_is_binary(cay_buf_str(out)))
        *out_content = CONTENT_TEXT;
    return rc;
}

static void put_header(const struct cay_diff_side *before, const struct cay_diff_side *after,
                       const char *path, struct cay_buf *out)
{
    cay_buf_append_text(out, "diff --git ");
    put_path(out, "a/", path);
    cay_buf_append_byte(out, ' ');
    put_path(out, "b/", path);
    cay_buf_append_byte(out, '\n');
    if (!is_shown(before)) {
        cay_buf_printf(out, "new file mode %06o\n", git_mode(&after->st));
    } else if (!is_shown(after)) {
        cay_buf_printf(out, "deleted file mode %06o\n", git_mode(&before->st));
    } else if (git_mode(&before->st) != git_mode(&after->st)) {
        cay_buf_printf(out, "old mode %06o\nnew mode %06o\n", git_mode(&before->st),
                       git_mode(&after->st));
    }
}

static void put_name(const struct cay_diff_side *side, const char *prefix, const char *path,
                     struct cay_buf *out)
{
    const char *name = is_shown(side) ? path : "/dev/null";
    put_path(out, is_shown(side) ? prefix : "", name);
    /* As git does: to patch(1) a name ends at its first blank when no tab follows it. */
    if (strchr(name, ' '))
        cay_buf_append_byte(out, '\t');
    cay_buf_append_byte(out, '\n');
}

static void put_names(const struct cay_diff_side *before, const struct cay_diff_side *after,
                      const char *path, struct cay_buf *out)
{
    cay_buf_append_text(out, "--- ");
    put_name(before, "a/", path, out);
    cay_buf_append_text(out, "+++ ");
    put_name(after, "b/", path, out);
}

static bool put_patch(const struct cay_diff_side *before, const struct cay_diff_side *after,
                      const char *path, size_t context, struct cay_buf *out, struct cay_error *err)
{
    if (!is_shown(before) && !is_shown(after))
        return true;
    cay_auto(cay_buf_finish) struct cay_buf old_text;
    cay_auto(cay_buf_finish) struct cay_buf new_text;
    cay_buf_init(&old_text, CAY_PATCH_FILE_BYTES_MAX + 32 * 1024);
    cay_buf_init(&new_text, CAY_PATCH_FILE_BYTES_MAX + 32 * 1024);
    enum content old_content = CONTENT_NONE;
    enum content new_content = CONTENT_NONE;
    int rc = load(before, &old_text, &old_content);
    if (!rc)
        rc = load(after, &new_text, &new_content);
    if (rc < 0)
        return cay_store_fail(err, rc, "read '%.100s'", path);
    put_header(before, after, path, out);
    bool text = old_content != CONTENT_BINARY && new_content != CONTENT_BINARY;
    cay_auto(cay_buf_finish) struct cay_buf hunks;
    cay_buf_init(&hunks, out->size_bytes_max);
    if (text)
        text = cay_patch_hunks(cay_buf_str(&old_text), cay_buf_str(&new_text), context, &hunks);
    if (!text) {
        cay_buf_append_text(out, "Binary files ");
        put_path(out, is_shown(before) ? "a/" : "", is_shown(before) ? path : "/dev/null");
        cay_buf_append_text(out, " and ");
        put_path(out, is_shown(after) ? "b/" : "", is_shown(after) ? path : "/dev/null");
        cay_buf_append_text(out, " differ\n");
    } else if (hunks.len > 0 || hunks.failed) {
        put_names(before, after, path, out);
        cay_buf_append_str(out, cay_buf_str(&hunks));
        out->failed = out->failed || hunks.failed;
    }
    return true;
}

bool cay_diff_patch(const struct cay_diff_entry *entry, size_t context, struct cay_buf *out,
                    struct cay_error *err)
{
    static const struct cay_diff_side none = {.dir_fd = -1};
    /* A change of type is the end of one thing and the beginning of another. */
    if (entry->kind == CAY_DIFF_TYPE)
        return put_patch(&entry->before, &none, entry->path, context, out, err) &&
               put_patch(&none, &entry->after, entry->path, context, out, err);
    if (entry->kind == CAY_DIFF_META && git_mode(&entry->before.st) == git_mode(&entry->after.st))
        return true; /* an owner or an attribute: nothing a patch can say */
    return put_patch(&entry->before, &entry->after, entry->path, context, out, err);
}
