/* SPDX-License-Identifier: Apache-2.0 */
#include "host/past/snapshot_name.h"

#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "host/session/session.h"

int64_t cay_snapshot_name_next(const struct cay_session *session, const char *word, int64_t last,
                               char out[CAY_ID_SIZE])
{
    do {
        snprintf(out, CAY_ID_SIZE, "%s-%04lld", word, (long long)++last);
    } while (cay_session_snapshot(session, cay_str(out)));
    return last;
}

void cay_snapshot_name_after_tool(struct cay_str tool_call_id, int64_t now_ns,
                                  char out[CAY_ID_SIZE])
{
    enum { ID_BYTES_MAX = 96 };
    time_t seconds = (time_t)(now_ns / CAY_NS_PER_SEC);
    struct tm utc;
    char when[32];
    (void)gmtime_r(&seconds, &utc);
    (void)strftime(when, sizeof(when), "%Y%m%dT%H%M%S", &utc);
    size_t len = (size_t)snprintf(out, CAY_ID_SIZE, "tool-");
    char last = '-';
    for (size_t i = 0; i < CAY_MIN(tool_call_id.len, (size_t)ID_BYTES_MAX); i++) {
        char c = tool_call_id.ptr[i];
        bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                        (c >= 'A' && c <= 'Z') || c == '_' || c == '-' || (c == '.' && last != '.');
        last = is_plain ? c : '_';
        out[len++] = last;
    }
    snprintf(out + len, CAY_ID_SIZE - len, "%s%s.%06dZ", tool_call_id.len ? "-" : "", when,
             (int)(now_ns % CAY_NS_PER_SEC / 1000));
}

void cay_snapshot_name_choose(struct cay_str wanted, char out[CAY_ID_SIZE])
{
    if (wanted.len)
        snprintf(out, CAY_ID_SIZE, "%.*s", (int)wanted.len, wanted.ptr);
    else
        cay_id_make(out, CAY_ID_SIZE, "snapshot");
}

bool cay_snapshot_name_is_base(struct cay_str name)
{
    return cay_str_is(name, CAY_SNAPSHOT_BASE);
}

bool cay_snapshot_name_valid(struct cay_str name)
{
    return cay_id_valid(name) && !cay_snapshot_name_is_base(name);
}

bool cay_snapshot_name_check(struct cay_str name, struct cay_error *err)
{
    if (!cay_id_check(name, "name", err))
        return false;
    if (cay_str_starts(name, "turn-") || cay_str_starts(name, "tool-") ||
        cay_str_starts(name, CAY_SNAPSHOT_BRANCH "-") || cay_snapshot_name_is_base(name))
        return cay_fail(
            err, CAY_R_INVALID_ARGUMENT,
            "name: 'base' and names that begin with turn-, tool- or branch- are reserved for Cay");
    return true;
}
