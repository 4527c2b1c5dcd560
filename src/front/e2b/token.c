/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/token.h"

#include "base/base64.h"
#include "sys/sha256.h"

bool cay_e2b_token_is(struct cay_str sent, struct cay_str token)
{
    unsigned char differs = 0;
    if (!token.len || sent.len != token.len)
        return false;
    for (size_t i = 0; i < token.len; i++)
        differs |= (unsigned char)(sent.ptr[i] ^ token.ptr[i]);
    return differs == 0;
}

static void add(struct cay_sha256 *sha, struct cay_str text)
{
    if (text.len)
        cay_sha256_add(sha, text.ptr, text.len);
}

void cay_e2b_sign(struct cay_str path, const char *operation, struct cay_str user,
                  struct cay_str token, struct cay_str expiration,
                  char out[CAY_E2B_SIGNATURE_BYTES])
{
    const struct cay_str parts[] = {path, cay_str(operation), user};
    struct cay_sha256 sha;
    unsigned char digest[CAY_SHA256_BYTES];
    cay_sha256_init(&sha);
    for (size_t i = 0; i < CAY_COUNT(parts); i++) {
        add(&sha, parts[i]);
        add(&sha, CAY_STR(":"));
    }
    add(&sha, token);
    if (expiration.len) {
        add(&sha, CAY_STR(":"));
        add(&sha, expiration);
    }
    cay_sha256_digest(&sha, digest);
    size_t len = cay_base64_encoded_len(sizeof(digest), false);
    memcpy(out, "v1_", 3);
    cay_base64_encode((struct cay_str){(const char *)digest, sizeof(digest)}, false, out + 3);
    out[3 + len] = '\0';
}
