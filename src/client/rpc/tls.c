/* SPDX-License-Identifier: Apache-2.0 */
#include "client/rpc/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/library.h"

/* OpenSSL writes to sockets by write(2), whose SIGPIPE is the process's. So it gets memory to write
 * to and read from, and we do the sending. */

#define FUNCTIONS(X)                    \
    X(TLS_client_method)                \
    X(SSL_CTX_new)                      \
    X(SSL_CTX_free)                     \
    X(SSL_CTX_ctrl)                     \
    X(SSL_CTX_set_verify)               \
    X(SSL_CTX_set_default_verify_paths) \
    X(SSL_CTX_load_verify_file)         \
    X(SSL_CTX_set_alpn_protos)          \
    X(SSL_new)                          \
    X(SSL_free)                         \
    X(SSL_ctrl)                         \
    X(SSL_set_bio)                      \
    X(SSL_set1_host)                    \
    X(SSL_get0_param)                   \
    X(SSL_set_connect_state)            \
    X(SSL_do_handshake)                 \
    X(SSL_get_error)                    \
    X(SSL_read)                         \
    X(SSL_write)                        \
    X(SSL_pending)                      \
    X(SSL_get_verify_result)            \
    X(X509_VERIFY_PARAM_set1_ip_asc)    \
    X(X509_verify_cert_error_string)    \
    X(BIO_new)                          \
    X(BIO_s_mem)                        \
    X(BIO_read)                         \
    X(BIO_write)                        \
    X(BIO_ctrl)                         \
    X(BIO_ctrl_pending)                 \
    X(BIO_free)                         \
    X(ERR_clear_error)                  \
    X(ERR_peek_last_error)              \
    X(ERR_reason_error_string)

/* libcrypto's functions are found through libssl, which depends on it. */
CAY_LIBRARY(lib, "libssl.so.3", FUNCTIONS);

enum { PIECE_BYTES = 16 * 1024 };

struct cay_trust {
    SSL_CTX *context;
};

struct cay_veil {
    SSL *ssl;
    BIO *in;  /* from the socket; the SSL's, as is the other */
    BIO *out; /* for the socket */
    int fd;
    size_t out_len;
    size_t out_sent;
    bool has_ended; /* the peer sends no more */
    char why[96];
    char out_bytes[PIECE_BYTES];
};

bool cay_trust_create(const char *ca_file, struct cay_trust **out_trust, struct cay_error *err)
{
    static const unsigned char protocols[] = "\x08http/1.1";
    if (!cay_library_load(&lib_library))
        return cay_fail(err, CAY_R_NOT_SUPPORTED,
                        "https needs OpenSSL, which cannot be loaded; install the package libssl3");
    struct cay_trust *trust = calloc(1, sizeof(*trust));
    if (trust)
        trust->context = lib.SSL_CTX_new(lib.TLS_client_method());
    if (!trust || !trust->context) {
        cay_trust_destroy(trust);
        return cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
    }
    SSL_CTX *context = trust->context;
    lib.SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
    lib.SSL_CTX_ctrl(context, SSL_CTRL_MODE,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, NULL);
    lib.SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    (void)lib.SSL_CTX_set_alpn_protos(context, protocols, sizeof(protocols) - 1);
    int done = ca_file ? lib.SSL_CTX_load_verify_file(context, ca_file)
                       : lib.SSL_CTX_set_default_verify_paths(context);
    lib.ERR_clear_error();
    if (done == 1) {
        *out_trust = trust;
        return true;
    }
    cay_trust_destroy(trust);
    cay_fail(err, CAY_R_INVALID_ARGUMENT,
             "no certificates can be read from '%.120s'; name a file with certificates in PEM form",
             ca_file ? ca_file : "the system's store");
    return cay_error_fact(err, "remedy", "certificate");
}

void cay_trust_destroy(struct cay_trust *trust)
{
    if (trust && trust->context)
        lib.SSL_CTX_free(trust->context);
    free(trust);
}

static bool is_number(const char *host)
{
    unsigned char bytes[16];
    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

static bool set_host(SSL *ssl, const char *host)
{
    if (is_number(host))
        return lib.X509_VERIFY_PARAM_set1_ip_asc(lib.SSL_get0_param(ssl), host) == 1;
    cay_autofree char *name = strdup(host); /* which SSL_ctrl does not change, but does not say */
    return name && lib.SSL_set1_host(ssl, host) == 1 &&
           lib.SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name) == 1;
}

struct cay_veil *cay_veil_create(struct cay_trust *trust, int fd, const char *host)
{
    struct cay_veil *veil = calloc(1, sizeof(*veil));
    if (!veil)
        return NULL;
    veil->fd = fd;
    veil->ssl = lib.SSL_new(trust->context);
    veil->in = lib.BIO_new(lib.BIO_s_mem());
    veil->out = lib.BIO_new(lib.BIO_s_mem());
    if (!veil->ssl || !veil->in || !veil->out || !set_host(veil->ssl, host)) {
        if (veil->in)
            lib.BIO_free(veil->in);
        if (veil->out)
            lib.BIO_free(veil->out);
        cay_veil_destroy(veil);
        return NULL;
    }
    /* Empty memory is not the end of the stream. */
    lib.BIO_ctrl(veil->in, BIO_C_SET_BUF_MEM_EOF_RETURN, -1, NULL);
    lib.BIO_ctrl(veil->out, BIO_C_SET_BUF_MEM_EOF_RETURN, -1, NULL);
    lib.SSL_set_bio(veil->ssl, veil->in, veil->out);
    lib.SSL_set_connect_state(veil->ssl);
    return veil;
}

void cay_veil_destroy(struct cay_veil *veil)
{
    if (!veil)
        return;
    if (veil->ssl)
        lib.SSL_free(veil->ssl);
    cay_wipe(veil->out_bytes, sizeof(veil->out_bytes));
    free(veil);
}

/* What waits to be sent goes as far as it can: 1 when all went, 0 when the socket is full. */
static int flush(struct cay_veil *veil)
{
    for (;;) {
        if (veil->out_sent == veil->out_len) {
            int got = lib.BIO_read(veil->out, veil->out_bytes, sizeof(veil->out_bytes));
            veil->out_sent = 0;
            veil->out_len = got > 0 ? (size_t)got : 0;
            if (!veil->out_len)
                return 1;
        }
        ssize_t sent = send(veil->fd, veil->out_bytes + veil->out_sent,
                            veil->out_len - veil->out_sent, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN ? 0 : -EPIPE;
        veil->out_sent += (size_t)sent;
    }
}

/* 1 when something came, 0 when nothing is there, -EPIPE when it is broken or over. */
static int fill(struct cay_veil *veil)
{
    char data[PIECE_BYTES];
    ssize_t got = 0;
    do {
        got = recv(veil->fd, data, sizeof(data), 0);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno == EAGAIN ? 0 : -EPIPE;
    veil->has_ended = got == 0;
    return got && lib.BIO_write(veil->in, data, (int)got) == got ? 1 : -EPIPE;
}

static void explain(struct cay_veil *veil, const char **out_why, bool *out_is_trust)
{
    long verdict = lib.SSL_get_verify_result(veil->ssl);
    unsigned long number = lib.ERR_peek_last_error();
    const char *why = veil->has_ended ? "the connection ended in the TLS handshake" : NULL;
    *out_is_trust = verdict != X509_V_OK;
    if (*out_is_trust)
        why = lib.X509_verify_cert_error_string(verdict);
    else if (!why && number)
        why = lib.ERR_reason_error_string(number);
    snprintf(veil->why, sizeof(veil->why), "%s", why ? why : "the TLS handshake failed");
    *out_why = veil->why;
}

int cay_veil_advance(struct cay_veil *veil, const char **out_why, bool *out_is_trust)
{
    for (;;) {
        lib.ERR_clear_error();
        int status = lib.SSL_do_handshake(veil->ssl);
        int error = status == 1 ? SSL_ERROR_NONE : lib.SSL_get_error(veil->ssl, status);
        int sent = flush(veil); /* an alert, too */
        if (status == 1)
            return sent < 0 ? -EPROTO : 1;
        int came = error == SSL_ERROR_WANT_READ && sent >= 0 ? fill(veil) : -EPIPE;
        if (came < 0) {
            explain(veil, out_why, out_is_trust);
            lib.ERR_clear_error();
            return -EPROTO;
        }
        if (!came)
            return 0;
    }
}

ssize_t cay_veil_send(struct cay_veil *veil, const void *data, size_t len)
{
    int sent = flush(veil);
    if (sent <= 0)
        return sent ? -EPIPE : -EAGAIN;
    lib.ERR_clear_error();
    int taken = lib.SSL_write(veil->ssl, data, (int)CAY_MIN(len, (size_t)PIECE_BYTES));
    if (taken <= 0)
        return lib.SSL_get_error(veil->ssl, taken) == SSL_ERROR_WANT_READ ? -EAGAIN : -EPIPE;
    return flush(veil) < 0 ? -EPIPE : taken;
}

ssize_t cay_veil_receive(struct cay_veil *veil, void *out, size_t size)
{
    for (;;) {
        lib.ERR_clear_error();
        int got = lib.SSL_read(veil->ssl, out, (int)CAY_MIN(size, (size_t)INT32_MAX));
        if (got > 0)
            return got;
        int error = lib.SSL_get_error(veil->ssl, got);
        lib.ERR_clear_error();
        if (error == SSL_ERROR_ZERO_RETURN)
            return 0;
        if (error != SSL_ERROR_WANT_READ)
            return -EPIPE;
        int came = fill(veil);
        /* An end without TLS's own word for it may be somebody else's. */
        if (came <= 0)
            return came ? -EPIPE : -EAGAIN;
    }
}

bool cay_veil_wants_write(const struct cay_veil *veil)
{
    return veil->out_sent < veil->out_len || lib.BIO_ctrl_pending(veil->out) > 0;
}

bool cay_veil_has_more(const struct cay_veil *veil)
{
    return lib.SSL_pending(veil->ssl) > 0 || lib.BIO_ctrl_pending(veil->in) > 0;
}
