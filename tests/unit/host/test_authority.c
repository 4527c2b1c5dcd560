/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/authority/authority.h"

static char directory[256];

static int enter(void **)
{
    snprintf(directory, sizeof(directory), "%s/cay-authority-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    return mkdtemp(directory) ? 0 : -1;
}

static int open_dir(void)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static int leave(void **)
{
    int fd = open_dir();
    (void)unlinkat(fd, "authority.pem", 0);
    close(fd);
    return rmdir(directory);
}

static X509 *read_certificate(BIO *text)
{
    X509 *certificate = PEM_read_bio_X509(text, NULL, NULL, NULL);
    assert_non_null(certificate);
    return certificate;
}

static void check_leaf(struct cay_str pem, struct cay_str root_pem, const char *name)
{
    BIO *text = BIO_new_mem_buf(pem.ptr, (int)pem.len);
    BIO *root_text = BIO_new_mem_buf(root_pem.ptr, (int)root_pem.len);
    X509 *leaf = read_certificate(text);
    X509 *above = read_certificate(text);
    X509 *root = read_certificate(root_text);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(text, NULL, NULL, NULL);
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *context = X509_STORE_CTX_new();
    assert_non_null(key);
    assert_int_equal(X509_cmp(above, root), 0);
    assert_int_equal(X509_check_private_key(leaf, key), 1);
    assert_int_equal(X509_check_private_key(root, key), 0);
    assert_int_equal(X509_check_host(leaf, name, 0, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL), 1);
    assert_int_equal(X509_check_host(leaf, "other.example.org", 0, 0, NULL), 0);
    assert_int_equal(X509_check_ca(leaf), 0);
    X509_STORE_add_cert(store, root);
    assert_int_equal(X509_STORE_CTX_init(context, store, leaf, NULL), 1);
    X509_STORE_CTX_set_default(context, "ssl_server");
    assert_int_equal(X509_verify_cert(context), 1);
    X509_STORE_CTX_free(context);
    X509_STORE_free(store);
    EVP_PKEY_free(key);
    X509_free(leaf);
    X509_free(above);
    X509_free(root);
    BIO_free(text);
    BIO_free(root_text);
}

static struct cay_buf leaf_of(struct cay_authority *authority, const char *name)
{
    struct cay_buf out;
    cay_buf_init(&out, CAY_AUTHORITY_LEAF_BYTES_MAX);
    assert_int_equal(cay_authority_leaf(authority, cay_str(name), &out), 0);
    return out;
}

static void test_leaves(void **)
{
    char long_name[] = "a123456789012345678901234567890123456789012345678901234567890.b1234567890"
                       "123456789.example.org";
    cay_autoclose int fd = open_dir();
    struct cay_authority *authority = NULL;
    assert_int_equal(cay_authority_open(fd, &authority), 0);
    assert_int_equal(faccessat(fd, "authority.pem", F_OK, 0), -1); /* none before it is needed */
    struct cay_str root = cay_authority_certificate(authority);
    assert_true(root.len > 0);
    assert_null(memmem(root.ptr, root.len, "PRIVATE", 7));
    cay_auto(cay_buf_finish) struct cay_buf one = leaf_of(authority, "api.example.org");
    cay_auto(cay_buf_finish) struct cay_buf two = leaf_of(authority, long_name);
    cay_auto(cay_buf_finish) struct cay_buf again = leaf_of(authority, "api.example.org");
    check_leaf(cay_buf_str(&one), root, "api.example.org");
    check_leaf(cay_buf_str(&two), root, long_name);
    assert_true(cay_str_equal(cay_buf_str(&one), cay_buf_str(&again)));
    /* More names than are kept: those that were first are made again. */
    for (int i = 0; i < 200; i++) {
        char name[32];
        snprintf(name, sizeof(name), "n%d.example.org", i);
        cay_auto(cay_buf_finish) struct cay_buf other = leaf_of(authority, name);
    }
    cay_auto(cay_buf_finish) struct cay_buf later = leaf_of(authority, "api.example.org");
    assert_false(cay_str_equal(cay_buf_str(&one), cay_buf_str(&later)));
    check_leaf(cay_buf_str(&later), root, "api.example.org");
    cay_authority_close(authority);
}

static void test_names(void **)
{
    static const char *const bad[] = {"",        "A.example.org", "a b",
                                      "a,DNS:b", "x\n",           "*.example.org"};
    cay_autoclose int fd = open_dir();
    struct cay_authority *authority = NULL;
    assert_int_equal(cay_authority_open(fd, &authority), 0);
    for (size_t i = 0; i < CAY_COUNT(bad); i++) {
        cay_auto(cay_buf_finish) struct cay_buf out;
        cay_buf_init(&out, CAY_AUTHORITY_LEAF_BYTES_MAX);
        assert_int_equal(cay_authority_leaf(authority, cay_str(bad[i]), &out), -EINVAL);
    }
    cay_authority_close(authority);
}

static void test_kept(void **)
{
    cay_autoclose int fd = open_dir();
    struct cay_authority *authority = NULL;
    struct stat info;
    assert_int_equal(cay_authority_open(fd, &authority), 0);
    cay_autofree char *first = cay_strndup(cay_authority_certificate(authority).ptr,
                                           cay_authority_certificate(authority).len);
    cay_authority_close(authority);
    assert_int_equal(fstatat(fd, "authority.pem", &info, 0), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    assert_int_equal(cay_authority_open(fd, &authority), 0);
    assert_true(cay_str_equal(cay_authority_certificate(authority), cay_str(first)));
    cay_authority_close(authority);
    /* One that is damaged is told, and stays for who may mend it. */
    cay_autoclose int file = openat(fd, "authority.pem", O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_int_equal(write(file, "x", 1), 1);
    assert_int_equal(cay_authority_open(fd, &authority), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_leaves, enter, leave),
        cmocka_unit_test_setup_teardown(test_names, enter, leave),
        cmocka_unit_test_setup_teardown(test_kept, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
