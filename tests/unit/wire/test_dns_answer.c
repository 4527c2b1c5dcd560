/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses by DNS: answers and questions written, answers read. */
#include "tests/unit/test.h"

#include <sys/socket.h>

#include "wire/dns.h"

enum { BYTES_MAX = 65535, A = 1, CNAME = 5, TXT = 16, AAAA = 28 };

static const uint8_t id[2] = {0x12, 0x34};

struct message {
    uint8_t bytes[BYTES_MAX];
    size_t len;
    uint8_t question[CAY_DNS_OWN_BYTES_MAX];
    size_t question_len;
};

static void put(struct message *message, const void *data, size_t len)
{
    assert_true(message->len + len <= BYTES_MAX);
    memcpy(message->bytes + message->len, data, len);
    message->len += len;
}

static void put_number(struct message *message, unsigned value)
{
    put(message, &(uint8_t[]){(uint8_t)(value >> 8), (uint8_t)value}, 2);
}

/* An answer to a question, without records. */
static struct message *begin(const char *name, uint16_t type)
{
    struct message *message = calloc(1, sizeof(*message));
    message->question_len = cay_dns_write_question(cay_str(name), type, id, message->question);
    assert_true(message->question_len > 0);
    put(message, message->question, message->question_len);
    message->bytes[2] |= 0x80;
    return message;
}

/* `owner` and `data` as on the wire. */
static void add(struct message *message, const char *owner, size_t owner_len, unsigned type,
                const void *data, size_t data_len)
{
    message->bytes[6] = (uint8_t)(((message->bytes[6] << 8 | message->bytes[7]) + 1) >> 8);
    message->bytes[7]++;
    put(message, owner, owner_len);
    put_number(message, type);
    put_number(message, 1);
    put_number(message, 0);
    put_number(message, 60);
    put_number(message, (unsigned)data_len);
    put(message, data, data_len);
}

#define ADD(message, owner, type, data) \
    add(message, owner, sizeof(owner) - 1, type, data, sizeof(data) - 1)

static enum cay_dns_code read_message(const struct message *message, struct cay_dns_addresses *out)
{
    /* As long as it is, so that a byte too many is seen. */
    uint8_t *exact = malloc(message->len);
    memcpy(exact, message->bytes, message->len);
    enum cay_dns_code code =
        cay_dns_read_answer(exact, message->len, message->question, message->question_len, out);
    free(exact);
    return code;
}

static void expect(struct message *message, enum cay_dns_code code, size_t count)
{
    struct cay_dns_addresses found;
    enum cay_dns_code got = read_message(message, &found);
    if (got != code || found.count != count)
        fail_msg("code %d, %zu addresses", got, found.count);
    free(message);
}

static void our_answers_are_answers(void **)
{
    static const struct cay_ip addresses[] = {{AF_INET, {198, 18, 0, 1}},
                                              {AF_INET, {198, 18, 0, 2}}};
    uint8_t question[CAY_DNS_OWN_BYTES_MAX];
    uint8_t answer[CAY_DNS_OWN_BYTES_MAX];
    struct cay_dns_question read;
    struct cay_dns_addresses found;
    size_t len = cay_dns_write_question(CAY_STR("Pack.Example"), A, id, question);
    assert_int_equal(cay_dns_check(question, len), CAY_DNS_GOOD);
    assert_true(cay_dns_read_question(question, len, &read));
    assert_string_equal(read.name, "pack.example");
    assert_int_equal(read.type, A);
    assert_int_equal(read.len, len);
    size_t answer_len = cay_dns_write_answer(question, &read, addresses, 2, 30, answer);
    assert_int_equal(cay_dns_read_answer(answer, answer_len, question, len, &found), CAY_DNS_GOOD);
    assert_int_equal(found.count, 2);
    assert_memory_equal(found.list, addresses, sizeof(addresses));
    /* The case of the question comes back: some check that. */
    assert_memory_equal(answer + 12, "\4Pack\7Example", 13);
    answer_len = cay_dns_write_answer(question, &read, NULL, 0, 0, answer);
    assert_int_equal(cay_dns_read_answer(answer, answer_len, question, len, &found), CAY_DNS_GOOD);
    assert_int_equal(found.count, 0);
}

static void names_that_text_cannot_say_are_none(void **)
{
    static const char *const names[] = {"\3a.b\4test", "\3a b\4test", "\2\xc3\xbc\4test",
                                        "\1\x01\4test"};
    for (size_t i = 0; i < CAY_COUNT(names); i++) {
        struct message message = {};
        struct cay_dns_question read;
        put(&message, "\x12\x34\1\0\0\1\0\0\0\0\0\0", 12);
        put(&message, names[i], strlen(names[i]) + 1);
        put_number(&message, A);
        put_number(&message, 1);
        assert_int_equal(cay_dns_check(message.bytes, message.len), CAY_DNS_GOOD);
        assert_false(cay_dns_read_question(message.bytes, message.len, &read));
    }
    uint8_t out[CAY_DNS_OWN_BYTES_MAX];
    char long_name[300];
    memset(long_name, 'a', sizeof(long_name));
    assert_int_equal(cay_dns_write_question(CAY_STR(""), A, id, out), 0);
    assert_int_equal(cay_dns_write_question(CAY_STR("a..b"), A, id, out), 0);
    assert_int_equal(cay_dns_write_question(CAY_STR("a."), A, id, out), 0);
    assert_int_equal(cay_dns_write_question((struct cay_str){long_name, 64}, A, id, out), 0);
    assert_int_equal(cay_dns_write_question((struct cay_str){long_name, 300}, A, id, out), 0);
}

static void other_names_are_followed(void **)
{
    struct message *message = begin("a.test", A);
    /* In any order: the address first. */
    ADD(message, "\1c\xc0\x0e", A, "\1\2\3\4");
    ADD(message, "\1b\xc0\x0e", CNAME, "\1C\xc0\x0e");
    ADD(message, "\xc0\x0c", CNAME, "\1b\4TEST\0");
    ADD(message, "\1d\xc0\x0e", A, "\5\6\7\x08"); /* nobody asked */
    ADD(message, "\1c\xc0\x0e", AAAA, "0123456789abcdef");
    ADD(message, "\1c\xc0\x0e", A, "\1\2\3"); /* no address */
    expect(message, CAY_DNS_GOOD, 1);
    message = begin("a.test", AAAA);
    ADD(message, "\xc0\x0c", AAAA, "0123456789abcdef");
    ADD(message, "\xc0\x0c", A, "\1\2\3\4");
    expect(message, CAY_DNS_GOOD, 1);
    message = begin("a.test", A);
    ADD(message, "\xc0\x0c", CNAME, "\1b\xc0\x0e");
    expect(message, CAY_DNS_GOOD, 0);
}

static void circles_end(void **)
{
    struct message *message = begin("a.test", A);
    ADD(message, "\xc0\x0c", CNAME, "\1b\xc0\x0e");
    ADD(message, "\1b\xc0\x0e", CNAME, "\1a\xc0\x0e");
    expect(message, CAY_DNS_FAILED, 0);
    message = begin("a.test", A);
    size_t at = message->len;
    const char self[] = {(char)(0xc0 | at >> 8), (char)at};
    add(message, self, 2, A, "\1\2\3\4", 4); /* a pointer to itself */
    expect(message, CAY_DNS_FAILED, 0);
    message = begin("a.test", A);
    ADD(message, "\xc0\xff", A, "\1\2\3\4"); /* to what comes later */
    expect(message, CAY_DNS_FAILED, 0);
    message = begin("a.test", A);
    ADD(message, "\xc0\x0c", CNAME, "\1b\xc0\x0c"); /* longer and longer: b.a.test */
    expect(message, CAY_DNS_GOOD, 0);
}

static void only_answers_to_the_question_count(void **)
{
    struct cay_dns_addresses found;
    struct message *message = begin("a.test", A);
    ADD(message, "\xc0\x0c", A, "\1\2\3\4");
    struct message *wrong = malloc(sizeof(*wrong));
    static const size_t places[] = {0, 1, 2 /* a question */, 5, 13, 18, 21};
    for (size_t i = 0; i < CAY_COUNT(places); i++) {
        memcpy(wrong, message, sizeof(*wrong));
        wrong->bytes[places[i]] ^= places[i] == 2 ? 0x80 : 1;
        if (read_message(wrong, &found) != CAY_DNS_MALFORMED)
            fail_msg("changed at %zu", places[i]);
    }
    memcpy(wrong, message, sizeof(*wrong));
    wrong->bytes[13] ^= 0x20; /* in another case */
    assert_int_equal(read_message(wrong, &found), CAY_DNS_GOOD);
    assert_int_equal(found.count, 1);
    memcpy(wrong, message, sizeof(*wrong));
    for (wrong->len = 0; wrong->len < message->len; wrong->len++)
        assert_int_not_equal(read_message(wrong, &found), CAY_DNS_GOOD);
    free(wrong);
    message->bytes[3] = 3;
    assert_int_equal(read_message(message, &found), CAY_DNS_NO_NAME);
    message->bytes[3] = 5;
    assert_int_equal(read_message(message, &found), CAY_DNS_FAILED);
    message->bytes[3] = 0;
    message->bytes[2] |= 2;
    assert_int_equal(read_message(message, &found), CAY_DNS_GOOD);
    assert_true(found.is_cut);
    assert_int_equal(found.count, 0);
    free(message);
}

static void many_addresses_are_some(void **)
{
    struct message *message = begin("a.test", A);
    for (size_t i = 0; i < 100; i++)
        ADD(message, "\xc0\x0c", A, "\1\2\3\4");
    expect(message, CAY_DNS_GOOD, CAY_DNS_ADDRESSES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_answers_are_answers),
        cmocka_unit_test(names_that_text_cannot_say_are_none),
        cmocka_unit_test(other_names_are_followed),
        cmocka_unit_test(circles_end),
        cmocka_unit_test(only_answers_to_the_question_count),
        cmocka_unit_test(many_addresses_are_some),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
