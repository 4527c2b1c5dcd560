/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/io/tls_pair.h"

#include <assert.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void write_files(const struct tls_pair *pair, EVP_PKEY *key, X509 *cert)
{
    FILE *file = fopen(pair->cert, "we");
    assert(file);
    PEM_write_X509(file, cert);
    fclose(file);
    file = fopen(pair->key, "we");
    assert(file);
    PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL);
    fclose(file);
}

void tls_pair_open(struct tls_pair *pair)
{
    *pair = (struct tls_pair){.dir = "/tmp/cay-test-XXXXXX"};
    char *made = mkdtemp(pair->dir);
    assert(made);
    (void)made;
    snprintf(pair->cert, sizeof(pair->cert), "%s/cert.pem", pair->dir);
    snprintf(pair->key, sizeof(pair->key), "%s/key.pem", pair->dir);
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -60);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    X509_NAME *name = X509_get_subject_name(cert);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"localhost", -1, -1,
                               0);
    X509_set_issuer_name(cert, name);
    X509_sign(cert, key, EVP_sha256());
    write_files(pair, key, cert);
    X509_free(cert);
    EVP_PKEY_free(key);
    pair->client = SSL_CTX_new(TLS_client_method());
    assert(pair->client);
}

void tls_pair_close(struct tls_pair *pair)
{
    SSL_CTX_free(pair->client);
    unlink(pair->cert);
    unlink(pair->key);
    rmdir(pair->dir);
}

SSL *tls_pair_connect(struct tls_pair *pair, int fd, const char *protocols)
{
    SSL *ssl = SSL_new(pair->client);
    assert(ssl);
    SSL_set_fd(ssl, fd);
    if (protocols)
        SSL_set_alpn_protos(ssl, (const unsigned char *)protocols, (unsigned)strlen(protocols));
    SSL_set_connect_state(ssl);
    return ssl;
}
