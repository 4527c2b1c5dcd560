/* SPDX-License-Identifier: Apache-2.0 */
/* Whom a TLS client wants. */
#include "tests/unit/test.h"

#include <openssl/ssl.h>

#include "base/base.h"
#include "wire/hello.h"

enum { BYTES_MAX = 2 * CAY_HELLO_BYTES_MAX };

struct bytes {
    uint8_t data[BYTES_MAX];
    size_t len;
};

static void put(struct bytes *out, const void *data, size_t len)
{
    assert_true(out->len + len <= BYTES_MAX);
    memcpy(out->data + out->len, data, len);
    out->len += len;
}

static void put_number(struct bytes *out, size_t value, size_t len)
{
    while (len--)
        put(out, &(uint8_t){(uint8_t)(value >> 8 * len)}, 1);
}

static void put_part(struct bytes *out, size_t length_bytes, const void *data, size_t len)
{
    put_number(out, len, length_bytes);
    put(out, data, len);
}

static void put_extension(struct bytes *out, unsigned kind, const void *data, size_t len)
{
    put_number(out, kind, 2);
    put_part(out, 2, data, len);
}

static void put_name(struct bytes *out, const void *name, size_t len)
{
    struct bytes list = {};
    struct bytes part = {};
    put_number(&list, 0, 1);
    put_part(&list, 2, name, len);
    put_part(&part, 2, list.data, list.len);
    put_extension(out, 0, part.data, part.len);
}

/* A message with these extensions. */
static struct bytes message_with(const struct bytes *extensions)
{
    static const uint8_t zeros[32] = {};
    struct bytes body = {};
    struct bytes message = {};
    put_number(&body, 0x0303, 2);
    put(&body, zeros, 32);
    put_part(&body, 1, zeros, 32);
    put_part(&body, 2, "\x13\x01\x13\x02", 4);
    put_part(&body, 1, "", 1);
    put_part(&body, 2, extensions->data, extensions->len);
    put_number(&message, 1, 1);
    put_part(&message, 3, body.data, body.len);
    return message;
}

/* In records of that many bytes each. */
static struct bytes records_of(const struct bytes *message, size_t bytes_each)
{
    struct bytes out = {};
    for (size_t at = 0; at < message->len; at += bytes_each) {
        put(&out, "\x16\x03\x01", 3);
        put_part(&out, 2, message->data + at, CAY_MIN(bytes_each, message->len - at));
    }
    return out;
}

static enum cay_hello_state look_at(const struct bytes *bytes, struct cay_hello *out)
{
    struct cay_hello_look look = {};
    return cay_hello_look(&look, bytes->data, bytes->len, out);
}

static enum cay_hello_state look_with(const struct bytes *extensions, struct cay_hello *out)
{
    struct bytes message = message_with(extensions);
    struct bytes bytes = records_of(&message, 4096);
    return look_at(&bytes, out);
}

static enum cay_hello_state look_named(const char *name, size_t len, struct cay_hello *out)
{
    struct bytes extensions = {};
    put_name(&extensions, name, len);
    return look_with(&extensions, out);
}

static struct bytes hello_of_openssl(const char *name)
{
    struct bytes out = {};
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *ssl = SSL_new(context);
    BIO *to = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), to);
    SSL_set_tlsext_host_name(ssl, name);
    SSL_set_alpn_protos(ssl, (const unsigned char *)"\2h2\10http/1.1", 12);
    SSL_connect(ssl);
    int len = BIO_read(to, out.data, BYTES_MAX);
    assert_true(len > 0);
    out.len = (size_t)len;
    SSL_free(ssl);
    SSL_CTX_free(context);
    return out;
}

static void a_real_client_is_understood(void **)
{
    struct bytes bytes = hello_of_openssl("Pack.Example");
    struct cay_hello hello;
    assert_int_equal(look_at(&bytes, &hello), CAY_HELLO_WHOLE);
    assert_string_equal(hello.name, "pack.example");
    assert_false(hello.is_encrypted);
    assert_true(cay_hello_offers(&hello, "h2"));
    assert_true(cay_hello_offers(&hello, "http/1.1"));
    assert_false(cay_hello_offers(&hello, "http"));
    put(&bytes, "\x17\x03\x03", 3); /* what comes behind it does not matter */
    assert_int_equal(look_at(&bytes, &hello), CAY_HELLO_WHOLE);
}

/* However it is cut, into records and into pieces. */
static void pieces_make_a_whole(void **)
{
    static const size_t sizes[] = {1, 2, 3, 5, 7, 100, 4096};
    struct bytes extensions = {};
    put_name(&extensions, "pack.example", 12);
    struct bytes message = message_with(&extensions);
    for (size_t i = 0; i < CAY_COUNT(sizes); i++) {
        struct bytes bytes = records_of(&message, sizes[i]);
        struct cay_hello_look look = {};
        struct cay_hello hello;
        for (size_t len = 0; len < bytes.len; len++) {
            uint8_t *exact = malloc(len ? len : 1);
            memcpy(exact, bytes.data, len);
            if (cay_hello_look(&look, exact, len, &hello) != CAY_HELLO_MORE)
                fail_msg("records of %zu: done at %zu of %zu", sizes[i], len, bytes.len);
            free(exact);
        }
        assert_int_equal(cay_hello_look(&look, bytes.data, bytes.len, &hello), CAY_HELLO_WHOLE);
        assert_string_equal(hello.name, "pack.example");
    }
}

static void other_protocols_are_told_apart(void **)
{
    static const struct {
        const char *text;
        size_t len;
        enum cay_hello_state state;
    } cases[] = {
        {"", 0, CAY_HELLO_MORE},
        {"G", 1, CAY_HELLO_OTHER},
        {"SSH-2.0-x", 9, CAY_HELLO_OTHER},
        {"\0\0\0\x08\4\xd2\x16\x2f", 8, CAY_HELLO_OTHER}, /* postgres */
        {"\x16", 1, CAY_HELLO_MORE},
        {"\x16\3", 2, CAY_HELLO_MORE},
        {"\x16\4", 2, CAY_HELLO_OTHER},
        {"\x15", 1, CAY_HELLO_MORE},
        {"\x15\1", 2, CAY_HELLO_OTHER},
        {"\x15\3", 2, CAY_HELLO_BAD}, /* an alert first */
        {"\x14\3\3\0\1\1", 6, CAY_HELLO_BAD},
        {"\x17\3\3\0\1\1", 6, CAY_HELLO_BAD},
        {"\x18\3\3\0\1\1", 6, CAY_HELLO_BAD},
        {"\x16\3\1\0\0", 5, CAY_HELLO_BAD},                    /* an empty record */
        {"\x16\3\1\x40\1", 5, CAY_HELLO_BAD},                  /* a long one */
        {"\x16\3\1\1\0\2", 6, CAY_HELLO_BAD},                  /* another message */
        {"\x16\3\1\0\4\1\xff\xff\xff", 9, CAY_HELLO_BAD},      /* too long a message */
        {"\x16\3\1\0\1\1\x15\3\1\0\2\1\0", 13, CAY_HELLO_BAD}, /* another record in it */
        {"\x16\3\1\0\1\1GET ", 10, CAY_HELLO_BAD},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        struct bytes bytes = {};
        struct cay_hello hello;
        put(&bytes, cases[i].text, cases[i].len);
        if (look_at(&bytes, &hello) != cases[i].state)
            fail_msg("case %zu: %d", i, look_at(&bytes, &hello));
    }
}

static void names_are_names(void **)
{
    char long_name[256];
    struct cay_hello hello;
    memset(long_name, 'a', sizeof(long_name));
    assert_int_equal(look_named("a.b", 3, &hello), CAY_HELLO_WHOLE);
    assert_int_equal(look_named("a\0b", 3, &hello), CAY_HELLO_BAD);
    assert_int_equal(look_named("a b", 3, &hello), CAY_HELLO_BAD);
    assert_int_equal(look_named("\xc3\xbc", 2, &hello), CAY_HELLO_BAD);
    assert_int_equal(look_named("", 0, &hello), CAY_HELLO_BAD);
    assert_int_equal(look_named(long_name, 255, &hello), CAY_HELLO_WHOLE);
    assert_int_equal(look_named(long_name, 256, &hello), CAY_HELLO_BAD);
    struct bytes none = {};
    assert_int_equal(look_with(&none, &hello), CAY_HELLO_WHOLE);
    assert_string_equal(hello.name, "");
}

static void what_can_be_read_in_two_ways_is_refused(void **)
{
    static const struct {
        unsigned kind;
        const char *data;
        size_t len;
    } cases[] = {
        {0, "", 0},
        {0, "\0\0", 2},                 /* an empty list */
        {0, "\0\4\0\0\1a\0", 7},        /* something behind it */
        {0, "\0\5\0\0\1a", 6},          /* cut */
        {0, "\0\4\1\0\1a", 6},          /* no host */
        {0, "\0\x8\0\0\1a\0\0\1b", 10}, /* two names */
        {0, "\0\3\0\0\1a", 6},          /* wrong lengths */
        {16, "\0\0", 2},
        {16, "\0\3\2h2x", 6},
        {16, "\0\3\3h2", 5},
        {16, "\0\1\0", 3},
    };
    struct cay_hello hello;
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        struct bytes extensions = {};
        put_extension(&extensions, cases[i].kind, cases[i].data, cases[i].len);
        if (look_with(&extensions, &hello) != CAY_HELLO_BAD)
            fail_msg("case %zu", i);
    }
    struct bytes twice = {};
    put_name(&twice, "a", 1);
    put_name(&twice, "b", 1);
    assert_int_equal(look_with(&twice, &hello), CAY_HELLO_BAD);
    struct bytes cut = {};
    put_name(&cut, "a", 1);
    cut.len--;
    assert_int_equal(look_with(&cut, &hello), CAY_HELLO_BAD);
    /* Another message in the same record. */
    struct bytes none = {};
    struct bytes message = message_with(&none);
    put(&message, "\1", 1);
    struct bytes bytes = records_of(&message, 4096);
    assert_int_equal(look_at(&bytes, &hello), CAY_HELLO_BAD);
}

static void hidden_names_are_noticed(void **)
{
    static const unsigned kinds[] = {0xfe08, 0xfe0d, 0xffce};
    struct cay_hello hello;
    for (size_t i = 0; i < CAY_COUNT(kinds); i++) {
        struct bytes extensions = {};
        put_name(&extensions, "a", 1);
        put_extension(&extensions, kinds[i], "x", 1);
        assert_int_equal(look_with(&extensions, &hello), CAY_HELLO_WHOLE);
        assert_true(hello.is_encrypted);
    }
}

static void length_is_bounded(void **)
{
    static const uint8_t zeros[CAY_HELLO_BYTES_MAX];
    struct bytes extensions = {};
    struct cay_hello hello;
    put_extension(&extensions, 21, zeros, 15'000);
    assert_int_equal(look_with(&extensions, &hello), CAY_HELLO_WHOLE);
    extensions.len = 0;
    put_extension(&extensions, 21, zeros, CAY_HELLO_BYTES_MAX - 1);
    assert_int_equal(look_with(&extensions, &hello), CAY_HELLO_BAD);
    /* Small records make it long, too. */
    extensions.len = 0;
    put_extension(&extensions, 21, zeros, 4000);
    struct bytes message = message_with(&extensions);
    struct bytes bytes = records_of(&message, 1);
    assert_int_equal(look_at(&bytes, &hello), CAY_HELLO_BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_real_client_is_understood),
        cmocka_unit_test(pieces_make_a_whole),
        cmocka_unit_test(other_protocols_are_told_apart),
        cmocka_unit_test(names_are_names),
        cmocka_unit_test(what_can_be_read_in_two_ways_is_refused),
        cmocka_unit_test(hidden_names_are_noticed),
        cmocka_unit_test(length_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
