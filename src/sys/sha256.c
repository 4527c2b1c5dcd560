/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/sha256.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/library.h"

/* libcrypto is loaded with the first digest: it takes longer than most commands of a client, which
 * need none. */

#define FUNCTIONS(X)      \
    X(EVP_MD_CTX_new)     \
    X(EVP_MD_CTX_free)    \
    X(EVP_MD_CTX_copy_ex) \
    X(EVP_DigestInit_ex)  \
    X(EVP_DigestUpdate)   \
    X(EVP_DigestFinal_ex) \
    X(EVP_sha256)         \
    X(HMAC)

CAY_LIBRARY(lib, "libcrypto.so.3", FUNCTIONS);

/* Without it, or without SHA-256 in it, nothing works. */
static void load(void)
{
    if (!cay_library_load(&lib_library))
        abort();
}

void cay_sha256_init(struct cay_sha256 *sha)
{
    load();
    sha->context = lib.EVP_MD_CTX_new();
    if (!sha->context || lib.EVP_DigestInit_ex(sha->context, lib.EVP_sha256(), NULL) != 1)
        abort();
}

void cay_sha256_copy(struct cay_sha256 *sha, const struct cay_sha256 *from)
{
    sha->context = lib.EVP_MD_CTX_new();
    if (!sha->context || lib.EVP_MD_CTX_copy_ex(sha->context, from->context) != 1)
        abort();
}

void cay_sha256_add(struct cay_sha256 *sha, const void *data, size_t len)
{
    if (len && lib.EVP_DigestUpdate(sha->context, data, len) != 1)
        abort();
}

static void write_hex(const unsigned char *digest, char *out_hex)
{
    for (size_t i = 0; i < CAY_SHA256_BYTES; i++)
        snprintf(out_hex + 2 * i, 3, "%02x", digest[i]);
}

void cay_sha256_end(struct cay_sha256 *sha, char out_hex[static CAY_SHA256_HEX_SIZE])
{
    unsigned char digest[CAY_SHA256_BYTES];
    cay_sha256_digest(sha, digest);
    write_hex(digest, out_hex);
}

void cay_sha256_digest(struct cay_sha256 *sha, unsigned char out_digest[static CAY_SHA256_BYTES])
{
    if (lib.EVP_DigestFinal_ex(sha->context, out_digest, NULL) != 1)
        abort();
    cay_sha256_finish(sha);
}

void cay_sha256_finish(struct cay_sha256 *sha)
{
    if (sha->context)
        lib.EVP_MD_CTX_free(sha->context);
    sha->context = NULL;
}

void cay_hmac_sha256(const void *key, size_t key_len, struct cay_str text,
                     char out_hex[static CAY_SHA256_HEX_SIZE])
{
    unsigned char digest[CAY_SHA256_BYTES];
    load();
    if (!lib.HMAC(lib.EVP_sha256(), key, (int)key_len, (const unsigned char *)text.ptr, text.len,
                  digest, NULL))
        abort();
    write_hex(digest, out_hex);
}

bool cay_sha256_is_hex(struct cay_str text)
{
    bool is_hex = text.len == CAY_SHA256_HEX_SIZE - 1;
    for (size_t i = 0; is_hex && i < text.len; i++)
        is_hex = (text.ptr[i] >= '0' && text.ptr[i] <= '9') ||
                 (text.ptr[i] >= 'a' && text.ptr[i] <= 'f');
    return is_hex;
}
