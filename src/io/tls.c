/* SPDX-License-Identifier: Apache-2.0 */
#include "io/tls.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>

struct cay_tls {
    SSL_CTX *context;
};

struct cay_tls_session {
    SSL *ssl;
    bool wants_write;
    bool is_ended;
};

/* What OpenSSL says last, as a sentence; empties its queue. */
static const char *reason_text(char *text, size_t len)
{
    unsigned long code = ERR_peek_last_error();
    ERR_clear_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    snprintf(text, len, "%s", reason ? reason : "unknown error");
    return text;
}

static int select_protocol(SSL *, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *in, unsigned in_len, void *)
{
    static const unsigned char ours[] = "\x02h2\x08http/1.1";
    unsigned char *chosen = NULL;
    /* What the peer likes best. Node has HTTP/2 and offers it last for a reason: its clients lose
     * an answer that comes before they have sent everything. */
    if (SSL_select_next_proto(&chosen, out_len, in, in_len, ours, sizeof(ours) - 1) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

bool cay_tls_create(const char *cert_path, const char *key_path, struct cay_tls **out_tls,
                    struct cay_error *err)
{
    char text[128];
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (!context)
        return cay_fail(err, CAY_R_INTERNAL, "TLS: %s", reason_text(text, sizeof(text)));
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                     SSL_OP_CIPHER_SERVER_PREFERENCE);
    /* Idle connections give their buffers back; a retried write may come from another address. */
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    /* Tickets resume without our memory; the cache would keep thousands of dead sessions. */
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_alpn_select_cb(context, select_protocol, NULL);
    const char *failed = NULL;
    if (SSL_CTX_use_certificate_chain_file(context, cert_path) != 1)
        failed = cert_path;
    else if (SSL_CTX_use_PrivateKey_file(context, key_path, SSL_FILETYPE_PEM) != 1 ||
             SSL_CTX_check_private_key(context) != 1)
        failed = key_path;
    if (failed) {
        SSL_CTX_free(context);
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "TLS: cannot use '%s': %s", failed,
                        reason_text(text, sizeof(text)));
    }
    *out_tls = cay_new(struct cay_tls);
    (*out_tls)->context = context;
    return true;
}

void cay_tls_destroy(struct cay_tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->context);
    free(tls);
}

struct cay_tls_session *cay_tls_accept(struct cay_tls *tls, int fd)
{
    SSL *ssl = SSL_new(tls->context);
    if (!ssl || SSL_set_fd(ssl, fd) != 1) {
        SSL_free(ssl);
        ERR_clear_error();
        return NULL;
    }
    SSL_set_accept_state(ssl);
    struct cay_tls_session *session = cay_new(struct cay_tls_session);
    session->ssl = ssl;
    return session;
}

void cay_tls_session_destroy(struct cay_tls_session *session)
{
    if (!session)
        return;
    cay_tls_end(session);
    SSL_free(session->ssl);
    free(session);
}

void cay_tls_end(struct cay_tls_session *session)
{
    if (session->is_ended || !SSL_is_init_finished(session->ssl))
        return;
    session->is_ended = true;
    SSL_shutdown(session->ssl);
    ERR_clear_error();
}

static ssize_t to_errno(struct cay_tls_session *session, int result)
{
    int error = SSL_get_error(session->ssl, result);
    session->wants_write = error == SSL_ERROR_WANT_WRITE;
    int saved = errno;
    ERR_clear_error();
    switch (error) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: return -EAGAIN;
    case SSL_ERROR_ZERO_RETURN: return 0;
    case SSL_ERROR_SYSCALL: return saved ? -saved : -ECONNRESET;
    default: return -EPROTO;
    }
}

ssize_t cay_tls_read(struct cay_tls_session *session, void *data, size_t len)
{
    errno = 0;
    int got = SSL_read(session->ssl, data, (int)CAY_MIN(len, (size_t)INT_MAX));
    if (got <= 0)
        return to_errno(session, got);
    session->wants_write = false;
    return got;
}

ssize_t cay_tls_write(struct cay_tls_session *session, const void *data, size_t len)
{
    errno = 0;
    int sent = SSL_write(session->ssl, data, (int)CAY_MIN(len, (size_t)INT_MAX));
    if (sent <= 0)
        return to_errno(session, sent);
    session->wants_write = false;
    return sent;
}

bool cay_tls_wants_write(const struct cay_tls_session *session)
{
    return session->wants_write;
}

bool cay_tls_pending(const struct cay_tls_session *session)
{
    return SSL_pending(session->ssl) > 0;
}
