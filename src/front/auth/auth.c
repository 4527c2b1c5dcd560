/* SPDX-License-Identifier: Apache-2.0 */
#include "front/auth/auth.h"

#include <stdio.h>

#include "front/http/server.h"

/* What follows "Bearer "; empty when it does not begin so. */
static struct cay_str bearer_of(struct cay_str value)
{
    struct cay_str scheme;
    if (!cay_str_split(&value, ' ', &scheme) || !value.ptr ||
        !cay_str_equal_nocase(scheme, CAY_STR("bearer")))
        return (struct cay_str){};
    return cay_str_trim(value);
}

/* The secret of either header; an empty string when neither is there. */
static bool sent_secret(const struct cay_exchange *exchange, struct cay_str *out_secret,
                        struct cay_error *err)
{
    struct cay_str header = cay_http_header(&exchange->headers, "authorization");
    if (header.ptr) {
        struct cay_str secret = bearer_of(header);
        if (!secret.ptr)
            return cay_fail(err, CAY_R_UNAUTHENTICATED,
                            "the Authorization header must be 'Bearer KEY'");
        *out_secret = secret;
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
    if (cay_peer_administers(peer)) {
        out_caller->role = CAY_ROLE_ADMIN;
        snprintf(out_caller->owner, sizeof(out_caller->owner), "local");
    } else {
        snprintf(out_caller->owner, sizeof(out_caller->owner), "uid-%u", peer->uid);
    }
}

/* Who is there by the way they came. */
static bool without_secret(const struct cay_exchange *exchange, bool allow_anonymous,
                           struct cay_caller *out_caller)
{
    if (exchange->peer->is_unix)
        peer_caller(exchange->peer, out_caller);
    else if (allow_anonymous)
        *out_caller = (struct cay_caller){.role = CAY_ROLE_ADMIN, .owner = "local"};
    return exchange->peer->is_unix || allow_anonymous;
}

bool cay_auth(struct cay_exchange *exchange, struct cay_service *service, bool allow_anonymous,
              struct cay_caller *out_caller, struct cay_error *err)
{
    struct cay_str secret = {};
    if (!sent_secret(exchange, &secret, err))
        return false;
    if (secret.len) {
        if (!cay_service_authenticate(service, secret, out_caller, err))
            return false;
        out_caller->is_local = exchange->peer->is_unix;
    } else if (!without_secret(exchange, allow_anonymous, out_caller)) {
        return cay_fail(err, CAY_R_UNAUTHENTICATED, NULL);
    }
    return cay_exchange_belongs(exchange, out_caller->owner, out_caller->role == CAY_ROLE_ADMIN,
                                err);
}

bool cay_auth_known(const struct cay_exchange *exchange, struct cay_service *service,
                    bool allow_anonymous, struct cay_caller *out_caller)
{
    const struct cay_str secrets[] = {
        bearer_of(cay_http_header(&exchange->headers, "authorization")),
        cay_str_trim(cay_http_header(&exchange->headers, "x-api-key")),
        cay_str_trim(cay_http_header(&exchange->headers, "x-access-token")),
    };
    for (size_t i = 0; i < CAY_COUNT(secrets); i++) {
        struct cay_error ignored = {};
        if (secrets[i].len && cay_service_authenticate(service, secrets[i], out_caller, &ignored))
            return true;
    }
    return without_secret(exchange, allow_anonymous, out_caller);
}

bool cay_auth_is_ours(struct cay_str name, struct cay_str value)
{
    static const char *const prefixes[] = {"cay_", "e2b_", "cst_"};
    struct cay_str secret = bearer_of(value);
    if (!cay_str_equal_nocase(name, CAY_STR("authorization")))
        return cay_str_equal_nocase(name, CAY_STR("x-api-key")) ||
               cay_str_equal_nocase(name, CAY_STR("x-access-token"));
    for (size_t i = 0; i < CAY_COUNT(prefixes); i++) {
        if (cay_str_starts(secret, prefixes[i]))
            return true;
    }
    return false;
}
