/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <stdio.h>

#include "base/clock.h"
#include "tool/search/glob.h"

static bool matches(const char *pattern, const char *path)
{
    struct cay_arena arena;
    cay_arena_init(&arena, 1 << 20);
    struct cay_glob glob;
    const char *problem = NULL;
    if (!cay_glob_compile(cay_str(pattern), &arena, &glob, &problem))
        fail_msg("%s: %s", pattern, problem);
    bool result = cay_glob_match(&glob, cay_str(path));
    cay_arena_finish(&arena);
    return result;
}

static void patterns_match_what_they_say(void **)
{
    static const struct {
        const char *pattern, *path;
        bool matches;
    } cases[] = {
        {"a.c", "a.c", true},
        {"a.c", "b/a.c", false},
        {"*.c", "a.c", true},
        {"*.c", "d/a.c", false},
        {"*.c", ".c", true},
        {"*", "", false},
        {"?", "\xC3\xBC", true},
        {"??", "\xC3\xBC", false},
        {"?", "\xFF", true},
        {"[a-c]x", "bx", true},
        {"[!a-c]x", "bx", false},
        {"[^a-c]x", "dx", true},
        {"[]a]", "]", true},
        {"[a-]", "-", true},
        {"[\xC3\xA4-\xC3\xBC]", "\xC3\xB6", true},
        {"\\*", "*", true},
        {"\\*", "a", false},
        {"*.{c,h}", "x.h", true},
        {"*.{c,h}", "x.o", false},
        {"{a,b{c,d}}", "bd", true},
        {"{a,b{c,d}}", "b", false},
        {"a{,b}", "a", true},
        {"{x/y,z}/w", "x/y/w", true},
        {"[{]a", "{a", true},
        {"**", "a", true},
        {"**", "a/b/c", true},
        {"**/c", "c", true},
        {"**/c", "a/b/c", true},
        {"**/c", "a/b/cc", false},
        {"a/**", "a", false},
        {"a/**", "a/b/c", true},
        {"a/**/c", "a/c", true},
        {"a/**/c", "a/b/b/c", true},
        {"a/**/c/**/d", "a/c/x/c/y/d", true},
        {"a/**/**/c", "a/c", true},
        {"**/b/*", "a/b/c/b/d", true},
        {"**/b/*", "a/b/c/d", false},
        {"a**b", "axxb", true},
        {"a**b", "ax/xb", false},
        {"./a", "a", true},
        {"a//b", "a/b", true},
        {"*a*b*c", "xaybzc", true},
        {"*a*b*c", "xaybz", false},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++)
        if (matches(cases[i].pattern, cases[i].path) != cases[i].matches)
            fail_msg("%s on %s: expected %d", cases[i].pattern, cases[i].path, cases[i].matches);
}

static void bad_patterns_are_refused_with_a_reason(void **)
{
    char many[256] = "";
    for (int i = 0; i < 10; i++)
        memcpy(many + 5 * i, "{a,b}", 6);
    char long_one[5000];
    memset(long_one, 'a', sizeof(long_one));
    long_one[4999] = '\0';
    const char *bad[] = {"", "[a", "a[!", "{a,b", "{a,{b}", "[a/b]", many, long_one};
    for (size_t i = 0; i < CAY_COUNT(bad); i++) {
        struct cay_arena arena;
        cay_arena_init(&arena, 1 << 20);
        struct cay_glob glob;
        const char *problem = NULL;
        assert_false(cay_glob_compile(cay_str(bad[i]), &arena, &glob, &problem));
        assert_non_null(problem);
        cay_arena_finish(&arena);
    }
    /* That there is no room for it is no fault of the pattern. */
    struct cay_arena full;
    cay_arena_init(&full, 1);
    struct cay_glob glob;
    const char *problem = "not asked";
    assert_false(cay_glob_compile(CAY_STR("a/{b,c}"), &full, &glob, &problem));
    assert_null(problem);
    cay_arena_finish(&full);
}

static void evil_patterns_take_no_time(void **)
{
    char path[2000];
    memset(path, 'a', sizeof(path));
    for (size_t i = 1; i < sizeof(path); i += 2)
        path[i] = '/';
    path[sizeof(path) - 1] = '\0';
    int64_t start = cay_clock_ms();
    assert_false(matches("**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/b", path));
    memset(path, 'a', sizeof(path) - 1);
    assert_false(matches("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", path));
    assert_true(cay_clock_ms() - start < 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_what_they_say),
        cmocka_unit_test(bad_patterns_are_refused_with_a_reason),
        cmocka_unit_test(evil_patterns_take_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
