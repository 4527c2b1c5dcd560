/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/envd/files.h"

#include <stdio.h>

#include "base/clock.h"
#include "front/e2b/envd/signed.h"
#include "front/e2b/token.h"

static bool is_expired(struct cay_str expiration)
{
    uint64_t until_s = 0;
    return cay_str_to_u64(expiration, INT64_MAX / CAY_NS_PER_SEC, &until_s) < 0 ||
           (int64_t)until_s < cay_clock_wall_ns() / CAY_NS_PER_SEC;
}

void cay_e2b_files_query(struct cay_rest_request *request, struct cay_e2b_file *out_file)
{
    out_file->path = cay_rest_query(request, "path");
    out_file->user = cay_rest_query(request, "username");
}

const char *cay_e2b_files_refusal(struct cay_rest_request *request)
{
    bool is_read = cay_str_is(request->exchange->method, "GET");
    struct cay_e2b_file file;
    cay_e2b_files_query(request, &file);
    struct cay_str sent = cay_http_header(&request->exchange->headers, "x-access-token");
    struct cay_str token = cay_e2b_visit(request)->tokens->access_token;
    struct cay_str signature = cay_e2b_signature(request);
    struct cay_str expiration = cay_rest_query(request, "signature_expiration");
    if (sent.len)
        return cay_e2b_token_is(sent, token) ? NULL
                                             : "access token present in header but does not match";
    if (!signature.len)
        return "missing signature query parameter";
    if (file.path.len > CAY_E2B_SIGNED_PATH_BYTES_MAX)
        return "the path is too long to be signed";
    char expected[CAY_E2B_SIGNATURE_BYTES];
    cay_e2b_sign(file.path, is_read ? "read" : "write", file.user, token, expiration, expected);
    if (!cay_e2b_token_is(signature, cay_str(expected)))
        return "invalid signature";
    return expiration.len && is_expired(expiration) ? "signature is already expired" : NULL;
}

void cay_e2b_files_error(struct cay_rest_request *request, const struct cay_error *err)
{
    char text[sizeof(err->text) + 64];
    const char *path = cay_error_get(err, "path");
    struct cay_str user = cay_rest_query(request, "username");
    int status = cay_rest_status(request, err);
    snprintf(text, sizeof(text), "%s", err->text);
    if (err->reason == CAY_R_USER_NOT_FOUND || cay_rest_error_is_of(err, "user")) {
        status = 401;
        snprintf(text, sizeof(text), "error looking up user '%.*s': user: unknown user %.*s",
                 (int)CAY_MIN(user.len, (size_t)64), user.len ? user.ptr : "",
                 (int)CAY_MIN(user.len, (size_t)64), user.len ? user.ptr : "");
    } else if (err->reason == CAY_R_FILE_NOT_FOUND && path) {
        snprintf(text, sizeof(text), "path '%s' does not exist", path);
    } else if (err->reason == CAY_R_IS_A_DIRECTORY && path) {
        snprintf(text, sizeof(text), "path '%s' is a directory", path);
    } else if (err->reason == CAY_R_NO_SPACE || err->reason == CAY_R_QUOTA_EXCEEDED) {
        status = 507;
    }
    request->exchange->log_code = cay_reason_info(err->reason)->name;
    cay_rest_reply_fault(request, status, text);
}
