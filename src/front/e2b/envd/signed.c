/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/envd/signed.h"

#include <string.h>

#include "api/limits.h"
#include "base/hash.h"
#include "front/e2b/token.h"

/* Without an id every sandbox is tried: so many in a second for who is wrong. */
enum { TRIES_PER_SECOND = 5'000 };

struct wanted {
    struct cay_e2b_signer signer;
    struct cay_str signature;
    int64_t tries;
};

bool cay_e2b_is_signed(const struct cay_exchange *exchange)
{
    struct cay_str query = exchange->query;
    struct cay_str part;
    if (!cay_str_is(exchange->path, "/files"))
        return false;
    while (cay_str_split(&query, '&', &part)) {
        if (cay_str_starts(part, "signature="))
            return true;
    }
    return false;
}

struct cay_str cay_e2b_signature(struct cay_rest_request *request)
{
    struct cay_str sent = cay_rest_query(request, "signature");
    char *text = cay_arena_copy(&request->arena, sent);
    for (size_t i = 0; text && i < sent.len; i++) {
        if (text[i] == ' ')
            text[i] = '+';
    }
    return (struct cay_str){text, text ? sent.len : 0};
}

static bool fits(void *context, struct cay_str token)
{
    struct wanted *wanted = context;
    char signature[CAY_E2B_SIGNATURE_BYTES];
    wanted->tries++;
    cay_e2b_signer_sign(&wanted->signer, token, signature);
    return cay_e2b_token_is(wanted->signature, cay_str(signature));
}

/* What the peer's address has used up in this second; a few addresses share it. Who was right costs
 * nobody anything. */
static int64_t *tries_of(struct cay_rest_request *request)
{
    struct cay_e2b *door = cay_e2b_visit(request)->e2b;
    const char *peer = request->exchange->peer->text;
    const char *port = strrchr(peer, ':');
    struct cay_str address = {peer, port ? (size_t)(port - peer) : strlen(peer)};
    uint64_t key[2];
    memcpy(key, door->secret, sizeof(key));
    uint64_t second = cay_loop_now_ms(request->loop) / 1000;
    if (door->tries_second != second) {
        door->tries_second = second;
        memset(door->tries, 0, sizeof(door->tries));
    }
    return &door->tries[cay_hash(key, address) % CAY_COUNT(door->tries)];
}

static bool find(struct cay_rest_request *request, struct cay_str path,
                 char session_id[CAY_ID_SIZE])
{
    struct cay_service *service = cay_e2b_visit(request)->e2b->porch->service;
    struct wanted wanted = {.signature = cay_e2b_signature(request)};
    cay_e2b_signer_init(
        &wanted.signer, path, cay_str_is(request->exchange->method, "GET") ? "read" : "write",
        cay_rest_query(request, "username"), cay_rest_query(request, "signature_expiration"));
    bool is_found = service->ops->find_token(service, fits, &wanted, session_id);
    cay_e2b_signer_finish(&wanted.signer);
    *tries_of(request) += is_found ? 0 : wanted.tries;
    return is_found;
}

bool cay_e2b_signed_find(struct cay_rest_request *request)
{
    enum { SIGNATURE_LEN = 3 + 43 }; /* nothing else is worth the work */
    char session_id[CAY_ID_SIZE];
    struct cay_str path = cay_rest_query(request, "path");
    if (*tries_of(request) >= TRIES_PER_SECOND) {
        cay_rest_reply_fault(request, 429,
                             "too many wrong signatures; say which sandbox is meant by the header "
                             "E2b-Sandbox-Id, or try again in a second");
        return false;
    }
    if (path.len > CAY_E2B_SIGNED_PATH_BYTES_MAX ||
        cay_rest_query(request, "username").len > CAY_LIMIT_ID_BYTES ||
        cay_e2b_signature(request).len != SIGNATURE_LEN ||
        !cay_e2b_visit(request)->e2b->porch->service->ops->find_token ||
        !find(request, path, session_id) || !cay_e2b_id_valid(cay_str(session_id))) {
        cay_rest_reply_fault(request, 401, "invalid signature");
        return false;
    }
    cay_e2b_visit(request)->sandbox_id = cay_arena_str(&request->arena, cay_str(session_id));
    cay_e2b_visit(request)->port = CAY_E2B_ENVD_PORT;
    return true;
}
