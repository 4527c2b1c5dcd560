/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "wire/egress/egress.h"
#include "wire/egress/secrets.h"
#include "wire/egress/words.h"

static const struct cay_egress_frame samples[] = {
    {.kind = CAY_EGRESS_START, .version = 1, .parts = 0x3F},
    {.kind = CAY_EGRESS_POLICY, .serial = UINT64_MAX, .asks_ms = 60'000},
    {.kind = CAY_EGRESS_ANSWER, .ask.id = 7, .is_allowed = true},
    {.kind = CAY_EGRESS_ASK,
     .ask = {.id = UINT32_MAX,
             .left_ms = 60'000,
             .count = 2,
             .port = 443,
             .name = CAY_STR("api.example.com")}},
    {.kind = CAY_EGRESS_QUIT},
    {.kind = CAY_EGRESS_PING, .serial = 8},
    {.kind = CAY_EGRESS_PONG, .serial = 8},
    {.kind = CAY_EGRESS_SECRETS},
    {.kind = CAY_EGRESS_LEAF, .name = CAY_STR("api.example.com")},
    {.kind = CAY_EGRESS_LEAF_WANTED, .name = CAY_STR("api.example.com")},
    {.kind = CAY_EGRESS_USED, .name = CAY_STR("cay-secret-0123456789abcdef")},
    {.kind = CAY_EGRESS_HELLO, .version = 7, .parts = 0x35, .intercepts = true},
    {.kind = CAY_EGRESS_APPLIED, .serial = 3, .count = 2},
    {.kind = CAY_EGRESS_TOTALS,
     .totals = {.allowed = 1,
                .refused = 2,
                .failed = 3,
                .questions = 4,
                .sent_bytes = UINT64_MAX,
                .received_bytes = 6,
                .lost = 7}},
    {.kind = CAY_EGRESS_RECEIPT,
     .receipt = {.verdict = CAY_EGRESS_REFUSED,
                 .why = CAY_EGRESS_GUARDED,
                 .family = 6,
                 .address = {0xfd, [15] = 1},
                 .port = 443,
                 .count = 9,
                 .duration_ms = 10,
                 .began_ago_ms = UINT32_MAX,
                 .ended_ago_ms = 12,
                 .sent_bytes = UINT64_MAX,
                 .received_bytes = 1,
                 .name = CAY_STR("api.example.com"),
                 .rule = CAY_STR("*.example.com:443"),
                 .method = CAY_STR("GET"),
                 .path = CAY_STR("/v1/models"),
                 .status = 403}},
};

static bool is_from_helper(const struct cay_egress_frame *frame)
{
    return frame->kind >= CAY_EGRESS_HELLO;
}

static void test_round_trips(void **)
{
    for (size_t i = 0; i < CAY_COUNT(samples); i++) {
        uint8_t bytes[CAY_EGRESS_FRAME_BYTES_MAX];
        uint8_t again[CAY_EGRESS_FRAME_BYTES_MAX];
        struct cay_egress_frame frame;
        size_t len = cay_egress_encode(&samples[i], bytes);
        assert_true(len > 0);
        assert_true(cay_egress_decode(bytes, len, is_from_helper(&samples[i]), &frame));
        assert_int_equal(frame.kind, samples[i].kind);
        assert_int_equal(frame.serial, samples[i].serial);
        assert_int_equal(frame.count, samples[i].count);
        assert_int_equal(frame.parts, samples[i].parts);
        assert_int_equal(frame.intercepts, samples[i].intercepts);
        assert_int_equal(frame.asks_ms, samples[i].asks_ms);
        assert_int_equal(frame.is_allowed, samples[i].is_allowed);
        assert_int_equal(frame.ask.id, samples[i].ask.id);
        assert_int_equal(frame.ask.left_ms, samples[i].ask.left_ms);
        assert_int_equal(frame.ask.count, samples[i].ask.count);
        assert_int_equal(frame.ask.port, samples[i].ask.port);
        assert_true(cay_str_equal(frame.ask.name, samples[i].ask.name));
        assert_true(cay_str_equal(frame.name, samples[i].name));
        assert_true(cay_str_equal(frame.receipt.name, samples[i].receipt.name));
        assert_true(cay_str_equal(frame.receipt.rule, samples[i].receipt.rule));
        assert_int_equal(frame.receipt.sent_bytes, samples[i].receipt.sent_bytes);
        assert_true(cay_str_equal(frame.receipt.method, samples[i].receipt.method));
        assert_true(cay_str_equal(frame.receipt.path, samples[i].receipt.path));
        assert_int_equal(frame.receipt.began_ago_ms, samples[i].receipt.began_ago_ms);
        assert_int_equal(frame.receipt.ended_ago_ms, samples[i].receipt.ended_ago_ms);
        assert_int_equal(frame.receipt.status, samples[i].receipt.status);
        assert_int_equal(frame.totals.lost, samples[i].totals.lost);
        assert_int_equal(cay_egress_encode(&frame, again), len);
        assert_memory_equal(bytes, again, len);
    }
}

/* Neither shorter, nor longer, nor from the other side. */
static void test_damaged(void **)
{
    for (size_t i = 0; i < CAY_COUNT(samples); i++) {
        uint8_t bytes[CAY_EGRESS_FRAME_BYTES_MAX + 1] = {};
        struct cay_egress_frame frame;
        size_t len = cay_egress_encode(&samples[i], bytes);
        bool from = is_from_helper(&samples[i]);
        for (size_t part = 0; part < len; part++)
            assert_false(cay_egress_decode(bytes, part, from, &frame));
        assert_false(cay_egress_decode(bytes, len + 1, from, &frame));
        assert_false(cay_egress_decode(bytes, len, !from, &frame));
    }
}

static void test_limits(void **)
{
    char text[CAY_EGRESS_RULE_BYTES_MAX + 1];
    uint8_t bytes[CAY_EGRESS_FRAME_BYTES_MAX];
    struct cay_egress_frame frame = samples[CAY_COUNT(samples) - 1];
    memset(text, 'a', sizeof(text));
    frame.receipt.name = (struct cay_str){text, CAY_EGRESS_NAME_BYTES_MAX};
    frame.receipt.rule = (struct cay_str){text, CAY_EGRESS_RULE_BYTES_MAX};
    frame.receipt.method = (struct cay_str){text, CAY_EGRESS_METHOD_BYTES_MAX};
    frame.receipt.path = (struct cay_str){text, CAY_EGRESS_PATH_BYTES_MAX};
    assert_true(cay_egress_encode(&frame, bytes) > 0);
    frame.receipt.path.len++;
    assert_int_equal(cay_egress_encode(&frame, bytes), 0);
    frame.receipt.path.len--;
    frame.receipt.method.len++;
    assert_int_equal(cay_egress_encode(&frame, bytes), 0);
    frame.receipt.method.len--;
    frame.receipt.rule.len++;
    assert_int_equal(cay_egress_encode(&frame, bytes), 0);
    frame.receipt.rule.len--;
    frame.receipt.name.len++;
    assert_int_equal(cay_egress_encode(&frame, bytes), 0);
}

static void test_rules(void **)
{
    struct cay_buf out;
    struct cay_str text;
    enum cay_egress_rule kind;
    cay_buf_init(&out, 1000);
    cay_egress_rule_put(&out, CAY_EGRESS_ALLOW, CAY_STR("pypi.tst"));
    cay_egress_rule_put(&out, CAY_EGRESS_DENY, CAY_STR(""));
    struct cay_str rest = cay_buf_str(&out);
    assert_true(cay_egress_rule_next(&rest, &kind, &text));
    assert_int_equal(kind, CAY_EGRESS_ALLOW);
    assert_true(cay_str_is(text, "pypi.tst"));
    struct cay_str cut = {rest.ptr, rest.len - 1};
    assert_true(cay_egress_rule_next(&rest, &kind, &text));
    assert_int_equal(kind, CAY_EGRESS_DENY);
    assert_int_equal(rest.len, 0);
    assert_false(cay_egress_rule_next(&rest, &kind, &text));
    assert_false(cay_egress_rule_next(&cut, &kind, &text));
    assert_int_equal(cut.len, 2);
    cay_buf_finish(&out);
}

static const struct cay_egress_secret good = {
    .host = CAY_STR("api.example.com"),
    .header = CAY_STR("authorization"),
    .placeholder = CAY_STR("cay-secret-0123456789abcdef0123456789abcdef"),
    .value = CAY_STR("sk-1 2\t\xc3\xa4"),
};

static void test_secrets(void **)
{
    struct cay_buf out;
    struct cay_egress_secret secret;
    struct cay_egress_secrets list = {};
    cay_buf_init(&out, CAY_EGRESS_SECRETS_BYTES_MAX);
    cay_egress_secret_put(&out, &good);
    cay_egress_secret_put(&out, &good);
    struct cay_str rest = cay_buf_str(&out);
    while (cay_egress_secret_next(&rest, &secret))
        cay_egress_secrets_add(&list, &secret);
    assert_int_equal(rest.len, 0);
    assert_int_equal(list.count, 2);
    assert_true(cay_str_equal(list.items[1].host, good.host));
    assert_true(cay_str_equal(list.items[1].header, good.header));
    assert_true(cay_str_equal(list.items[1].placeholder, good.placeholder));
    assert_true(cay_str_equal(list.items[1].value, good.value));
    for (size_t len = 1; len < out.len / 2; len++) {
        struct cay_str part = {out.data, len};
        assert_false(cay_egress_secret_next(&part, &secret));
        assert_int_equal(part.len, len);
    }
    cay_egress_secrets_finish(&list);
    assert_int_equal(list.count, 0);
    cay_buf_finish(&out);
}

/* Nothing that would end a header, or say how a request is read. */
static void test_secrets_refused(void **)
{
    const struct cay_egress_secret bad[] = {
        {CAY_STR("API.example.com"), good.header, good.placeholder, good.value},
        {CAY_STR(""), good.header, good.placeholder, good.value},
        {good.host, CAY_STR("Authorization"), good.placeholder, good.value},
        {good.host, CAY_STR("a:b"), good.placeholder, good.value},
        {good.host, CAY_STR("host"), good.placeholder, good.value},
        {good.host, CAY_STR("content-length"), good.placeholder, good.value},
        {good.host, CAY_STR("transfer-encoding"), good.placeholder, good.value},
        {good.host, good.header, CAY_STR("short"), good.value},
        {good.host, good.header, CAY_STR("cay-secret 0123456789abcdef"), good.value},
        {good.host, good.header, good.placeholder, CAY_STR("")},
        {good.host, good.header, good.placeholder, CAY_STR("a\r\nb: c")},
        {good.host, good.header, good.placeholder, CAY_STR("a\nb")},
        {good.host, good.header, good.placeholder, CAY_STR(" a")},
        {good.host, good.header, good.placeholder, {"a\0b", 3}},
    };
    assert_null(cay_egress_secret_fault(&good));
    for (size_t i = 0; i < CAY_COUNT(bad); i++) {
        cay_auto(cay_buf_finish) struct cay_buf out;
        cay_buf_init(&out, CAY_EGRESS_SECRETS_BYTES_MAX);
        assert_non_null(cay_egress_secret_fault(&bad[i]));
        cay_egress_secret_put(&out, &bad[i]);
        assert_true(out.failed);
    }
}

static void test_totals(void **)
{
    const struct cay_egress_receipt receipts[] = {
        {.verdict = CAY_EGRESS_ALLOWED, .count = 2, .sent_bytes = 5},
        {.verdict = CAY_EGRESS_REFUSED, .count = 3},
        {.verdict = CAY_EGRESS_FAILED, .count = 4},
        {.verdict = CAY_EGRESS_REFUSED, .is_question = true, .count = 5},
    };
    const struct cay_egress_totals more = {1, 1, 1, 1, 7, 8, 9};
    struct cay_egress_totals totals = {};
    for (size_t i = 0; i < CAY_COUNT(receipts); i++)
        cay_egress_totals_count(&totals, &receipts[i]);
    cay_egress_totals_add(&totals, &more);
    const struct cay_egress_totals wanted = {3, 4, 5, 6, 7, 8, 9};
    assert_memory_equal(&totals, &wanted, sizeof(wanted));
}

static void test_sentences(void **)
{
    const struct {
        struct cay_egress_receipt receipt;
        const char *text;
    } told[] = {
        {{.verdict = CAY_EGRESS_REFUSED,
          .why = CAY_EGRESS_NO_RULE,
          .name = CAY_STR("api.x.org"),
          .port = 443},
         "network: api.x.org:443 refused, no rule allows it; 'cay net allow demo api.x.org' would"},
        {{.verdict = CAY_EGRESS_REFUSED,
          .why = CAY_EGRESS_OTHER_PORT,
          .name = CAY_STR("x.org"),
          .rule = CAY_STR("x.org:80"),
          .port = 22},
         "network: x.org:22 refused, 'x.org:80' allows it on other ports only; 'cay net allow demo "
         "x.org:22' would"},
        {{.verdict = CAY_EGRESS_REFUSED,
          .why = CAY_EGRESS_BY_RULE,
          .rule = CAY_STR("*.org"),
          .is_question = true,
          .name = CAY_STR("x.org")},
         "network: x.org refused, '*.org' denies it"},
        {{.verdict = CAY_EGRESS_FAILED,
          .why = CAY_EGRESS_UNREACHABLE,
          .family = 6,
          .address = {0x20, 1, [15] = 1},
          .port = 80},
         "network: [2001::1]:80 failed, it cannot be reached, or broke off"},
    };
    for (size_t i = 0; i < CAY_COUNT(told); i++) {
        struct cay_buf out;
        cay_buf_init(&out, 1000);
        cay_egress_sentence(&told[i].receipt, CAY_STR("demo"), &out);
        cay_buf_append_byte(&out, '\0');
        assert_string_equal(out.data, told[i].text);
        cay_buf_finish(&out);
    }
    for (int why = 1; why < CAY_EGRESS_WHYS; why++)
        assert_non_null(cay_egress_word((enum cay_egress_why)why));
    assert_null(cay_egress_word(CAY_EGRESS_WHYS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips), cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_limits),      cmocka_unit_test(test_rules),
        cmocka_unit_test(test_totals),      cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_secrets),     cmocka_unit_test(test_secrets_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
