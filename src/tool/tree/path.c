/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/tree/path.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "base/utf8.h"
#include "tool/tree/owner.h"
#include "tool/tree/tree.h"

/* U+EF80 to U+EFFF in UTF-8: EE BE 80 to EE BF BF. */
enum { CARRIER_LEN = 3 };

static bool is_carrier(const char *at, size_t len)
{
    const unsigned char *byte = (const unsigned char *)at;
    return len >= CARRIER_LEN && byte[0] == 0xEE && (byte[1] == 0xBE || byte[1] == 0xBF) &&
           (byte[2] & 0xC0) == 0x80;
}

static char carried_byte(const char *at)
{
    return (char)(((at[1] & 0x03) << 6) | (at[2] & 0x3F));
}

static size_t put_carrier(unsigned char byte, char *out)
{
    return cay_utf8_put(0xEF00u + byte, out);
}

/* One step of encoding: how many bytes were read; *out_len how many were (or would be) written. */
static size_t encode_step(const char *at, size_t len, char *out, size_t *out_len)
{
    int step = cay_utf8_step(at, len);
    size_t read = step > 0 ? (size_t)step : 1;
    if (step > 0 && !is_carrier(at, len)) {
        if (out)
            memcpy(out, at, read);
        *out_len = read;
        return read;
    }
    for (size_t i = 0; out && i < read; i++)
        put_carrier((unsigned char)at[i], out + i * CARRIER_LEN);
    *out_len = read * CARRIER_LEN;
    return read;
}

size_t cay_path_encoded_len(struct cay_str bytes)
{
    size_t at = cay_utf8_ascii_prefix(bytes);
    size_t total = at;
    for (size_t len = 0; at < bytes.len; total += len)
        at += encode_step(bytes.ptr + at, bytes.len - at, NULL, &len);
    return total;
}

void cay_path_encode(struct cay_str bytes, char *out)
{
    size_t at = 0;
    for (size_t len = 0; at < bytes.len; out += len)
        at += encode_step(bytes.ptr + at, bytes.len - at, out, &len);
}

struct cay_str cay_path_text(struct cay_arena *arena, struct cay_str bytes)
{
    size_t len = cay_path_encoded_len(bytes);
    char *text = cay_arena_alloc(arena, len + 1);
    if (!text)
        return (struct cay_str){};
    cay_path_encode(bytes, text);
    return (struct cay_str){text, len};
}

bool cay_path_decode(struct cay_str text, struct cay_path *out_path, struct cay_error *err)
{
    if (text.len && memchr(text.ptr, '\0', text.len))
        return cay_fail(err, CAY_R_INVALID_PATH, "a path may not hold a NUL byte");
    size_t len = 0;
    for (size_t at = 0; at < text.len; len++) {
        if (len + 1 >= sizeof(out_path->bytes))
            return cay_fail(err, CAY_R_INVALID_PATH, "a path may have at most %d bytes",
                            CAY_PATH_BYTES_MAX - 1);
        bool carrier = is_carrier(text.ptr + at, text.len - at);
        out_path->bytes[len] = carrier ? carried_byte(text.ptr + at) : text.ptr[at];
        at += carrier ? CARRIER_LEN : 1;
    }
    out_path->bytes[len] = '\0';
    out_path->len = len;
    return true;
}

/* Appends the parts of `text` to an absolute path, without empty ones and `.`. */
static bool append_parts(struct cay_path *path, struct cay_str text)
{
    struct cay_str rest = text;
    struct cay_str part;
    while (cay_str_split(&rest, '/', &part)) {
        if (!part.len || cay_str_is(part, "."))
            continue;
        if (path->len + 1 + part.len >= sizeof(path->bytes))
            return false;
        path->bytes[path->len++] = '/';
        memcpy(path->bytes + path->len, part.ptr, part.len);
        path->len += part.len;
    }
    path->bytes[path->len] = '\0';
    return true;
}

/* The slash at the end of "dir/" says that a directory is meant, so it is kept. `.` says so too. */
static bool names_directory(struct cay_str text)
{
    return text.ptr[text.len - 1] == '/' ||
           (text.len >= 2 && memcmp(text.ptr + text.len - 2, "/.", 2) == 0);
}

static bool end_path(struct cay_path *path, bool fits, struct cay_str text, struct cay_error *err)
{
    bool slash = fits && (path->len == 0 || (text.len && names_directory(text)));
    if (!fits || path->len + slash >= sizeof(path->bytes))
        return cay_fail(err, CAY_R_INVALID_PATH, "a path may have at most %d bytes",
                        CAY_PATH_BYTES_MAX - 1);
    if (slash)
        path->bytes[path->len++] = '/';
    path->bytes[path->len] = '\0';
    return true;
}

/* A directory of this host has one name in all results; its path there is taken for it, since that
 * is what commands print. A home is elsewhere. */
static bool resolve_own(const struct cay_tool_tree *tree, struct cay_str text,
                        struct cay_path *out_path, struct cay_error *err)
{
    struct cay_path whole = {};
    bool fits = true;
    if (text.ptr[0] == '~' && (text.len == 1 || text.ptr[1] == '/'))
        return cay_tree_fail(err, -ENOLINK, text);
    if (text.ptr[0] != '/')
        fits = append_parts(&whole, tree->cwd.len ? tree->cwd : tree->name);
    if (!fits || !append_parts(&whole, text))
        return end_path(out_path, false, text, err);
    struct cay_str path = {whole.bytes, whole.len};
    struct cay_str rest = cay_tree_rest(path, tree->host_name);
    if (!rest.ptr)
        rest = cay_tree_rest(path, tree->name);
    if (!rest.ptr)
        return cay_tree_fail(err, -ENOLINK, path);
    out_path->len = 0;
    fits = append_parts(out_path, tree->name) && append_parts(out_path, rest);
    return end_path(out_path, fits, text, err);
}

bool cay_path_resolve(const struct cay_tool_tree *tree, struct cay_str text,
                      struct cay_path *out_path, struct cay_error *err)
{
    if (!text.len)
        return cay_fail(err, CAY_R_INVALID_PATH, "the path is empty");
    struct cay_path given;
    if (!cay_path_decode(text, &given, err))
        return false;
    struct cay_str rest = {given.bytes, given.len};
    if (tree->is_own)
        return resolve_own(tree, rest, out_path, err);
    struct cay_path home;
    out_path->len = 0;
    bool fits = true;
    if (rest.ptr[0] == '~' && (rest.len == 1 || rest.ptr[1] == '/')) {
        cay_owner_home(tree, &home);
        fits = append_parts(out_path, (struct cay_str){home.bytes, home.len});
        rest = (struct cay_str){rest.ptr + 1, rest.len - 1};
    } else if (rest.ptr[0] != '/') {
        fits = append_parts(out_path, tree->cwd.len ? tree->cwd : CAY_STR("/workspace"));
    }
    fits = fits && append_parts(out_path, rest);
    return end_path(out_path, fits, rest, err);
}

static bool is_control(unsigned char byte)
{
    return byte < 0x20 || byte == 0x7F;
}

void cay_path_append_shown(struct cay_buf *buf, struct cay_str bytes)
{
    for (size_t at = 0; at < bytes.len;) {
        unsigned char byte = (unsigned char)bytes.ptr[at];
        if (byte == '\n' || byte == '\t') {
            cay_buf_append_text(buf, byte == '\n' ? "\\n" : "\\t");
            at++;
        } else if (is_control(byte)) {
            cay_buf_printf(buf, "\\x%02x", byte);
            at++;
        } else {
            char out[4 * CARRIER_LEN];
            size_t len = 0;
            at += encode_step(bytes.ptr + at, bytes.len - at, out, &len);
            cay_buf_append(buf, out, len);
        }
    }
}

void cay_path_excerpt(struct cay_str bytes, char *out, size_t size)
{
    assert(size > 32);
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_buf_init(&buf, CAY_PATH_BYTES_MAX * (size_t)4);
    cay_path_append_shown(&buf, bytes);
    if (!buf.len || buf.len < size) {
        snprintf(out, size, "%.*s", (int)buf.len, buf.len ? buf.data : "");
        return;
    }
    /* The end says most. Cut where a character begins. */
    const char *tail = buf.data + buf.len - (size - sizeof("..."));
    while ((*tail & 0xC0) == 0x80)
        tail++;
    snprintf(out, size, "...%.*s", (int)(buf.data + buf.len - tail), tail);
}

struct cay_str cay_path_name(struct cay_str path)
{
    while (path.len > 1 && path.ptr[path.len - 1] == '/')
        path.len--;
    size_t start = path.len;
    while (start > 0 && path.ptr[start - 1] != '/')
        start--;
    return (struct cay_str){path.ptr + start, path.len - start};
}
