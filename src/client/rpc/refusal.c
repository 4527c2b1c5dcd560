/* SPDX-License-Identifier: Apache-2.0 */
#include "client/rpc/refusal.h"

#include <errno.h>
#include <stdio.h>

#include "api/cay_v1.h"
#include "base/base64.h"
#include "base/json.h"

enum { DETAILS_MAX = 64, FACT_KEY_BYTES = 64, REASON_BYTES_MAX = 64 };

struct refusal {
    struct cay_str code;
    struct cay_str message;
    struct cay_str reason;
    struct cay_pb_pairs facts;
};

struct detail {
    struct cay_str type;
    struct cay_str value;
    struct cay_str debug_reason;
};

/* The next value when it is a string; any other value is read over. */
static bool read_string(struct cay_json_reader *json, struct cay_str *out_text)
{
    enum cay_json_token token = cay_json_next(json);
    if (token == CAY_JSON_STRING) {
        *out_text = json->text;
        return true;
    }
    if (token == CAY_JSON_OBJECT_BEGIN || token == CAY_JSON_ARRAY_BEGIN)
        return cay_json_skip(json) == 0;
    return token != CAY_JSON_ERROR;
}

static bool read_debug(struct cay_json_reader *json, struct detail *detail)
{
    enum cay_json_token token = cay_json_next(json);
    if (token == CAY_JSON_ARRAY_BEGIN)
        return cay_json_skip(json) == 0;
    if (token != CAY_JSON_OBJECT_BEGIN)
        return token != CAY_JSON_ERROR;
    while (cay_json_next(json) == CAY_JSON_KEY) {
        bool is_reason = cay_str_is(json->text, "reason");
        if (is_reason ? !read_string(json, &detail->debug_reason) : cay_json_skip(json) < 0)
            return false;
    }
    return json->token == CAY_JSON_OBJECT_END;
}

/* The value is what counts; the debug form is for people and may be missing. */
static struct cay_str detail_reason(const struct detail *detail, struct cay_arena *arena,
                                    struct refusal *refusal)
{
    struct cay_v1_error_info info = {};
    size_t len = 0;
    char *bytes = cay_arena_alloc(arena, cay_base64_decoded_len_max(detail->value.len) + 1);
    if (bytes && detail->value.ptr && cay_base64_decode(detail->value, bytes, &len) == 0 &&
        cay_pb_decode(&cay_v1_error_info_desc, (struct cay_str){bytes, len}, arena, &info) == 0 &&
        info.reason.len) {
        refusal->facts = info.metadata;
        return info.reason;
    }
    return detail->debug_reason;
}

static bool read_detail(struct cay_json_reader *json, struct cay_arena *arena,
                        struct refusal *refusal)
{
    struct detail detail = {};
    while (cay_json_next(json) == CAY_JSON_KEY) {
        bool is_read = false;
        if (cay_str_is(json->text, "type"))
            is_read = read_string(json, &detail.type);
        else if (cay_str_is(json->text, "value"))
            is_read = read_string(json, &detail.value);
        else if (cay_str_is(json->text, "debug"))
            is_read = read_debug(json, &detail);
        else
            is_read = cay_json_skip(json) == 0;
        if (!is_read)
            return false;
    }
    if (cay_str_is(detail.type, cay_v1_error_info_desc.full_name) && !refusal->reason.len)
        refusal->reason = detail_reason(&detail, arena, refusal);
    return json->token == CAY_JSON_OBJECT_END;
}

static bool read_details(struct cay_json_reader *json, struct cay_arena *arena,
                         struct refusal *refusal)
{
    enum cay_json_token token = cay_json_next(json);
    if (token == CAY_JSON_OBJECT_BEGIN)
        return cay_json_skip(json) == 0;
    if (token != CAY_JSON_ARRAY_BEGIN)
        return token != CAY_JSON_ERROR;
    for (unsigned count = 0; (token = cay_json_next(json)) != CAY_JSON_ARRAY_END; count++) {
        if (token == CAY_JSON_ERROR || count == DETAILS_MAX)
            return false;
        if (token == CAY_JSON_OBJECT_BEGIN && !read_detail(json, arena, refusal))
            return false;
        if (token == CAY_JSON_ARRAY_BEGIN && cay_json_skip(json) < 0)
            return false;
    }
    return true;
}

/* After the object's first token. */
static bool read_refusal(struct cay_json_reader *json, struct cay_arena *arena,
                         struct refusal *out_refusal)
{
    while (cay_json_next(json) == CAY_JSON_KEY) {
        bool is_read = false;
        if (cay_str_is(json->text, "code"))
            is_read = read_string(json, &out_refusal->code);
        else if (cay_str_is(json->text, "message"))
            is_read = read_string(json, &out_refusal->message);
        else if (cay_str_is(json->text, "details"))
            is_read = read_details(json, arena, out_refusal);
        else
            is_read = cay_json_skip(json) == 0;
        if (!is_read)
            return false;
    }
    return json->token == CAY_JSON_OBJECT_END;
}

static enum cay_reason reason_of_code(struct cay_str code)
{
    /* Each code that says something has a reason of the same name. */
    enum cay_reason reason = cay_reason_by_name(code);
    if (reason)
        return reason;
    return cay_str_is(code, "aborted") ? CAY_R_FAILED_PRECONDITION : CAY_R_INTERNAL;
}

static void set_error(const struct refusal *refusal, struct cay_error *out_err)
{
    enum cay_reason reason = cay_reason_by_name(refusal->reason);
    bool is_known = reason != CAY_R_NONE;
    if (!is_known)
        reason = reason_of_code(refusal->code);
    if (refusal->message.len)
        cay_fail(out_err, reason, "%.*s", (int)CAY_MIN(refusal->message.len, sizeof(out_err->text)),
                 refusal->message.ptr);
    else
        cay_fail(out_err, reason, NULL);
    if (!is_known && refusal->reason.len)
        cay_error_fact(out_err, CAY_FACT_REASON, "%.*s",
                       (int)CAY_MIN(refusal->reason.len, REASON_BYTES_MAX), refusal->reason.ptr);
    for (size_t i = 0; i < refusal->facts.count; i++) {
        const struct cay_pb_pair *fact = &refusal->facts.items[i];
        char key[FACT_KEY_BYTES];
        snprintf(key, sizeof(key), "%.*s", (int)CAY_MIN(fact->key.len, sizeof(key)),
                 fact->key.len ? fact->key.ptr : "");
        if (key[0])
            cay_error_fact(out_err, key, "%.*s", (int)fact->value.len,
                           fact->value.len ? fact->value.ptr : "");
    }
}

static enum cay_reason reason_of_status(long http_status)
{
    switch (http_status) {
    case 401: return CAY_R_UNAUTHENTICATED;
    case 403: return CAY_R_PERMISSION_DENIED;
    case 404: return CAY_R_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504: return CAY_R_UNAVAILABLE;
    default: return CAY_R_INTERNAL;
    }
}

void cay_refusal_read(struct cay_str body, long http_status, struct cay_error *out_err)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, 4 * CAY_REFUSAL_BYTES_MAX);
    struct cay_json_reader json;
    struct refusal refusal = {};
    cay_json_reader_init(&json, body, &arena);
    if (cay_json_next(&json) == CAY_JSON_OBJECT_BEGIN && read_refusal(&json, &arena, &refusal) &&
        cay_json_next(&json) == CAY_JSON_END && refusal.code.len)
        set_error(&refusal, out_err);
    else
        cay_fail(out_err, reason_of_status(http_status),
                 "the answer was HTTP status %ld without an explanation; is this the address of a "
                 "cayd?",
                 http_status);
}

int cay_refusal_read_end(struct cay_str payload, struct cay_error *out_err)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, 4 * CAY_REFUSAL_BYTES_MAX);
    struct cay_json_reader json;
    struct refusal refusal = {};
    bool is_refused = false;
    cay_json_reader_init(&json, payload, &arena);
    if (cay_json_next(&json) != CAY_JSON_OBJECT_BEGIN)
        return -EBADMSG;
    while (cay_json_next(&json) == CAY_JSON_KEY) {
        if (!cay_str_is(json.text, "error")) {
            if (cay_json_skip(&json) < 0)
                return -EBADMSG;
            continue;
        }
        enum cay_json_token token = cay_json_next(&json);
        if (token == CAY_JSON_NULL)
            continue;
        if (token != CAY_JSON_OBJECT_BEGIN || !read_refusal(&json, &arena, &refusal))
            return -EBADMSG;
        is_refused = true;
    }
    if (json.token != CAY_JSON_OBJECT_END || cay_json_next(&json) != CAY_JSON_END)
        return -EBADMSG;
    if (is_refused)
        set_error(&refusal, out_err);
    return is_refused;
}
