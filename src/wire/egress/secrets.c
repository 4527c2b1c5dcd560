/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/egress/secrets.h"

#include <stdlib.h>

#include "wire/egress/egress.h"

/* Four texts, each behind two bytes of its length, little-endian. */

enum { TEXTS = 4 };

static bool has_only(struct cay_str text, const char *others)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!is_plain && (!c || !strchr(others, c)))
            return false;
    }
    return text.len > 0;
}

/* What a header's value may be, and not begin or end with a blank. */
static bool is_value(struct cay_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        bool is_blank = c == ' ' || c == '\t';
        if ((c < ' ' && c != '\t') || c == 0x7F || (is_blank && (i == 0 || i == text.len - 1)))
            return false;
    }
    return text.len > 0;
}

const char *cay_egress_secret_fault(const struct cay_egress_secret *secret)
{
    static const char capitals[] = "-ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    if (!has_only(secret->host, "-._") || secret->host.len > CAY_EGRESS_NAME_BYTES_MAX)
        return "it is bound to a name in small letters, digits, '-' and '.'";
    if (!has_only(secret->header, "-_") || secret->header.len > CAY_EGRESS_HEADER_BYTES_MAX)
        return "the name of a header has small letters, digits and '-'";
    if (cay_str_is(secret->header, "host") || cay_str_is(secret->header, "content-length") ||
        cay_str_is(secret->header, "transfer-encoding") ||
        cay_str_is(secret->header, "connection") || cay_str_is(secret->header, "upgrade") ||
        cay_str_is(secret->header, "expect"))
        return "this header says how a request is to be read, and cannot have a secret";
    if (!has_only(secret->placeholder, capitals) ||
        secret->placeholder.len < CAY_EGRESS_PLACEHOLDER_BYTES_MIN ||
        secret->placeholder.len > CAY_EGRESS_PLACEHOLDER_BYTES_MAX)
        return "a placeholder has letters, digits and '-'";
    if (secret->value.len > CAY_EGRESS_VALUE_BYTES_MAX)
        return "the value is longer than 8192 bytes";
    if (!is_value(secret->value))
        return "the value has characters that no header can have";
    return NULL;
}

static void put_text(struct cay_buf *out, struct cay_str text)
{
    cay_buf_append_byte(out, (unsigned char)text.len);
    cay_buf_append_byte(out, (unsigned char)(text.len >> 8));
    cay_buf_append_str(out, text);
}

void cay_egress_secret_put(struct cay_buf *out, const struct cay_egress_secret *secret)
{
    out->failed = out->failed || cay_egress_secret_fault(secret);
    put_text(out, secret->host);
    put_text(out, secret->header);
    put_text(out, secret->placeholder);
    put_text(out, secret->value);
}

bool cay_egress_secret_next(struct cay_str *rest, struct cay_egress_secret *out_secret)
{
    struct cay_egress_secret secret = {};
    struct cay_str *texts[TEXTS] = {&secret.host, &secret.header, &secret.placeholder,
                                    &secret.value};
    struct cay_str left = *rest;
    for (size_t i = 0; i < TEXTS; i++) {
        if (left.len < 2)
            return false;
        size_t len = (size_t)(unsigned char)left.ptr[0] | (size_t)(unsigned char)left.ptr[1] << 8;
        if (len > left.len - 2)
            return false;
        *texts[i] = (struct cay_str){left.ptr + 2, len};
        left = (struct cay_str){left.ptr + 2 + len, left.len - 2 - len};
    }
    if (cay_egress_secret_fault(&secret))
        return false;
    *out_secret = secret;
    *rest = left;
    return true;
}

static void finish_text(struct cay_str *text)
{
    char *bytes = (char *)(uintptr_t)text->ptr;
    if (bytes)
        cay_wipe(bytes, text->len);
    free(bytes);
    *text = (struct cay_str){};
}

void cay_egress_secrets_finish(struct cay_egress_secrets *secrets)
{
    for (size_t i = 0; i < secrets->count; i++) {
        finish_text(&secrets->items[i].host);
        finish_text(&secrets->items[i].header);
        finish_text(&secrets->items[i].placeholder);
        finish_text(&secrets->items[i].value);
    }
    free(secrets->items);
    *secrets = (struct cay_egress_secrets){};
}

static struct cay_str copy_text(struct cay_str text)
{
    char *bytes = cay_alloc(text.len + 1);
    if (text.len)
        memcpy(bytes, text.ptr, text.len);
    bytes[text.len] = '\0';
    return (struct cay_str){bytes, text.len};
}

void cay_egress_secrets_add(struct cay_egress_secrets *secrets,
                            const struct cay_egress_secret *secret)
{
    secrets->items = cay_realloc_array(secrets->items, secrets->count + 1, sizeof(*secrets->items));
    secrets->items[secrets->count++] = (struct cay_egress_secret){
        .host = copy_text(secret->host),
        .header = copy_text(secret->header),
        .placeholder = copy_text(secret->placeholder),
        .value = copy_text(secret->value),
    };
}
