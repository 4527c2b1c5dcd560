/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/request.h"

#include "api/limits.h"
#include "api/noun.h"
#include "base/utf8.h"
#include "tool/tree/user.h"

static bool has_control(struct cay_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.ptr[i] < 0x20 || text.ptr[i] == 0x7F)
            return true;
    }
    return false;
}

bool cay_build_is_label(struct cay_pb_pairs labels)
{
    for (size_t i = 0; i < labels.count; i++) {
        if (cay_str_is(labels.items[i].key, CAY_BUILD_LABEL))
            return true;
    }
    return false;
}

struct cay_pb_pairs cay_build_labels(void)
{
    static struct cay_pb_pair label = {{CAY_BUILD_LABEL, sizeof(CAY_BUILD_LABEL) - 1}, {"1", 1}};
    return (struct cay_pb_pairs){&label, 1};
}

static bool labels_are_good(struct cay_pb_pairs labels, struct cay_error *err)
{
    if (labels.count > CAY_LIMIT_LABELS)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "labels: %d at most", CAY_LIMIT_LABELS);
    for (size_t i = 0; i < labels.count; i++) {
        struct cay_str key = labels.items[i].key;
        struct cay_str value = labels.items[i].value;
        if (cay_str_is(key, CAY_BUILD_LABEL))
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "labels: '%s' is reserved for Cay; choose another key",
                            CAY_BUILD_LABEL);
        if (!key.len || key.len > CAY_LIMIT_LABEL_KEY_BYTES || has_control(key))
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "labels: a key has 1 to %d bytes and no control characters",
                            CAY_LIMIT_LABEL_KEY_BYTES);
        if (value.len > CAY_LIMIT_LABEL_VALUE_BYTES || has_control(value))
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "labels: a value has at most %d bytes and no control characters",
                            CAY_LIMIT_LABEL_VALUE_BYTES);
    }
    return true;
}

bool cay_check_labels(struct cay_pb_pairs labels, struct cay_error *err)
{
    return labels_are_good(labels, err) || cay_error_fact(err, "field", "labels");
}

bool cay_check_limits(const struct cay_v1_resource_limits *wanted,
                      const struct cay_v1_resource_limits *defaults,
                      struct cay_v1_resource_limits *out_limits, struct cay_error *err)
{
    *out_limits = *defaults;
    if (!wanted)
        return true;
    if (wanted->has_cpus) {
        if (!(wanted->cpus >= 0.01 && wanted->cpus <= 1024))
            return cay_fail(err, CAY_R_INVALID_ARGUMENT, "limits.cpus: 0.01 to 1024");
        out_limits->has_cpus = true;
        out_limits->cpus = wanted->cpus;
    }
    if (wanted->has_memory_bytes) {
        if (wanted->memory_bytes < CAY_LIMIT_MEMORY_BYTES_MIN || wanted->memory_bytes > INT64_C(1)
                                                                                            << 50)
            return cay_fail(err, CAY_R_INVALID_ARGUMENT, "limits.memory_bytes: %d at least",
                            CAY_LIMIT_MEMORY_BYTES_MIN);
        out_limits->has_memory_bytes = true;
        out_limits->memory_bytes = wanted->memory_bytes;
    }
    if (wanted->has_pids) {
        if (wanted->pids < CAY_LIMIT_PIDS_MIN || wanted->pids > 4 * 1024 * 1024)
            return cay_fail(err, CAY_R_INVALID_ARGUMENT, "limits.pids: %d to 4194304",
                            CAY_LIMIT_PIDS_MIN);
        out_limits->has_pids = true;
        out_limits->pids = wanted->pids;
    }
    if (wanted->has_disk_bytes) {
        if (wanted->disk_bytes < CAY_LIMIT_DISK_BYTES_MIN)
            return cay_fail(err, CAY_R_INVALID_ARGUMENT, "limits.disk_bytes: %d at least",
                            CAY_LIMIT_DISK_BYTES_MIN);
        out_limits->has_disk_bytes = true;
        out_limits->disk_bytes = wanted->disk_bytes;
    }
    if (wanted->has_inodes) {
        if (wanted->inodes < CAY_LIMIT_INODES_MIN)
            return cay_fail(err, CAY_R_INVALID_ARGUMENT, "limits.inodes: %d at least",
                            CAY_LIMIT_INODES_MIN);
        out_limits->has_inodes = true;
        out_limits->inodes = wanted->inodes;
    }
    return true;
}

static bool check_span(const struct google_protobuf_duration *span, const char *name,
                       struct cay_error *err)
{
    if (span && (cay_noun_duration_ms(span) <= 0 || span->seconds > CAY_LIMIT_SPAN_S))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "lifecycle.%s: more than 0, and 2000000000 s at most", name);
    return true;
}

bool cay_check_expire_in(const struct google_protobuf_duration *delay, struct cay_error *err)
{
    int64_t delay_ms = cay_noun_duration_ms(delay);
    return (delay_ms >= 0 && delay_ms / 1000 <= CAY_LIMIT_SPAN_S) ||
           cay_fail(err, CAY_R_INVALID_ARGUMENT, "expire_in must be 0 to 2000000000 s");
}

bool cay_check_drain(const struct google_protobuf_duration *timeout, struct cay_drain *out_drain,
                     struct cay_error *err)
{
    if (!timeout)
        return true;
    int64_t limit_ms = cay_noun_duration_ms(timeout);
    if (limit_ms < 0 || limit_ms / 1000 > CAY_LIMIT_SPAN_S)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "drain_timeout must be 0 to 2000000000 s");
    out_drain->is_wanted = true;
    out_drain->limit_ms = limit_ms;
    return true;
}

bool cay_check_lifecycle(const struct cay_v1_lifecycle *lifecycle, struct cay_error *err)
{
    if (!lifecycle)
        return true;
    if ((unsigned)lifecycle->on_expiry > CAY_V1_EXPIRY_ACTION_STOP ||
        (unsigned)lifecycle->on_idle > CAY_V1_EXPIRY_ACTION_STOP)
        return cay_fail(
            err, CAY_R_INVALID_ARGUMENT,
            "lifecycle: on_expiry or on_idle has a value that this version does not know");
    return check_span(lifecycle->timeout, "timeout", err) &&
           check_span(lifecycle->idle_timeout, "idle_timeout", err);
}

bool cay_check_message(struct cay_str message, struct cay_error *err)
{
    if (message.len > CAY_LIMIT_MESSAGE_TEXT_BYTES)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "message: %d bytes at most",
                        CAY_LIMIT_MESSAGE_TEXT_BYTES);
    return true;
}

bool cay_check_user(struct cay_str user, struct cay_error *err)
{
    if (user.len < CAY_USER_NAME_BYTES && !has_control(user) &&
        (!user.len || (!memchr(user.ptr, ':', user.len) && !memchr(user.ptr, ',', user.len))))
        return true;
    cay_fail(err, CAY_R_INVALID_ARGUMENT,
             "user: a name or number of at most %d bytes without ':' and ','",
             CAY_USER_NAME_BYTES - 1);
    return cay_error_fact(err, "field", "user");
}
