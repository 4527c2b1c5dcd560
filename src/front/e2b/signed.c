/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/signed.h"

#include "front/e2b/token.h"

struct wanted {
    struct cay_str path;
    struct cay_str user;
    struct cay_str expiration;
    struct cay_str signature;
    const char *operation;
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

struct cay_str cay_e2b_signature(struct cay_e2b_request *request)
{
    struct cay_str sent = cay_e2b_query(request, "signature");
    char *text = cay_arena_copy(&request->arena, sent);
    for (size_t i = 0; text && i < sent.len; i++) {
        if (text[i] == ' ')
            text[i] = '+';
    }
    return (struct cay_str){text, text ? sent.len : 0};
}

static bool fits(void *context, struct cay_str token)
{
    const struct wanted *wanted = context;
    char signature[CAY_E2B_SIGNATURE_BYTES];
    cay_e2b_sign(wanted->path, wanted->operation, wanted->user, token, wanted->expiration,
                 signature);
    return cay_e2b_token_is(wanted->signature, cay_str(signature));
}

bool cay_e2b_signed_find(struct cay_e2b_request *request)
{
    enum { SIGNATURE_LEN = 3 + 43 }; /* nothing else is worth the work */
    char session_id[129];
    const struct cay_service *service = request->door->service;
    struct wanted wanted = {
        .path = cay_e2b_query(request, "path"),
        .user = cay_e2b_query(request, "username"),
        .expiration = cay_e2b_query(request, "signature_expiration"),
        .signature = cay_e2b_signature(request),
        .operation = cay_str_is(request->exchange->method, "GET") ? "read" : "write",
    };
    if (wanted.signature.len != SIGNATURE_LEN || !service->ops->find_token ||
        !service->ops->find_token(request->door->service, fits, &wanted, session_id))
        return false;
    request->sandbox_id = cay_arena_str(&request->arena, cay_str(session_id));
    request->port = CAY_E2B_ENVD_PORT;
    return cay_e2b_id_valid(request->sandbox_id);
}
