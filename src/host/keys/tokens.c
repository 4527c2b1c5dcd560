/* SPDX-License-Identifier: Apache-2.0 */
#include "host/keys/tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/id.h"

static const char file_name[] = "token.key";
static const char new_name[] = "token.key.new";

enum { MAC_CHARS = 40 }; /* 160 bits */

static const char *const prefixes[] = {
    [CAY_TOKEN_ACCESS] = "cst",
    [CAY_TOKEN_TRAFFIC] = "ctt",
};

static bool read_secret(struct cay_tokens *tokens, int data_fd, int *out_status)
{
    cay_autoclose int fd = openat(data_fd, file_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    *out_status = fd < 0 ? -errno : 0;
    if (fd < 0)
        return false;
    ssize_t len = read(fd, tokens->secret, sizeof(tokens->secret));
    if (len != (ssize_t)sizeof(tokens->secret))
        *out_status = len < 0 ? -errno : -EBADMSG;
    return *out_status == 0;
}

/* Under its name only when it is whole. */
static int write_secret(const struct cay_tokens *tokens, int data_fd)
{
    cay_autoclose int fd =
        openat(data_fd, new_name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    ssize_t len = write(fd, tokens->secret, sizeof(tokens->secret));
    if (len != (ssize_t)sizeof(tokens->secret))
        return len < 0 ? -errno : -EIO;
    if (fsync(fd) < 0 || renameat(data_fd, new_name, data_fd, file_name) < 0 || fsync(data_fd) < 0)
        return -errno;
    return 0;
}

bool cay_tokens_init(struct cay_tokens *tokens, int data_fd, struct cay_error *err)
{
    int status = 0;
    if (read_secret(tokens, data_fd, &status))
        return true;
    if (status != -ENOENT)
        return cay_fail_errno(err, CAY_R_DATA_LOSS, status,
                              "read '%s' in the data directory; without it the tokens of sessions "
                              "change: remove it to have a new one made",
                              file_name);
    cay_random_bytes(tokens->secret, sizeof(tokens->secret));
    status = write_secret(tokens, data_fd);
    return status == 0 || cay_fail_errno(err, CAY_R_INTERNAL, status,
                                         "write '%s' in the data directory", file_name);
}

void cay_tokens_finish(struct cay_tokens *tokens)
{
    OPENSSL_cleanse(tokens->secret, sizeof(tokens->secret));
}

/* Fails without memory only. */
static void derive(const struct cay_tokens *tokens, const char *text, size_t len,
                   unsigned char mac[EVP_MAX_MD_SIZE])
{
    if (!HMAC(EVP_sha256(), tokens->secret, (int)sizeof(tokens->secret),
              (const unsigned char *)text, len, mac, NULL))
        abort();
}

void cay_token_make(const struct cay_tokens *tokens, enum cay_token_kind kind,
                    const char *session_id, int64_t born_ns, char out[CAY_TOKEN_SIZE])
{
    char text[256];
    unsigned char mac[EVP_MAX_MD_SIZE];
    char hex[MAC_CHARS + 1];
    int len =
        snprintf(text, sizeof(text), "%s %lld %s", prefixes[kind], (long long)born_ns, session_id);
    derive(tokens, text, (size_t)len, mac);
    cay_hex_encode(mac, MAC_CHARS / 2, hex, sizeof(hex));
    snprintf(out, CAY_TOKEN_SIZE, "%s_%s_%s", prefixes[kind], session_id, hex);
}

void cay_token_placeholder(const struct cay_tokens *tokens, const char *session_id, int64_t born_ns,
                           struct cay_str variable, char out[CAY_PLACEHOLDER_SIZE])
{
    enum { PLACEHOLDER_CHARS = 32 };
    char text[512];
    unsigned char mac[EVP_MAX_MD_SIZE];
    char hex[PLACEHOLDER_CHARS + 1];
    int len = snprintf(text, sizeof(text), "placeholder %lld %s %.*s", (long long)born_ns,
                       session_id, (int)CAY_MIN(variable.len, (size_t)128), variable.ptr);
    derive(tokens, text, (size_t)len, mac);
    cay_hex_encode(mac, PLACEHOLDER_CHARS / 2, hex, sizeof(hex));
    snprintf(out, CAY_PLACEHOLDER_SIZE, "cay-secret-%s", hex);
}

struct cay_str cay_token_session(struct cay_str token)
{
    size_t prefix_len = strlen(prefixes[CAY_TOKEN_ACCESS]) + 1;
    if (token.len <= prefix_len + 1 + MAC_CHARS || !cay_str_starts(token, "cst_") ||
        token.ptr[token.len - MAC_CHARS - 1] != '_')
        return (struct cay_str){};
    return (struct cay_str){token.ptr + prefix_len, token.len - prefix_len - 1 - MAC_CHARS};
}

bool cay_token_is(const struct cay_tokens *tokens, enum cay_token_kind kind, const char *session_id,
                  int64_t born_ns, struct cay_str token)
{
    char wanted[CAY_TOKEN_SIZE];
    cay_token_make(tokens, kind, session_id, born_ns, wanted);
    return token.len == strlen(wanted) && CRYPTO_memcmp(wanted, token.ptr, token.len) == 0;
}
