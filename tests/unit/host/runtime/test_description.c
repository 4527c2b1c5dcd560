/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "host/runtime/description.h"

static struct cay_description sample(void)
{
    struct cay_description description = {
        .id = "demo-1", .pid = 4321, .start_ticks = 987654321, .uid_base = 1310720};
    for (size_t i = 0; i < sizeof(description.token); i++)
        description.token[i] = (uint8_t)(i * 17);
    return description;
}

static void it_comes_back_as_it_was_written(void **)
{
    struct cay_description sent = sample();
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, 4096);
    cay_description_write(&sent, "namespaces", &text);
    assert_false(text.failed);
    struct cay_description got;
    assert_true(cay_description_read(cay_buf_str(&text), "namespaces", &got));
    assert_memory_equal(&got, &sent, sizeof(got));
    assert_false(cay_description_read(cay_buf_str(&text), "none", &got));
}

static void a_damaged_one_is_refused(void **)
{
    struct cay_description sent = sample();
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, 4096);
    cay_description_write(&sent, "namespaces", &text);
    struct cay_description got;
    for (size_t len = 0; len + 1 < text.len; len++)
        assert_false(cay_description_read((struct cay_str){text.data, len}, "namespaces", &got));
    static const char *const wrong[] = {
        "", "format=2\n", "format=1\nruntime=namespaces\nid=../x\npid=1\n",
        "format=1\nruntime=namespaces\nid=a\npid=0\nstart=1\nbase=1\n"
        "token=00000000000000000000000000000000\n",
        "format=1\nruntime=namespaces\nid=a\npid=1\nstart=1\nbase=1\n"
        "token=0000000000000000000000000000000g\n"};
    for (size_t i = 0; i < CAY_COUNT(wrong); i++)
        assert_false(cay_description_read(cay_str(wrong[i]), "namespaces", &got));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_comes_back_as_it_was_written),
        cmocka_unit_test(a_damaged_one_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
