/* SPDX-License-Identifier: Apache-2.0 */
#include "base/conf.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/conf_internal.h"

/* The place of the entry with this key; count when there is none. */
static size_t find_key(const struct cay_conf *conf, struct cay_str key)
{
    size_t index = 0;
    while (index < conf->count && !cay_str_is(key, conf->entries[index].key))
        index++;
    return index;
}

/* Opened once, without waiting for a fifo's writer; what is judged is what is read. */
static bool read_file(const char *path, struct cay_buf *out, struct cay_error *err)
{
    cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0)
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "read the configuration '%s'",
                              path);
    if (!S_ISREG(status.st_mode))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the configuration '%s' is not a regular file",
                        path);
    /* Reserved once: growing would leave copies of secrets behind. */
    char *room = cay_buf_reserve(out, CAY_CONF_FILE_BYTES_MAX + 1);
    while (room && out->len <= CAY_CONF_FILE_BYTES_MAX) {
        ssize_t got = read(fd, room + out->len, CAY_CONF_FILE_BYTES_MAX + 1 - out->len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno,
                                  "read the configuration '%s'", path);
        if (got == 0)
            return true;
        cay_buf_grew(out, (size_t)got);
    }
    return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "the configuration '%s' is larger than the 1 MiB that is read", path);
}

/* Takes a value in double quotes off *text, with \" and \\ for those two. */
static bool unquote(struct cay_str *text, struct cay_buf *out)
{
    size_t at = 1;
    for (; at < text->len && text->ptr[at] != '"'; at++) {
        if (text->ptr[at] == '\\') {
            at++;
            if (at == text->len || (text->ptr[at] != '"' && text->ptr[at] != '\\'))
                return false;
        }
        cay_buf_append_byte(out, (unsigned char)text->ptr[at]);
    }
    if (at == text->len)
        return false;
    *text = cay_str_trim((struct cay_str){text->ptr + at + 1, text->len - at - 1});
    return !text->len || *text->ptr == '#';
}

/* Without quotes a comment begins at a '#' that stands first or after a blank. */
static struct cay_str cut_comment(struct cay_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '#' && (!i || text.ptr[i - 1] == ' ' || text.ptr[i - 1] == '\t'))
            return cay_str_trim((struct cay_str){text.ptr, i});
    }
    return text;
}

/* What was never filled holds no secret. */
static void finish_wiped(struct cay_buf *buf)
{
    cay_wipe(buf->data, buf->len);
    cay_buf_finish(buf);
}

static bool load_line(struct cay_conf *conf, const struct cay_conf_place *place,
                      struct cay_str line, struct cay_error *err)
{
    if (line.len && line.ptr[line.len - 1] == '\r')
        line.len--;
    line = cay_str_trim(line);
    if (!line.len || *line.ptr == '#')
        return true;
    struct cay_str rest = line;
    struct cay_str key;
    if (memchr(line.ptr, '\0', line.len) || !cay_str_split(&rest, '=', &key) || !rest.ptr)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "%s:%u is not of the form 'key = value'",
                        place->file, place->line);
    key = cay_str_trim(key);
    size_t index = find_key(conf, key);
    if (index == conf->count)
        return cay_conf_fail_unknown(conf, place, key, key, NULL, err);
    struct cay_str value = cay_str_trim(rest);
    if (!value.len || *value.ptr != '"')
        return cay_conf_set_from(conf, index, place, cut_comment(value), err);

    cay_auto(finish_wiped) struct cay_buf text;
    cay_buf_init(&text, CAY_CONF_FILE_BYTES_MAX);
    /* As much as can come out, so that no copy is left by growing. */
    if (!cay_buf_reserve(&text, value.len) || !unquote(&value, &text))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "%s in %s:%u has a broken quoted value; write \"...\" with \\\" and \\\\ "
                        "inside",
                        conf->entries[index].key, place->file, place->line);
    return cay_conf_set_from(conf, index, place, cay_buf_str(&text), err);
}

bool cay_conf_load_file(struct cay_conf *conf, const char *path, struct cay_error *err)
{
    cay_auto(finish_wiped) struct cay_buf text;
    cay_buf_init(&text, CAY_CONF_FILE_BYTES_MAX + 1);
    if (!read_file(path, &text, err))
        return false;
    for (size_t i = 0; i < conf->count; i++)
        conf->origins[i].file_line = 0;
    struct cay_conf_place place = {.source = CAY_CONF_FILE, .file = path};
    struct cay_str rest = cay_buf_str(&text);
    if (cay_str_starts(rest, "\xEF\xBB\xBF"))
        rest = (struct cay_str){rest.ptr + 3, rest.len - 3};
    struct cay_str line;
    while (cay_str_split(&rest, '\n', &line)) {
        place.line++;
        if (!load_line(conf, &place, line, err))
            return false;
    }
    return true;
}
