/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/envd/signed.h"

#include <string.h>

#include "api/limits.h"
#include "base/base64.h"
#include "base/hash.h"
#include "front/e2b/gate.h"
#include "front/e2b/token.h"
#include "front/rest/call.h"

/* Without an id every sandbox is tried: so many in a second for who is wrong. */
enum {
    TRIES_PER_SECOND = 5'000,
    SIGNATURE_LEN = 3 + 43, /* nothing else is worth the work */
    EXPIRATION_BYTES_MAX = 64,
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

static void reply_invalid(struct cay_rest_request *request)
{
    cay_rest_reply_fault(request, 401, "invalid signature");
}

static void found(struct cay_rest_request *request, struct cay_rest_call *, const void *response,
                  const struct cay_error *err)
{
    const struct cay_v1_find_token_response *answer = response;
    if (err) {
        cay_rest_reply_error(request, err);
    } else if (!cay_e2b_id_valid(answer->session_id)) {
        *tries_of(request) += answer->session_id.len ? 0 : answer->tried;
        reply_invalid(request);
    } else {
        cay_e2b_visit(request)->sandbox_id = cay_arena_str(&request->arena, answer->session_id);
        cay_e2b_visit(request)->port = CAY_E2B_ENVD_PORT;
        cay_e2b_gate(request, cay_e2b_visit(request)->inside);
    }
}

/* The digest that a signature stands for; an empty string when it is none. */
static struct cay_str digest_of(struct cay_rest_request *request)
{
    struct cay_str text = cay_e2b_signature(request);
    char *digest = cay_arena_alloc(&request->arena, cay_base64_decoded_len_max(text.len) + 1);
    size_t len = 0;
    if (!digest || text.len != SIGNATURE_LEN || !cay_str_starts(text, "v1_") ||
        cay_base64_decode((struct cay_str){text.ptr + 3, text.len - 3}, digest, &len) < 0)
        return (struct cay_str){};
    return (struct cay_str){digest, len};
}

/* What stands before and after the token in what is signed. */
static void describe(struct cay_rest_request *request, struct cay_v1_find_token_request *ask)
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    const bool is_read = cay_str_is(request->exchange->method, "GET");
    struct cay_str expiration = cay_rest_query(request, "signature_expiration");
    cay_buf_init(&text, (size_t)2 * CAY_E2B_SIGNED_PATH_BYTES_MAX);
    cay_buf_append_str(&text, cay_rest_query(request, "path"));
    cay_buf_append_text(&text, is_read ? ":read:" : ":write:");
    cay_buf_append_str(&text, cay_rest_query(request, "username"));
    cay_buf_append_byte(&text, ':');
    ask->before = cay_arena_str(&request->arena, cay_buf_str(&text));
    if (!expiration.len)
        return;
    cay_buf_clear(&text, 0);
    cay_buf_append_byte(&text, ':');
    cay_buf_append_str(&text, expiration);
    ask->after = cay_arena_str(&request->arena, cay_buf_str(&text));
}

void cay_e2b_signed(struct cay_rest_request *request, const struct cay_e2b_inside *inside)
{
    struct cay_str digest = digest_of(request);
    if (*tries_of(request) >= TRIES_PER_SECOND) {
        cay_rest_reply_fault(request, 429,
                             "too many wrong signatures; say which sandbox is meant by the header "
                             "E2b-Sandbox-Id, or try again in a second");
        return;
    }
    if (!digest.len || cay_rest_query(request, "path").len > CAY_E2B_SIGNED_PATH_BYTES_MAX ||
        cay_rest_query(request, "username").len > CAY_LIMIT_ID_BYTES ||
        cay_rest_query(request, "signature_expiration").len > EXPIRATION_BYTES_MAX) {
        reply_invalid(request);
        return;
    }
    request->caller = cay_e2b_door_caller();
    cay_e2b_visit(request)->inside = inside;
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_KEY_SERVICE_FIND_TOKEN);
    struct cay_v1_find_token_request *ask = cay_rest_call_message(call);
    describe(request, ask);
    ask->sha256 = digest;
    cay_rest_call_start(call, found);
}
