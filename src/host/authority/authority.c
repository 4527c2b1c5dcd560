/* SPDX-License-Identifier: Apache-2.0 */
#include "host/authority/authority.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILE_NAME     "authority.pem"
#define FILE_NAME_NEW "authority.pem.new"

enum {
    LEAVES_MAX = 128,
    NAME_BYTES_MAX = 253,
    SERIAL_BYTES = 16,
    DAY_S = 24 * 60 * 60,
    AUTHORITY_DAYS = 3650,
    LEAF_DAYS = 7,
    EARLIER_S = DAY_S, /* valid since then: clocks differ */
    LEAF_KEPT_S = DAY_S,
};

struct leaf {
    char name[NAME_BYTES_MAX + 1];
    time_t made_s; /* 0: a free place */
    char *pem;
    size_t len;
};

struct cay_authority {
    pthread_mutex_t lock;
    int dir_fd;
    EVP_PKEY *key; /* NULL: none was made yet */
    X509 *certificate;
    char *pem; /* of the certificate */
    struct leaf leaves[LEAVES_MAX];
};

/* --- certificates --- */

static bool add_extension(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    bool is_good = extension && X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
    return is_good;
}

static bool set_serial(X509 *certificate)
{
    unsigned char bytes[SERIAL_BYTES];
    if (RAND_bytes(bytes, sizeof(bytes)) != 1)
        return false;
    bytes[0] = (bytes[0] & 0x7F) | 0x40; /* positive, and of one length */
    BIGNUM *number = BN_bin2bn(bytes, sizeof(bytes), NULL);
    bool is_good = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate));
    BN_free(number);
    return is_good;
}

static bool set_common_name(X509_NAME *name, const char *text)
{
    return X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_ASC,
                                      (const unsigned char *)text, -1, -1, 0) == 1;
}

/* Everything but what says what it is for, and the signature. */
static X509 *new_certificate(EVP_PKEY *key, const char *name, const X509_NAME *issuer, int days)
{
    X509 *certificate = X509_new();
    if (certificate && X509_set_version(certificate, X509_VERSION_3) && set_serial(certificate) &&
        X509_gmtime_adj(X509_getm_notBefore(certificate), -EARLIER_S) &&
        X509_gmtime_adj(X509_getm_notAfter(certificate), (long)days * DAY_S) &&
        X509_set_pubkey(certificate, key) &&
        set_common_name(X509_get_subject_name(certificate), name) &&
        X509_set_issuer_name(certificate, issuer ? issuer : X509_get_subject_name(certificate)))
        return certificate;
    X509_free(certificate);
    return NULL;
}

static X509 *make_root(EVP_PKEY *key)
{
    unsigned char bytes[4];
    char name[64];
    if (RAND_bytes(bytes, sizeof(bytes)) != 1)
        return NULL;
    snprintf(name, sizeof(name), "cay: sandboxes of this host %02x%02x%02x%02x", bytes[0], bytes[1],
             bytes[2], bytes[3]);
    X509 *root = new_certificate(key, name, NULL, AUTHORITY_DAYS);
    if (root && add_extension(root, root, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
        add_extension(root, root, NID_key_usage, "critical,keyCertSign") &&
        add_extension(root, root, NID_subject_key_identifier, "hash") &&
        X509_sign(root, key, EVP_sha256()))
        return root;
    X509_free(root);
    return NULL;
}

/* The name stands where verifiers look; it is too long for others at times. */
static X509 *make_leaf(const struct cay_authority *authority, const char *name, EVP_PKEY *key)
{
    char alternative[NAME_BYTES_MAX + 8];
    X509 *root = authority->certificate;
    snprintf(alternative, sizeof(alternative), "DNS:%s", name);
    X509 *leaf = new_certificate(key, "cay: looked into by this sandbox's host",
                                 X509_get_subject_name(root), LEAF_DAYS);
    if (leaf && add_extension(leaf, root, NID_basic_constraints, "critical,CA:FALSE") &&
        add_extension(leaf, root, NID_key_usage, "critical,digitalSignature") &&
        add_extension(leaf, root, NID_ext_key_usage, "serverAuth") &&
        add_extension(leaf, root, NID_subject_key_identifier, "hash") &&
        add_extension(leaf, root, NID_authority_key_identifier, "keyid") &&
        add_extension(leaf, root, NID_subject_alt_name, alternative) &&
        X509_sign(leaf, authority->key, EVP_sha256()))
        return leaf;
    X509_free(leaf);
    return NULL;
}

/* --- texts --- */

/* In memory that is overwritten when it goes. NULL when it cannot be had. */
static BIO *new_text(void)
{
    return BIO_new(BIO_s_secmem());
}

static struct cay_str text_of(BIO *text)
{
    char *bytes = NULL;
    long len = BIO_get_mem_data(text, &bytes);
    return (struct cay_str){bytes, len > 0 ? (size_t)len : 0};
}

static bool put_key(BIO *text, EVP_PKEY *key)
{
    return PEM_write_bio_PKCS8PrivateKey(text, key, NULL, NULL, 0, NULL, NULL) == 1;
}

/* --- the file --- */

static int write_file(int dir_fd, struct cay_str text)
{
    cay_autoclose int fd =
        openat(dir_fd, FILE_NAME_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    if (fchmod(fd, 0600) < 0 || write(fd, text.ptr, text.len) != (ssize_t)text.len ||
        fsync(fd) < 0 || renameat(dir_fd, FILE_NAME_NEW, dir_fd, FILE_NAME) < 0 ||
        fsync(dir_fd) < 0) {
        int status = errno ? -errno : -EIO;
        (void)unlinkat(dir_fd, FILE_NAME_NEW, 0);
        return status;
    }
    return 0;
}

static int keep_certificate(struct cay_authority *authority)
{
    BIO *text = new_text();
    bool is_good = text && PEM_write_bio_X509(text, authority->certificate) == 1;
    if (is_good)
        authority->pem = cay_strndup(text_of(text).ptr, text_of(text).len);
    BIO_free(text);
    return is_good ? 0 : -ENOMEM;
}

/* -ENOENT when there is none. */
static int read_file(struct cay_authority *authority)
{
    char bytes[CAY_AUTHORITY_LEAF_BYTES_MAX];
    cay_autoclose int fd = openat(authority->dir_fd, FILE_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t len = read(fd, bytes, sizeof(bytes));
    if (len < 0)
        return -errno;
    BIO *text = BIO_new_mem_buf(bytes, (int)len);
    if (text) {
        authority->certificate = PEM_read_bio_X509(text, NULL, NULL, NULL);
        authority->key = PEM_read_bio_PrivateKey(text, NULL, NULL, NULL);
    }
    BIO_free(text);
    cay_wipe(bytes, sizeof(bytes));
    bool is_good = authority->certificate && authority->key &&
                   X509_check_private_key(authority->certificate, authority->key) == 1 &&
                   X509_cmp_current_time(X509_get0_notAfter(authority->certificate)) > 0;
    return is_good ? keep_certificate(authority) : -EBADMSG;
}

static void forget(struct cay_authority *authority)
{
    EVP_PKEY_free(cay_take_ptr(authority->key));
    X509_free(cay_take_ptr(authority->certificate));
    free(cay_take_ptr(authority->pem));
}

static int make(struct cay_authority *authority)
{
    BIO *text = new_text();
    int status = -ENOMEM;
    authority->key = EVP_EC_gen("P-256");
    authority->certificate = authority->key ? make_root(authority->key) : NULL;
    if (text && authority->certificate && PEM_write_bio_X509(text, authority->certificate) == 1 &&
        put_key(text, authority->key))
        status = write_file(authority->dir_fd, text_of(text));
    if (status == 0)
        status = keep_certificate(authority);
    BIO_free(text);
    if (status < 0)
        forget(authority);
    return status;
}

static int need(struct cay_authority *authority)
{
    return authority->pem ? 0 : make(authority);
}

int cay_authority_open(int data_dir_fd, struct cay_authority **out)
{
    struct cay_authority *authority = cay_new(struct cay_authority);
    authority->dir_fd = data_dir_fd;
    pthread_mutex_init(&authority->lock, NULL);
    int status = read_file(authority);
    if (status < 0 && status != -ENOENT) {
        cay_authority_close(authority);
        return status;
    }
    *out = authority;
    return 0;
}

void cay_authority_close(struct cay_authority *authority)
{
    if (!authority)
        return;
    for (size_t i = 0; i < LEAVES_MAX; i++) {
        if (authority->leaves[i].pem)
            cay_wipe(authority->leaves[i].pem, authority->leaves[i].len);
        free(authority->leaves[i].pem);
    }
    forget(authority);
    pthread_mutex_destroy(&authority->lock);
    free(authority);
}

struct cay_str cay_authority_certificate(struct cay_authority *authority)
{
    pthread_mutex_lock(&authority->lock);
    struct cay_str text = need(authority) == 0 ? cay_str(authority->pem) : (struct cay_str){};
    pthread_mutex_unlock(&authority->lock);
    return text;
}

/* --- leaves --- */

static bool is_name(struct cay_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '.' && c != '_')
            return false;
    }
    return name.len > 0 && name.len <= NAME_BYTES_MAX;
}

/* The one of that name, or a place for it: the oldest one's. */
static struct leaf *place_for(struct cay_authority *authority, struct cay_str name, time_t now_s)
{
    struct leaf *oldest = &authority->leaves[0];
    for (size_t i = 0; i < LEAVES_MAX; i++) {
        struct leaf *leaf = &authority->leaves[i];
        if (leaf->made_s && cay_str_equal(cay_str(leaf->name), name)) {
            if (now_s < leaf->made_s || now_s - leaf->made_s > LEAF_KEPT_S)
                leaf->made_s = 0;
            return leaf;
        }
        if (leaf->made_s < oldest->made_s)
            oldest = leaf;
    }
    oldest->made_s = 0;
    return oldest;
}

static int fill(const struct cay_authority *authority, struct leaf *leaf, struct cay_str name)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    BIO *text = new_text();
    memcpy(leaf->name, name.ptr, name.len);
    leaf->name[name.len] = '\0';
    X509 *certificate = key ? make_leaf(authority, leaf->name, key) : NULL;
    bool is_good = text && certificate && PEM_write_bio_X509(text, certificate) == 1 &&
                   PEM_write_bio_X509(text, authority->certificate) == 1 && put_key(text, key) &&
                   text_of(text).len <= CAY_AUTHORITY_LEAF_BYTES_MAX;
    if (leaf->pem)
        cay_wipe(leaf->pem, leaf->len);
    free(cay_take_ptr(leaf->pem));
    if (is_good) {
        leaf->len = text_of(text).len;
        leaf->pem = cay_strndup(text_of(text).ptr, leaf->len);
        leaf->made_s = time(NULL);
    }
    X509_free(certificate);
    EVP_PKEY_free(key);
    BIO_free(text);
    return is_good ? 0 : -ENOMEM;
}

int cay_authority_leaf(struct cay_authority *authority, struct cay_str name, struct cay_buf *out)
{
    if (!is_name(name))
        return -EINVAL;
    pthread_mutex_lock(&authority->lock);
    int status = need(authority);
    if (status == 0) {
        struct leaf *leaf = place_for(authority, name, time(NULL));
        status = leaf->made_s ? 0 : fill(authority, leaf, name);
        if (status == 0)
            cay_buf_append(out, leaf->pem, leaf->len);
    }
    pthread_mutex_unlock(&authority->lock);
    return status < 0 ? status : (out->failed ? -EMSGSIZE : 0);
}
