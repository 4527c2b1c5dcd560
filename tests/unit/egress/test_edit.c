/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "egress/edit.h"

#define PLACE "cay-secret-0123456789abcdef"

static struct cay_egress_secret items[] = {
    {CAY_STR("a.test"), CAY_STR("authorization"), CAY_STR(PLACE), CAY_STR("VALUE")},
    {CAY_STR("a.test"), CAY_STR("x-key"), CAY_STR("cay-secret-of-x-key"), CAY_STR(PLACE)},
    {CAY_STR("b.test"), CAY_STR("authorization"), CAY_STR("cay-secret-of-b-test"), CAY_STR("B")},
};
static const struct cay_egress_secrets secrets = {items, CAY_COUNT(items)};

static enum egress_edit edit(const char *text, struct cay_buf *out, uint64_t *out_used)
{
    struct cay_http_header fields[16];
    struct cay_http1_head head;
    struct cay_http1_fault fault;
    ssize_t len = cay_http1_parse_head(cay_str(text), fields, 16, 65536, &head, &fault);
    assert_int_equal(len, strlen(text));
    cay_buf_init(out, 65536);
    return egress_edit_head(cay_str(text), &head, CAY_STR("a.test"), &secrets, out, out_used);
}

#define HEAD "GET /x?y HTTP/1.1\r\nHost: a.test\r\n"

static void test_done(void **)
{
    static const char *const cases[][2] = {
        {HEAD "\r\n", HEAD "\r\n"},
        {HEAD "Authorization: Bearer " PLACE "\r\nA: b\r\n\r\n",
         HEAD "Authorization: Bearer VALUE\r\nA: b\r\n\r\n"},
        {HEAD "aUTHORIZATION:  " PLACE ", " PLACE "  \r\n\r\n",
         HEAD "aUTHORIZATION:  VALUE, VALUE  \r\n\r\n"},
        /* What was put in is not looked at again. */
        {HEAD "X-Key: cay-secret-of-x-key\r\n\r\n", HEAD "X-Key: " PLACE "\r\n\r\n"},
        /* "u:PLACE" */
        {HEAD "Authorization: BASIC dTpjYXktc2VjcmV0LTAxMjM0NTY3ODlhYmNkZWY=\r\n\r\n",
         HEAD "Authorization: Basic dTpWQUxVRQ==\r\n\r\n"},
        {HEAD "Authorization: Basic dTpw\r\n\r\n", HEAD "Authorization: Basic dTpw\r\n\r\n"},
        {HEAD "Authorization: Basic ?\r\nEmpty:\r\n\r\n",
         HEAD "Authorization: Basic ?\r\nEmpty:\r\n\r\n"},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        cay_auto(cay_buf_finish) struct cay_buf out;
        uint64_t used = 0;
        assert_int_equal(edit(cases[i][0], &out, &used), EGRESS_EDIT_DONE);
        assert_int_equal(out.len, strlen(cases[i][1]));
        assert_memory_equal(out.data, cases[i][1], out.len);
        bool is_same = strcmp(cases[i][0], cases[i][1]) == 0;
        assert_int_equal(used, is_same ? 0 : (strstr(cases[i][0], "X-Key") ? 2 : 1));
    }
}

static void test_refused(void **)
{
    static const struct {
        const char *text;
        enum egress_edit result;
    } cases[] = {
        {"GET /" PLACE " HTTP/1.1\r\nHost: a.test\r\n\r\n", EGRESS_EDIT_IN_TARGET},
        {"GET /?k=" PLACE " HTTP/1.1\r\nHost: a.test\r\n\r\n", EGRESS_EDIT_IN_TARGET},
        {HEAD PLACE ": x\r\n\r\n", EGRESS_EDIT_IN_HEADER},
        {HEAD "Cookie: a=" PLACE "\r\n\r\n", EGRESS_EDIT_IN_HEADER},
        {HEAD "X-Key: " PLACE "\r\n\r\n", EGRESS_EDIT_IN_HEADER},
        {HEAD "Authorization: cay-secret-of-x-key\r\n\r\n", EGRESS_EDIT_IN_HEADER},
        {HEAD "Authorization: cay-secret-of-b-test\r\n\r\n", EGRESS_EDIT_OTHER_NAME},
        {HEAD "Authorization: " PLACE " cay-secret-of-b-test\r\n\r\n", EGRESS_EDIT_OTHER_NAME},
        /* "cay-secret-of-b-test" */
        {HEAD "Authorization: Basic Y2F5LXNlY3JldC1vZi1iLXRlc3Q=\r\n\r\n", EGRESS_EDIT_OTHER_NAME},
        {"TRACE / HTTP/1.1\r\nHost: a.test\r\nAuthorization: " PLACE "\r\n\r\n", EGRESS_EDIT_ECHO},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        cay_auto(cay_buf_finish) struct cay_buf out;
        uint64_t used = 0;
        assert_int_equal(edit(cases[i].text, &out, &used), cases[i].result);
        assert_int_equal(used, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_done), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
