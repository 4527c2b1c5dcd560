/* SPDX-License-Identifier: Apache-2.0 */
/* Which questions of DNS are passed on. */
#include "tests/unit/test.h"

#include "wire/dns.h"

struct question {
    uint8_t flags;
    uint8_t counts[4];
    const char *name; /* as on the wire, without its last zero; NULL: a pointer */
    uint16_t type;
    uint16_t class;
    const char *rest;
    size_t rest_len;
};

static size_t write_question(const struct question *question, uint8_t *out)
{
    size_t len = CAY_DNS_HEADER_BYTES;
    const char *name = question->name ? question->name : "\xc0\x0c";
    memset(out, 0, len);
    out[0] = 0x12;
    out[1] = 0x34;
    out[2] = question->flags;
    for (size_t i = 0; i < 4; i++)
        out[5 + 2 * i] = question->counts[i];
    memcpy(out + len, name, strlen(name));
    len += strlen(name);
    if (question->name)
        out[len++] = 0;
    const uint8_t tail[] = {(uint8_t)(question->type >> 8), (uint8_t)question->type,
                            (uint8_t)(question->class >> 8), (uint8_t)question->class};
    memcpy(out + len, tail, sizeof(tail));
    len += sizeof(tail);
    if (question->rest_len)
        memcpy(out + len, question->rest, question->rest_len);
    return len + question->rest_len;
}

#define NAME       "\5world\4test"
#define ONE        .counts = {1}
#define OPTIONS    "\0\0\x29\4\xd0\0\0\0\0\0\0"
#define REST(text) .rest = text, .rest_len = sizeof(text) - 1

static void only_plain_questions_pass(void **)
{
    static const struct {
        struct question question;
        enum cay_dns_code code;
    } cases[] = {
        {{1, ONE, NAME, 1, 1}, CAY_DNS_GOOD},
        {{0, ONE, NAME, 28, 1}, CAY_DNS_GOOD},
        {{1, ONE, "", 2, 1}, CAY_DNS_GOOD},
        {{1, ONE, NAME, 255, 1}, CAY_DNS_GOOD},
        {{1, {1, 0, 0, 1}, NAME, 1, 1, REST(OPTIONS)}, CAY_DNS_GOOD},
        {{1, ONE, NAME, 252, 1}, CAY_DNS_REFUSED},                      /* AXFR */
        {{1, {1, 0, 1, 0}, NAME, 251, 1}, CAY_DNS_REFUSED},             /* IXFR */
        {{1, ONE, NAME, 251, 1}, CAY_DNS_REFUSED},                      /* without its SOA */
        {{1, ONE, NAME, 249, 1}, CAY_DNS_REFUSED},                      /* TKEY */
        {{1, ONE, NAME, 41, 1}, CAY_DNS_REFUSED},                       /* no type to ask for */
        {{1, ONE, NAME, 16, 3}, CAY_DNS_REFUSED},                       /* CHAOS */
        {{1, ONE, NAME, 1, 255}, CAY_DNS_REFUSED},                      /* any class */
        {{0x28, ONE, NAME, 6, 1}, CAY_DNS_UNKNOWN_KIND},                /* UPDATE */
        {{0x20, ONE, NAME, 6, 1}, CAY_DNS_UNKNOWN_KIND},                /* NOTIFY */
        {{0x10, {0}, NAME, 1, 1}, CAY_DNS_UNKNOWN_KIND},                /* STATUS */
        {{1, {0}, NAME, 1, 1}, CAY_DNS_REFUSED},                        /* no question */
        {{1, {2}, NAME, 1, 1, REST("\1a\0\0\1\0\1")}, CAY_DNS_REFUSED}, /* two */
        {{1, {1, 1, 0, 0}, NAME, 1, 1}, CAY_DNS_REFUSED},               /* an answer in it */
        {{1, {1, 0, 0, 2}, NAME, 1, 1, REST(OPTIONS OPTIONS)}, CAY_DNS_REFUSED},
        {{1, {1, 0, 0, 1}, NAME, 1, 1, REST("\0\0\xfa\0\xff\0\0\0\0\0\0")}, CAY_DNS_REFUSED},
        {{1, {1, 0, 0, 1}, NAME, 1, 1}, CAY_DNS_REFUSED},     /* said, not there */
        {{1, ONE, NAME, 1, 1, REST("x")}, CAY_DNS_MALFORMED}, /* not said, there */
        {{1, ONE, NULL, 1, 1}, CAY_DNS_MALFORMED},
        {{0x81, ONE, NAME, 1, 1}, CAY_DNS_MALFORMED}, /* an answer */
    };
    uint8_t bytes[512];
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        size_t len = write_question(&cases[i].question, bytes);
        if (cay_dns_check(bytes, len) != cases[i].code)
            fail_msg("case %zu: %d", i, cay_dns_check(bytes, len));
        /* No beginning of a good one is one. */
        for (size_t cut = 0; cut < len && cases[i].code == CAY_DNS_GOOD; cut++)
            assert_int_not_equal(cay_dns_check(bytes, cut), CAY_DNS_GOOD);
    }
}

static void names_are_bounded(void **)
{
    char name[256] = "";
    uint8_t bytes[512];
    for (size_t i = 0; i < 254; i += 2)
        memcpy(name + i, "\1a", 2);
    struct question question = {1, ONE, name, 1, 1};
    assert_int_equal(cay_dns_check(bytes, write_question(&question, bytes)), CAY_DNS_GOOD);
    memcpy(name + 252, "\2aa", 3);
    assert_int_equal(cay_dns_check(bytes, write_question(&question, bytes)), CAY_DNS_MALFORMED);
}

static void a_refusal_is_an_answer_to_the_question(void **)
{
    const struct question question = {0x29, ONE, NAME, 6, 1};
    const uint8_t other[2] = {1, 2};
    uint8_t bytes[512];
    uint8_t answer[CAY_DNS_HEADER_BYTES];
    (void)write_question(&question, bytes);
    cay_dns_refuse(bytes, CAY_DNS_UNKNOWN_KIND, answer);
    assert_true(cay_dns_is_answer(answer, sizeof(answer), bytes));
    assert_false(cay_dns_is_answer(answer, sizeof(answer), other));
    assert_int_equal(answer[2], 0xA9);
    assert_int_equal(answer[3], CAY_DNS_UNKNOWN_KIND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_plain_questions_pass),
        cmocka_unit_test(names_are_bounded),
        cmocka_unit_test(a_refusal_is_an_answer_to_the_question),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
