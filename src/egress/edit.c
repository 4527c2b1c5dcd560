/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/edit.h"

#include "base/base64.h"

enum { EDITED_BYTES_MAX = 64 * 1024 };

static_assert((int)CAY_EGRESS_SECRETS_MAX <= 64, "one bit each");

struct edit {
    struct cay_str host;
    const struct cay_egress_secrets *secrets;
    struct cay_buf *out;
    uint64_t used; /* bits */
};

static void wipe_buf(struct cay_buf *buf)
{
    if (buf->data)
        cay_wipe(buf->data, buf->cap);
    cay_buf_finish(buf);
}

static const char *find(struct cay_str text, struct cay_str word)
{
    return text.len ? memmem(text.ptr, text.len, word.ptr, word.len) : NULL;
}

/* The placeholder that comes first; NULL: none. */
static const struct cay_egress_secret *first_in(const struct edit *edit, struct cay_str text,
                                                const char **out_at)
{
    const struct cay_egress_secret *first = NULL;
    *out_at = NULL;
    for (size_t i = 0; i < edit->secrets->count; i++) {
        const struct cay_egress_secret *one = &edit->secrets->items[i];
        const char *at = find(text, one->placeholder);
        if (at && (!first || at < *out_at)) {
            first = one;
            *out_at = at;
        }
    }
    return first;
}

/* One placeholder may be bound to several names and headers: 0 when it is to none that fit. */
static enum egress_edit bound(const struct edit *edit, struct cay_str placeholder,
                              struct cay_str header, const struct cay_egress_secret **out)
{
    bool has_name = false;
    for (size_t i = 0; i < edit->secrets->count; i++) {
        const struct cay_egress_secret *one = &edit->secrets->items[i];
        if (!cay_str_equal(one->placeholder, placeholder) || !cay_str_equal(one->host, edit->host))
            continue;
        has_name = true;
        if (cay_str_equal_nocase(one->header, header)) {
            *out = one;
            return EGRESS_EDIT_DONE;
        }
    }
    return has_name ? EGRESS_EDIT_IN_HEADER : EGRESS_EDIT_OTHER_NAME;
}

/* The text with values, to `out`; what was put in is not looked at again. */
static enum egress_edit replace(struct edit *edit, struct cay_str header, struct cay_str text,
                                struct cay_buf *out)
{
    for (;;) {
        const char *at = NULL;
        const struct cay_egress_secret *one = first_in(edit, text, &at);
        if (!one)
            break;
        struct cay_str placeholder = one->placeholder;
        enum egress_edit result = bound(edit, placeholder, header, &one);
        if (result != EGRESS_EDIT_DONE)
            return result;
        cay_buf_append(out, text.ptr, (size_t)(at - text.ptr));
        cay_buf_append_str(out, one->value);
        edit->used |= UINT64_C(1) << (one - edit->secrets->items);
        text.len -= (size_t)(at - text.ptr) + placeholder.len;
        text.ptr = at + placeholder.len;
    }
    cay_buf_append_str(out, text);
    return out->failed ? EGRESS_EDIT_TOO_LARGE : EGRESS_EDIT_DONE;
}

/* "Basic dXNlcjpwYXNz": true when this is one that has a placeholder, as its text. */
static bool read_basic(const struct edit *edit, const struct cay_http_header *field,
                       struct cay_buf *out_text)
{
    struct cay_str rest = field->value;
    struct cay_str scheme;
    const char *at = NULL;
    if (!cay_str_equal_nocase(field->name, CAY_STR("authorization")) ||
        !cay_str_split(&rest, ' ', &scheme) || !cay_str_equal_nocase(scheme, CAY_STR("basic")) ||
        !edit->secrets->count)
        return false;
    rest = cay_str_trim(rest);
    size_t len = 0;
    char *room = rest.len ? cay_buf_reserve(out_text, cay_base64_decoded_len_max(rest.len)) : NULL;
    if (!room || cay_base64_decode(rest, room, &len) < 0)
        return false;
    cay_buf_grew(out_text, len);
    return first_in(edit, cay_buf_str(out_text), &at) != NULL;
}

static bool has_control(struct cay_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.ptr[i] < ' ' || text.ptr[i] == 0x7F)
            return true;
    }
    return false;
}

static enum egress_edit put_value(struct edit *edit, const struct cay_http_header *field)
{
    cay_auto(wipe_buf) struct cay_buf text;
    cay_auto(wipe_buf) struct cay_buf with_value;
    cay_buf_init(&text, EDITED_BYTES_MAX);
    cay_buf_init(&with_value, EDITED_BYTES_MAX);
    if (!read_basic(edit, field, &text))
        return replace(edit, field->name, field->value, edit->out);
    /* All at once: what grows leaves copies behind. */
    (void)cay_buf_reserve(&with_value, EDITED_BYTES_MAX);
    enum egress_edit result = has_control(cay_buf_str(&text))
                                  ? EGRESS_EDIT_IN_HEADER
                                  : replace(edit, field->name, cay_buf_str(&text), &with_value);
    if (result == EGRESS_EDIT_DONE) {
        cay_buf_append_text(edit->out, "Basic ");
        cay_base64_append(edit->out, cay_buf_str(&with_value), true);
    }
    return edit->out->failed ? EGRESS_EDIT_TOO_LARGE : result;
}

enum egress_edit egress_edit_head(struct cay_str bytes, const struct cay_http1_head *head,
                                  struct cay_str host, const struct cay_egress_secrets *secrets,
                                  struct cay_buf *out, uint64_t *out_used)
{
    struct edit edit = {.host = host, .secrets = secrets, .out = out};
    const char *cursor = bytes.ptr;
    const char *at = NULL;
    size_t fields_at =
        head->headers.count ? (size_t)(head->headers.items[0].name.ptr - bytes.ptr) : bytes.len;
    if (first_in(&edit, (struct cay_str){bytes.ptr, fields_at}, &at))
        return EGRESS_EDIT_IN_TARGET;
    for (size_t i = 0; i < head->headers.count; i++) {
        const struct cay_http_header *field = &head->headers.items[i];
        if (first_in(&edit, field->name, &at))
            return EGRESS_EDIT_IN_HEADER;
        cay_buf_append(out, cursor, (size_t)(field->value.ptr - cursor));
        enum egress_edit result = put_value(&edit, field);
        if (result != EGRESS_EDIT_DONE)
            return result;
        cursor = field->value.ptr + field->value.len;
    }
    cay_buf_append(out, cursor, (size_t)(bytes.ptr + bytes.len - cursor));
    if (edit.used && cay_str_equal_nocase(head->method, CAY_STR("TRACE")))
        return EGRESS_EDIT_ECHO;
    *out_used = edit.used;
    return out->failed ? EGRESS_EDIT_TOO_LARGE : EGRESS_EDIT_DONE;
}
