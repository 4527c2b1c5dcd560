/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who is calling: an API key (Authorization: Bearer, or X-API-Key), or the peer of a Unix socket as
 * the kernel names it. A key that is sent counts, also on the Unix socket.
 *
 * The answer may be there at once or come later, for whoever knows the keys may be far away. So the
 * question is an object, embedded in what a door keeps of a request, zeroed at first:
 *
 *     cay_auth_start(&self->auth, exchange, service, allow_anonymous, &asker);
 *
 * The asker's `done` runs exactly once, maybe inside, unless the question is taken back: a door
 * does that when the exchange closes. Until then nothing of the body is taken. `lapsed` follows
 * when the key, or that of the peer that vouches for the caller, is revoked or expires meanwhile:
 * the door ends the request.
 */

#include "api/service.h"
#include "front/http/exchange.h"

enum { CAY_AUTH_SECRETS_MAX = 3 };

struct cay_auth;

/* `err` is NULL when somebody may call; UNAUTHENTICATED when nobody may so; RESOURCE_EXHAUSTED when
 * it is somebody who has too many connections or calls. */
typedef void cay_auth_fn(struct cay_auth *auth, const struct cay_error *err);

struct cay_auth_asker {
    cay_auth_fn *done;
    cay_auth_fn *lapsed; /* once at most, from the loop; NULL: it is all over at once */
};

struct cay_auth {
    struct cay_caller caller; /* who it is, at the good end */
    /* The rest is the room's own. */
    const struct cay_auth_asker *asker;
    struct cay_whois whois;
    struct cay_whois vouched; /* of a caller that a peer vouches for: its own key */
    struct cay_exchange *exchange;
    struct cay_service *service;
    struct cay_str secrets[CAY_AUTH_SECRETS_MAX]; /* in the head of the request */
    size_t secret_count;
    size_t tried;
    bool allow_anonymous;
    bool is_asked_for; /* a key is, or another way in */
};

void cay_auth_start(struct cay_auth *auth, struct cay_exchange *exchange,
                    struct cay_service *service, bool allow_anonymous,
                    const struct cay_auth_asker *asker);

/* Where no key is asked for: whoever any credential is of, in whatever header, X-Access-Token
 * included. What is not ours is not looked at. UNAUTHENTICATED: nobody that we know. */
void cay_auth_recognise(struct cay_auth *auth, struct cay_exchange *exchange,
                        struct cay_service *service, bool allow_anonymous,
                        const struct cay_auth_asker *asker);

/* Nobody wants to know any more, neither who it is nor that it lapsed; nothing happens when nothing
 * was asked. */
void cay_auth_cancel(struct cay_auth *auth);

/* Whether a header's value is a credential of ours, as far as its form goes. */
[[nodiscard]] bool cay_auth_is_ours(struct cay_str name, struct cay_str value);
