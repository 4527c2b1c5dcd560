/* SPDX-License-Identifier: Apache-2.0 */
#include "front/auth/auth.h"

#include <stdio.h>
#include <unistd.h>

/* The secret of either header; an empty string when neither is there. */
static bool sent_secret(const struct cay_exchange *exchange, struct cay_str *out_secret,
                        struct cay_error *err)
{
    struct cay_str header = cay_http_header(&exchange->headers, "authorization");
    if (header.ptr) {
        struct cay_str scheme;
        struct cay_str rest = header;
        if (!cay_str_split(&rest, ' ', &scheme) || !rest.ptr ||
            !cay_str_equal_nocase(scheme, CAY_STR("bearer")))
            return cay_fail(err, CAY_R_UNAUTHENTICATED,
                            "the Authorization header must be 'Bearer KEY'");
        *out_secret = cay_str_trim(rest);
        return true;
    }
    *out_secret = cay_str_trim(cay_http_header(&exchange->headers, "x-api-key"));
    return true;
}

/* Root and the daemon's own user administer it; others who may open the socket own what they make.
 */
static void peer_caller(const struct cay_peer *peer, struct cay_caller *out_caller)
{
    *out_caller = (struct cay_caller){.role = CAY_ROLE_USER, .is_local = true};
    if (peer->uid == 0 || peer->uid == geteuid()) {
        out_caller->role = CAY_ROLE_ADMIN;
        snprintf(out_caller->owner, sizeof(out_caller->owner), "local");
    } else {
        snprintf(out_caller->owner, sizeof(out_caller->owner), "uid-%u", peer->uid);
    }
}

bool cay_auth(const struct cay_exchange *exchange, struct cay_service *service,
              bool allow_anonymous, struct cay_caller *out_caller, struct cay_error *err)
{
    struct cay_str secret = {};
    if (!sent_secret(exchange, &secret, err))
        return false;
    if (secret.len) {
        bool is_known = cay_service_authenticate(service, secret, out_caller, err);
        out_caller->is_local = exchange->peer->is_unix;
        return is_known;
    }
    if (exchange->peer->is_unix) {
        peer_caller(exchange->peer, out_caller);
        return true;
    }
    if (allow_anonymous) {
        *out_caller = (struct cay_caller){.role = CAY_ROLE_ADMIN, .owner = "local"};
        return true;
    }
    return cay_fail(err, CAY_R_UNAUTHENTICATED, NULL);
}
