/* SPDX-License-Identifier: Apache-2.0 */
#include "front/auth/auth.h"

#include <stdio.h>

#include "api/behalf.h"
#include "front/http/server.h"

static bool is_sent_twice(const struct cay_exchange *exchange, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < exchange->headers.count; i++)
        count += cay_str_equal_nocase(exchange->headers.items[i].name, cay_str(name));
    return count > 1;
}

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
    /* Of two, a gateway may have looked at the other one. */
    if (is_sent_twice(exchange, "authorization") || is_sent_twice(exchange, "x-api-key"))
        return cay_fail(err, CAY_R_UNAUTHENTICATED,
                        "the key is there more than once; send one Authorization header");
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

/* Whoever a peer says it calls for takes its place, if it is trusted to say so. */
static bool stand_in(struct cay_auth *auth, struct cay_error *err)
{
    const struct cay_caller voucher = auth->caller;
    struct cay_str text = cay_http_header(&auth->exchange->headers, CAY_BEHALF_HEADER);
    struct cay_caller caller = {};
    if (!text.ptr)
        return true;
    /* A gateway that adds its own to what its client sent would let the client choose. */
    if (is_sent_twice(auth->exchange, CAY_BEHALF_HEADER))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        CAY_BEHALF_HEADER ": it is there more than once; a gateway replaces what "
                                          "its clients send");
    if (!voucher.may_vouch)
        return cay_fail(err, CAY_R_PERMISSION_DENIED,
                        CAY_BEHALF_HEADER ": who calls is not trusted to vouch for others; 'cay "
                                          "key create --vouch' makes a key that is");
    if (!cay_behalf_read(text, &caller, err))
        return false;
    if ((caller.role == CAY_ROLE_ADMIN || caller.is_door) && voucher.role != CAY_ROLE_ADMIN)
        return cay_fail(err, CAY_R_PERMISSION_DENIED,
                        CAY_BEHALF_HEADER ": this key is trusted to vouch for users only; 'cay key "
                                          "create --vouch --admin' makes one for everybody");
    /* Local to the peer's machine is local to this one only if the peer is. */
    caller.is_local = caller.is_local && auth->exchange->peer->is_unix;
    memcpy(caller.voucher, voucher.key_id, sizeof(caller.voucher));
    auth->caller = caller;
    return !caller.key_id[0] || !auth->asker->lapsed ||
           cay_service_follow(auth->service, cay_str(caller.key_id), &auth->vouched, err);
}

/* It is known who holds the key, or came without one. */
static bool accept(struct cay_auth *auth, struct cay_error *err)
{
    struct cay_exchange *exchange = auth->exchange;
    const struct cay_caller *caller = &auth->caller;
    if (!stand_in(auth, err) ||
        !cay_exchange_belongs(exchange, caller->owner, caller->role == CAY_ROLE_ADMIN, err))
        return false;
    const char *who = caller->key_id[0] ? caller->key_id : caller->owner;
    char text[2 * CAY_ID_SIZE];
    snprintf(text, sizeof(text), caller->voucher[0] ? "%s by %s" : "%s%s", who, caller->voucher);
    exchange->log_key = cay_arena_copy(&exchange->arena, cay_str(text));
    cay_exchange_welcome(exchange);
    return true;
}

static void end(struct cay_auth *auth, const struct cay_error *err)
{
    struct cay_error own = {};
    /* Who is merely recognised may vouch for others, too, and is not taken for themselves then. */
    if (!err && !(auth->is_asked_for ? accept(auth, &own) : stand_in(auth, &own)))
        err = &own;
    auth->asker->done(auth, err);
}

static void own_key_lapsed(struct cay_whois *whois, const struct cay_error *err)
{
    struct cay_auth *auth = CAY_CONTAINER_OF(whois, struct cay_auth, whois);
    struct cay_error own = *err;
    if (auth->caller.voucher[0])
        cay_fail(&own, err->reason,
                 "the key of the peer that vouches for this call was revoked or has expired; it "
                 "needs another one");
    auth->asker->lapsed(auth, &own);
}

static void vouched_key_lapsed(struct cay_whois *whois, const struct cay_error *err)
{
    struct cay_auth *auth = CAY_CONTAINER_OF(whois, struct cay_auth, vouched);
    auth->asker->lapsed(auth, err);
}

/* After the last secret, or without any: by the way they came. */
static void end_without_secret(struct cay_auth *auth)
{
    struct cay_error err = {};
    bool is_known = without_secret(auth->exchange, auth->allow_anonymous, &auth->caller) ||
                    cay_fail(&err, CAY_R_UNAUTHENTICATED, NULL);
    end(auth, is_known ? NULL : &err);
}

static void try_next(struct cay_auth *auth);

static void answered(struct cay_whois *whois, const struct cay_caller *caller,
                     const struct cay_error *err)
{
    struct cay_auth *auth = CAY_CONTAINER_OF(whois, struct cay_auth, whois);
    if (caller) {
        auth->caller = *caller;
        auth->caller.is_local = auth->exchange->peer->is_unix;
        end(auth, NULL);
    } else if (auth->is_asked_for) {
        end(auth, err);
    } else {
        try_next(auth);
    }
}

static void try_next(struct cay_auth *auth)
{
    while (auth->tried < auth->secret_count && !auth->secrets[auth->tried].len)
        auth->tried++;
    if (auth->tried == auth->secret_count) {
        end_without_secret(auth);
        return;
    }
    auth->whois.answered = answered;
    if (auth->asker->lapsed) {
        auth->whois.lapsed = own_key_lapsed;
        auth->vouched.lapsed = vouched_key_lapsed;
    }
    cay_service_authenticate(auth->service, auth->secrets[auth->tried++], &auth->whois);
}

void cay_auth_start(struct cay_auth *auth, struct cay_exchange *exchange,
                    struct cay_service *service, bool allow_anonymous,
                    const struct cay_auth_asker *asker)
{
    struct cay_error err = {};
    *auth = (struct cay_auth){.exchange = exchange,
                              .service = service,
                              .allow_anonymous = allow_anonymous,
                              .asker = asker,
                              .secret_count = 1,
                              .is_asked_for = true};
    exchange->is_unsure = true;
    if (sent_secret(exchange, &auth->secrets[0], &err))
        try_next(auth);
    else
        end(auth, &err);
}

void cay_auth_recognise(struct cay_auth *auth, struct cay_exchange *exchange,
                        struct cay_service *service, bool allow_anonymous,
                        const struct cay_auth_asker *asker)
{
    *auth = (struct cay_auth){
        .exchange = exchange,
        .service = service,
        .allow_anonymous = allow_anonymous,
        .asker = asker,
        .secrets = {bearer_of(cay_http_header(&exchange->headers, "authorization")),
                    cay_str_trim(cay_http_header(&exchange->headers, "x-api-key")),
                    cay_str_trim(cay_http_header(&exchange->headers, "x-access-token"))},
        .secret_count = CAY_AUTH_SECRETS_MAX,
    };
    try_next(auth);
}

void cay_auth_cancel(struct cay_auth *auth)
{
    cay_whois_cancel(&auth->whois);
    cay_whois_cancel(&auth->vouched);
}

bool cay_auth_is_ours(struct cay_str name, struct cay_str value)
{
    static const char *const prefixes[] = {"cay_", "e2b_", "cst_"};
    struct cay_str secret = bearer_of(value);
    if (!cay_str_equal_nocase(name, CAY_STR("authorization")))
        return cay_str_equal_nocase(name, CAY_STR("x-api-key")) ||
               cay_str_equal_nocase(name, CAY_STR(CAY_BEHALF_HEADER)) ||
               cay_str_equal_nocase(name, CAY_STR("x-access-token"));
    for (size_t i = 0; i < CAY_COUNT(prefixes); i++) {
        if (cay_str_starts(secret, prefixes[i]))
            return true;
    }
    return false;
}
