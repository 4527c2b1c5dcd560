/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

struct leaf {
    char name[CAY_EGRESS_NAME_BYTES_MAX + 1];
    uint64_t made_ms;
    uint64_t used;    /* a number that grows; 0: a free place */
    SSL_CTX *context; /* NULL: the same */
};

struct egress_tls {
    SSL_CTX *upstream;
    BIO_METHOD *method;
    struct leaf leaves[EGRESS_TLS_LEAVES_MAX];
    uint64_t used_count;
};

static const unsigned char protocols[] = "\x08http/1.1";

/* --- sockets, as OpenSSL sees them --- */

static int socket_read(BIO *bio, char *data, int len)
{
    struct egress_tls_side *side = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    size_t most = CAY_MIN((size_t)CAY_MAX(len, 0), side->turn_left);
    if (side->early_len) {
        most = CAY_MIN((size_t)CAY_MAX(len, 0), side->early_len);
        memcpy(data, side->early, most);
        side->early += most;
        side->early_len -= most;
        return (int)most;
    }
    if (!most) { /* others have their turn first */
        BIO_set_retry_read(bio);
        return -1;
    }
    ssize_t got = recv(side->fd, data, most, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(bio);
    if (got > 0)
        side->turn_left -= (size_t)got;
    return (int)got;
}

static int socket_write(BIO *bio, const char *data, int len)
{
    const struct egress_tls_side *side = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    ssize_t sent = send(side->fd, data, (size_t)CAY_MAX(len, 0), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(bio);
    return (int)sent;
}

static long socket_ctrl(BIO *, int what, long, void *)
{
    return what == BIO_CTRL_FLUSH ? 1 : 0;
}

static int socket_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

static BIO_METHOD *new_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    if (method && BIO_meth_set_read(method, socket_read) &&
        BIO_meth_set_write(method, socket_write) && BIO_meth_set_ctrl(method, socket_ctrl) &&
        BIO_meth_set_create(method, socket_create))
        return method;
    BIO_meth_free(method);
    return NULL;
}

/* --- contexts --- */

static SSL_CTX *new_context(const SSL_METHOD *method)
{
    SSL_CTX *context = SSL_CTX_new(method);
    if (!context)
        return NULL;
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                     SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
    /* With automatic retries a ticket that comes alone would be waited behind. */
    SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    return context;
}

static int select_protocol(SSL *, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *in, unsigned in_len, void *)
{
    unsigned char *chosen = NULL;
    if (SSL_select_next_proto(&chosen, out_len, protocols, sizeof(protocols) - 1, in, in_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* What is made at first use would read files or ask the kernel for what is not allowed then: a
 * handshake with nobody makes it now. */
static void warm_up(SSL_CTX *context)
{
    unsigned char bytes[32];
    tzset(); /* dates of certificates: a file, too */
    (void)RAND_bytes(bytes, sizeof(bytes));
    (void)RAND_priv_bytes(bytes, sizeof(bytes));
    SSL *ssl = SSL_new(context);
    BIO *in = BIO_new(BIO_s_mem());
    BIO *out = BIO_new(BIO_s_mem());
    if (ssl && in && out) {
        SSL_set_bio(ssl, in, out);
        SSL_set_connect_state(ssl);
        (void)SSL_do_handshake(ssl);
    }
    SSL_free(ssl);
    ERR_clear_error();
}

struct egress_tls *egress_tls_init(const char *trust_path)
{
    if (OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_LOAD_SSL_STRINGS |
                             OPENSSL_INIT_LOAD_CRYPTO_STRINGS,
                         NULL) != 1)
        return NULL;
    struct egress_tls *tls = cay_new(struct egress_tls);
    tls->method = new_method();
    tls->upstream = new_context(TLS_client_method());
    if (!tls->method || !tls->upstream)
        return NULL;
    (void)SSL_CTX_load_verify_file(tls->upstream, trust_path);
    SSL_CTX_set_verify(tls->upstream, SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_set_alpn_protos(tls->upstream, protocols, sizeof(protocols) - 1) != 0)
        return NULL;
    warm_up(tls->upstream);
    return tls;
}

/* --- leaves --- */

static struct leaf *find_leaf(struct egress_tls *tls, struct cay_str name)
{
    for (size_t i = 0; i < EGRESS_TLS_LEAVES_MAX; i++) {
        if (tls->leaves[i].context && cay_str_equal(cay_str(tls->leaves[i].name), name))
            return &tls->leaves[i];
    }
    return NULL;
}

bool egress_tls_has_leaf(struct egress_tls *tls, const char *name, uint64_t now_ms)
{
    const struct leaf *leaf = find_leaf(tls, cay_str(name));
    return leaf && now_ms - leaf->made_ms < EGRESS_TLS_LEAF_MS;
}

static SSL_CTX *read_leaf(struct cay_str pem)
{
    SSL_CTX *context = new_context(TLS_server_method());
    BIO *text = BIO_new_mem_buf(pem.ptr, (int)pem.len);
    X509 *leaf = text ? PEM_read_bio_X509(text, NULL, NULL, NULL) : NULL;
    X509 *above = leaf ? PEM_read_bio_X509(text, NULL, NULL, NULL) : NULL;
    EVP_PKEY *key = above ? PEM_read_bio_PrivateKey(text, NULL, NULL, NULL) : NULL;
    bool is_good =
        context && key && SSL_CTX_use_certificate(context, leaf) == 1 &&
        SSL_CTX_add1_chain_cert(context, above) == 1 && SSL_CTX_use_PrivateKey(context, key) == 1 &&
        SSL_CTX_check_private_key(context) == 1 && SSL_CTX_set_num_tickets(context, 0) == 1;
    EVP_PKEY_free(key);
    X509_free(above);
    X509_free(leaf);
    BIO_free(text);
    ERR_clear_error();
    if (is_good) {
        SSL_CTX_set_alpn_select_cb(context, select_protocol, NULL);
        return context;
    }
    SSL_CTX_free(context);
    return NULL;
}

bool egress_tls_add_leaf(struct egress_tls *tls, struct cay_str name, struct cay_str pem,
                         uint64_t now_ms)
{
    struct leaf *place = find_leaf(tls, name);
    struct leaf *oldest = &tls->leaves[0];
    for (size_t i = 0; i < EGRESS_TLS_LEAVES_MAX; i++) {
        if (tls->leaves[i].used < oldest->used)
            oldest = &tls->leaves[i];
    }
    place = place ? place : oldest;
    SSL_CTX *context = name.len < sizeof(place->name) ? read_leaf(pem) : NULL;
    if (!context)
        return false;
    SSL_CTX_free(place->context); /* connections that have it keep it */
    *place = (struct leaf){.made_ms = now_ms, .used = ++tls->used_count, .context = context};
    memcpy(place->name, name.ptr, name.len);
    return true;
}

/* --- sides --- */

static int open_side(struct egress_tls *tls, SSL_CTX *context, struct egress_tls_side *side)
{
    SSL *ssl = SSL_new(context);
    BIO *bio = BIO_new(tls->method);
    if (!ssl || !bio) {
        SSL_free(ssl);
        BIO_free(bio);
        return -ENOMEM;
    }
    BIO_set_data(bio, side);
    SSL_set_bio(ssl, bio, bio);
    side->ssl = ssl;
    return 0;
}

int egress_tls_accept(struct egress_tls *tls, const char *name, int fd, struct cay_str early,
                      struct egress_tls_side *out_side)
{
    struct leaf *leaf = find_leaf(tls, cay_str(name));
    if (!leaf)
        return -ENOENT;
    leaf->used = ++tls->used_count;
    *out_side = (struct egress_tls_side){.fd = fd, .early = early.ptr, .early_len = early.len};
    int status = open_side(tls, leaf->context, out_side);
    if (status == 0)
        SSL_set_accept_state(out_side->ssl);
    return status;
}

int egress_tls_connect(struct egress_tls *tls, const char *name, int fd,
                       struct egress_tls_side *out_side)
{
    *out_side = (struct egress_tls_side){.fd = fd};
    int status = open_side(tls, tls->upstream, out_side);
    if (status < 0)
        return status;
    SSL *ssl = out_side->ssl;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (SSL_set1_host(ssl, name) != 1 || SSL_set_tlsext_host_name(ssl, name) != 1)
        return -EINVAL;
    SSL_set_connect_state(ssl);
    return 0;
}

void egress_tls_close(struct egress_tls_side *side)
{
    SSL_free(cay_take_ptr(side->ssl));
    *side = (struct egress_tls_side){.fd = -1};
}

/* 0 when it is only a matter of waiting, or of an end. */
static int wait_for(struct egress_tls_side *side, int result)
{
    int why = SSL_get_error(side->ssl, result);
    unsigned long code = ERR_peek_error();
    ERR_clear_error();
    side->wants_read = why == SSL_ERROR_WANT_READ;
    side->wants_write = why == SSL_ERROR_WANT_WRITE;
    if (side->wants_read || side->wants_write)
        return 0;
    if (why == SSL_ERROR_ZERO_RETURN) {
        side->is_read_over = true;
        return 0;
    }
    side->is_cut =
        why == SSL_ERROR_SYSCALL || (ERR_GET_LIB(code) == ERR_LIB_SSL &&
                                     ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING);
    return -1;
}

int egress_tls_shake(struct egress_tls_side *side)
{
    if (side->is_up)
        return 1;
    int result = SSL_do_handshake(side->ssl);
    if (result != 1)
        return wait_for(side, result) == 0 && !side->is_read_over ? 0 : -1;
    side->is_up = true;
    side->wants_read = side->wants_write = false;
    return 1;
}

const char *egress_tls_distrust(const struct egress_tls_side *side)
{
    long result = side->ssl ? SSL_get_verify_result(side->ssl) : X509_V_OK;
    return result == X509_V_OK ? NULL : X509_verify_cert_error_string(result);
}

ssize_t egress_tls_read(struct egress_tls_side *side, void *data, size_t len)
{
    int got = SSL_read(side->ssl, data, (int)CAY_MIN(len, (size_t)INT32_MAX));
    return got > 0 ? got : wait_for(side, got);
}

ssize_t egress_tls_write(struct egress_tls_side *side, const void *data, size_t len)
{
    int sent = SSL_write(side->ssl, data, (int)CAY_MIN(len, (size_t)INT32_MAX));
    return sent > 0 ? sent : wait_for(side, sent);
}

void egress_tls_end(struct egress_tls_side *side)
{
    if (side->ssl && side->is_up)
        (void)SSL_shutdown(side->ssl);
    ERR_clear_error();
}
