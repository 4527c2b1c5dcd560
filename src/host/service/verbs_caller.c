/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay_v1.h"
#include "host/life/tokens.h"
#include "host/service/verbs.h"
#include "host/session/session.h"
#include "sys/sha256.h"

enum {
    BEFORE_BYTES_MAX = 8 * 1024,
    AFTER_BYTES_MAX = 1024,
};

/* Doors ask it of the host behind them, in this process or as a peer that is trusted. */
static bool check_asker(const struct cay_call *call, struct cay_error *err)
{
    return call->caller.is_door || call->caller.may_vouch ||
           cay_fail(err, CAY_R_PERMISSION_DENIED,
                    "%s is for peers that are trusted to vouch for callers; 'cay key create "
                    "--vouch' makes a key for one",
                    call->method->name);
}

void cay_host_find_caller(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_find_caller_request *request = call->request;
    struct cay_caller found = {};
    struct cay_error err = {};
    struct cay_error unknown = {};
    if (!check_asker(call, &err)) {
        cay_call_fail(call, &err);
        return;
    }
    bool is_known = cay_host_authenticate(cay_host_of(service), request->secret, &found, &unknown);
    struct cay_v1_caller caller = {
        .owner = cay_str(found.owner),
        .role = found.role == CAY_ROLE_ADMIN ? CAY_V1_KEY_ROLE_ADMIN : CAY_V1_KEY_ROLE_USER,
        .key_id = cay_str(found.key_id),
        .session_id = cay_str(found.session_id),
        .may_vouch = found.may_vouch,
    };
    struct cay_v1_find_caller_response response = {.caller = is_known ? &caller : NULL};
    cay_call_done(call, &response);
}

/* With the token of one session between what was read before it and what comes after. */
static bool is_signed_by(const struct cay_v1_find_token_request *request,
                         const struct cay_sha256 *before, const char *token)
{
    struct cay_sha256 sha;
    unsigned char digest[CAY_SHA256_BYTES];
    cay_sha256_copy(&sha, before);
    cay_sha256_add(&sha, token, strlen(token));
    if (request->after.len)
        cay_sha256_add(&sha, request->after.ptr, request->after.len);
    cay_sha256_digest(&sha, digest);
    return cay_equal_constant_time(digest, sizeof(digest), request->sha256.ptr,
                                   request->sha256.len);
}

void cay_host_find_token(struct cay_service *service, struct cay_call *call)
{
    struct cay_host *host = cay_host_of(service);
    const struct cay_v1_find_token_request *request = call->request;
    struct cay_v1_find_token_response response = {};
    struct cay_error err = {};
    struct cay_sha256 before;
    if (!check_asker(call, &err) || request->before.len > BEFORE_BYTES_MAX ||
        request->after.len > AFTER_BYTES_MAX || request->sha256.len != CAY_SHA256_BYTES) {
        if (!err.reason)
            cay_fail(&err, CAY_R_INVALID_ARGUMENT,
                     "before has %d bytes at most, after %d; sha256 has %d", BEFORE_BYTES_MAX,
                     AFTER_BYTES_MAX, CAY_SHA256_BYTES);
        cay_call_fail(call, &err);
        return;
    }
    cay_sha256_init(&before);
    if (request->before.len)
        cay_sha256_add(&before, request->before.ptr, request->before.len);
    cay_list_for_each (struct cay_session, session, &host->sessions.list, in_table) {
        if (session->is_gone)
            continue;
        response.tried++;
        if (is_signed_by(request, &before, cay_session_access_token(session))) {
            response.session_id = cay_str(session->id);
            break;
        }
    }
    cay_sha256_finish(&before);
    cay_call_done(call, &response);
}
