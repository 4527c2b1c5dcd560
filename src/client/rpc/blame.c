/* SPDX-License-Identifier: Apache-2.0 */
#include "client/rpc/blame.h"

#include <errno.h>
#include <string.h>

#include "base/quantity.h"

static const struct {
    const char *word;
    const char *advice;
} remedies[] = {
    {"start", "start it, or use another address"},
    {"rights", "ask for the rights to it, or use its address and a key"},
    {"address", "check the address"},
    {"certificate", "name the certificates to trust"},
    {"plain", "if the daemon has no certificate, its address begins with http://"},
};

static const char *advice_of(const char *remedy)
{
    for (size_t i = 0; i < CAY_COUNT(remedies); i++) {
        if (strcmp(remedies[i].word, remedy) == 0)
            return remedies[i].advice;
    }
    return remedy;
}

bool cay_blame_unreachable(const struct cay_address *address, const char *why, const char *remedy,
                           struct cay_error *err)
{
    cay_fail(err, CAY_R_UNAVAILABLE, "cannot reach cayd at %.110s: %.60s; %s", address->text, why,
             advice_of(remedy));
    return cay_error_fact(err, CAY_FACT_REMEDY, "%s", remedy);
}

bool cay_blame_not_connected(const struct cay_address *address, int number, struct cay_error *err)
{
    bool is_forbidden = number == EACCES || number == EPERM;
    const char *why = number ? strerrordesc_np(number) : NULL;
    cay_blame_unreachable(address, why ? why : "nobody listens there",
                          is_forbidden ? "rights" : "start", err);
    err->sys_errno = number;
    return false;
}

bool cay_blame_late(const struct cay_address *address, bool is_silent, int64_t timeout_ms,
                    struct cay_error *err)
{
    if (is_silent)
        return cay_blame_unreachable(address, "it did not answer in time", "address", err);
    char text[CAY_DURATION_BYTES];
    cay_duration_format(timeout_ms, text);
    cay_fail(err, CAY_R_DEADLINE_EXCEEDED, "no answer from %.100s within %s; give it more time",
             address->text, text);
    return cay_error_fact(err, CAY_FACT_REMEDY, "time");
}

bool cay_blame_broken(const struct cay_address *address, struct cay_error *err)
{
    return cay_fail(err, CAY_R_UNAVAILABLE,
                    "the connection to %.100s broke before the answer was complete; try again",
                    address->text);
}

bool cay_blame_wordless(const struct cay_address *address, struct cay_error *err)
{
    /* This is what most servers do whom plain text meets where they expect TLS. */
    if (address->unix_path[0] || !address->is_plain)
        return cay_blame_broken(address, err);
    cay_fail(err, CAY_R_UNAVAILABLE,
             "%.100s closed the connection without an answer; try again, or, if it uses TLS, write "
             "https://",
             address->text);
    return cay_error_fact(err, CAY_FACT_REMEDY, "tls");
}

bool cay_blame_not_http(const struct cay_address *address, struct cay_error *err)
{
    cay_fail(err, CAY_R_UNAVAILABLE,
             "what answers at %.100s does not speak plain HTTP; if it uses TLS, write https://",
             address->text);
    return cay_error_fact(err, CAY_FACT_REMEDY, "tls");
}

bool cay_blame_stranger(const struct cay_address *address, const char *type, struct cay_error *err)
{
    cay_fail(err, CAY_R_UNAVAILABLE,
             "what answers at %.100s is no cayd (content type '%.40s'); check the address",
             address->text, type);
    return cay_error_fact(err, CAY_FACT_REMEDY, "address");
}
