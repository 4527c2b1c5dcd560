/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/sniff.h"

#include <errno.h>

static ssize_t judge_hello(struct egress_sniff *sniff, const char *name,
                           const struct cay_hello *hello, size_t len)
{
    if (hello->is_encrypted)
        return -CAY_EGRESS_HIDDEN;
    if (strcmp(hello->name, name) != 0)
        return -CAY_EGRESS_WRONG_SNI;
    sniff->phase = sniff->intercepts ? EGRESS_SNIFF_INTERCEPT : EGRESS_SNIFF_THROUGH;
    return sniff->intercepts ? 0 : (ssize_t)len;
}

static ssize_t begin(struct egress_sniff *sniff, const char *name, const char *bytes, size_t len)
{
    struct cay_hello hello;
    switch (cay_hello_look(&sniff->look, (const uint8_t *)bytes, len, &hello)) {
    case CAY_HELLO_MORE: return 0;
    case CAY_HELLO_BAD: return -CAY_EGRESS_MALFORMED;
    case CAY_HELLO_WHOLE: return judge_hello(sniff, name, &hello, len);
    case CAY_HELLO_OTHER: break;
    }
    if (sniff->intercepts)
        return -CAY_EGRESS_MALFORMED;
    switch (cay_http_looks(bytes, len)) {
    case CAY_HTTP_LOOKS_MORE: return 0;
    case CAY_HTTP_LOOKS_SO: sniff->phase = EGRESS_SNIFF_HTTP; break;
    case CAY_HTTP_LOOKS_OTHER: sniff->phase = EGRESS_SNIFF_THROUGH; break;
    }
    cay_http_host_init(&sniff->http, cay_str(name));
    return 0;
}

ssize_t egress_sniff(struct egress_sniff *sniff, const char *name, const char *bytes, size_t len)
{
    if (!*name)
        sniff->phase = EGRESS_SNIFF_THROUGH;
    if (sniff->phase == EGRESS_SNIFF_BEGIN && len) {
        ssize_t count = begin(sniff, name, bytes, len);
        if (count || sniff->phase == EGRESS_SNIFF_BEGIN)
            return count;
    }
    if (sniff->phase == EGRESS_SNIFF_INTERCEPT)
        return 0;
    if (sniff->phase != EGRESS_SNIFF_HTTP)
        return (ssize_t)len;
    ssize_t count = cay_http_host_feed(&sniff->http, bytes, len);
    return count == -EPERM ? -CAY_EGRESS_WRONG_HOST : count < 0 ? -CAY_EGRESS_MALFORMED : count;
}

bool egress_sniff_answered(struct egress_sniff *sniff, const char *bytes, size_t len)
{
    return sniff->phase == EGRESS_SNIFF_HTTP && sniff->http.is_waiting &&
           cay_http_host_answered(&sniff->http, bytes, len);
}
