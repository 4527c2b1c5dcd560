/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "wire/path.h"

static void paths_are_split_before_they_are_unescaped(void **)
{
    static const struct {
        const char *path;
        const char *pattern;
        const char *first; /* NULL: no match */
    } cases[] = {
        {"/sandboxes/abc", "/sandboxes/{}", "abc"},
        {"/templates/team%2Fn%3Adefault", "/templates/{}", "team/n:default"},
        {"/sandboxes/a+b/timeout", "/sandboxes/{}/timeout", "a+b"},
        {"/sandboxes", "/sandboxes", ""},
        {"/sandboxes/", "/sandboxes", NULL},
        {"/sandboxes/", "/sandboxes/{}", NULL},
        {"/sandboxes/abc/", "/sandboxes/{}", NULL},
        {"/sandboxes/%zz", "/sandboxes/{}", NULL},
        {"/sandboxes/%4", "/sandboxes/{}", NULL},
        {"//sandboxes", "/sandboxes", NULL},
        {"sandboxes", "/sandboxes", NULL},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        struct cay_arena arena;
        struct cay_str params[CAY_PATH_PARAMS_MAX] = {};
        cay_arena_init(&arena, 4096);
        bool fits = cay_path_match(cay_str(cases[i].path), cases[i].pattern, &arena, params);
        assert_int_equal(fits, cases[i].first != NULL);
        if (fits)
            assert_true(cay_str_is(params[0], cases[i].first));
        cay_arena_finish(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_are_split_before_they_are_unescaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
