/* SPDX-License-Identifier: Apache-2.0 */
#include "host/runtime/description.h"

enum { FORMAT = 1 };

void cay_description_write(const struct cay_description *description, const char *runtime,
                           struct cay_buf *out_text)
{
    cay_buf_printf(out_text,
                   "format=%d\nruntime=%s\nid=%s\npid=%d\nstart=%llu\nbase=%u\ntoken=", FORMAT,
                   runtime, description->id, (int)description->pid,
                   (unsigned long long)description->start_ticks, description->uid_base);
    for (size_t i = 0; i < sizeof(description->token); i++)
        cay_buf_printf(out_text, "%02x", description->token[i]);
    cay_buf_append_byte(out_text, '\n');
}

static bool take(struct cay_str *rest, const char *key, struct cay_str *out_value)
{
    struct cay_str line;
    struct cay_str name;
    if (!cay_str_split(rest, '\n', &line) || !cay_str_split(&line, '=', &name) ||
        !cay_str_is(name, key))
        return false;
    *out_value = line;
    return true;
}

static bool take_number(struct cay_str *rest, const char *key, uint64_t max, uint64_t *out_number)
{
    struct cay_str value;
    return take(rest, key, &value) && cay_str_to_u64(value, max, out_number) == 0;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_token(struct cay_str hex, uint8_t *out_token)
{
    if (hex.len != (size_t)CAY_FRAME_TOKEN_BYTES * 2)
        return false;
    for (size_t i = 0; i < CAY_FRAME_TOKEN_BYTES; i++) {
        int high = digit(hex.ptr[2 * i]);
        int low = digit(hex.ptr[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out_token[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

bool cay_description_read(struct cay_str text, const char *runtime,
                          struct cay_description *out_description)
{
    struct cay_str value;
    uint64_t format = 0;
    uint64_t pid = 0;
    uint64_t base = 0;
    struct cay_description read = {};
    if (!take_number(&text, "format", FORMAT, &format) || format != FORMAT ||
        !take(&text, "runtime", &value) || !cay_str_is(value, runtime) ||
        !take(&text, "id", &value) || value.len == 0 || value.len >= sizeof(read.id) ||
        memchr(value.ptr, '/', value.len))
        return false;
    memcpy(read.id, value.ptr, value.len);
    if (!take_number(&text, "pid", INT32_MAX, &pid) || pid == 0 ||
        !take_number(&text, "start", UINT64_MAX, &read.start_ticks) ||
        !take_number(&text, "base", UINT32_MAX, &base) || !take(&text, "token", &value) ||
        !read_token(value, read.token))
        return false;
    read.pid = (pid_t)pid;
    read.uid_base = (uint32_t)base;
    *out_description = read;
    return true;
}
