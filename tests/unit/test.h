/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What cmocka.h wants included before it, in one place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Puts the cases of this name at `chosen`; how many they are. */
static inline size_t test_choose(const struct CMUnitTest *tests, size_t count, const char *name,
                                 size_t name_len, struct CMUnitTest *chosen)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        if (strlen(tests[i].name) == name_len && memcmp(tests[i].name, name, name_len) == 0)
            chosen[found++] = tests[i];
    if (found == 0) {
        fprintf(stderr, "there is no case %.*s\n", (int)name_len, name);
        exit(1);
    }
    return found;
}

/* The runner (tools/run-tests) chooses among the cases and orders them by TEST_CASES; it asks
 * for their list by TEST_LIST. */
static inline int test_run_group(const char *group, const struct CMUnitTest *tests, size_t count,
                                 CMFixtureFunction setup, CMFixtureFunction teardown)
{
    if (getenv("TEST_LIST")) {
        for (size_t i = 0; i < count; i++)
            printf("case %s\n", tests[i].name);
        return 0;
    }
    const char *names = getenv("TEST_CASES");
    if (!names || !*names)
        return _cmocka_run_group_tests(group, tests, count, setup, teardown);
    struct CMUnitTest *chosen = calloc((strlen(names) / 2 + 1) * count, sizeof(*chosen));
    if (!chosen)
        abort();
    size_t chosen_count = 0;
    for (size_t len; (len = strcspn(names, " ")) > 0; names += len, names += strspn(names, " "))
        chosen_count += test_choose(tests, count, names, len, chosen + chosen_count);
    int failed = _cmocka_run_group_tests(group, chosen, chosen_count, setup, teardown);
    free(chosen);
    return failed;
}

#undef cmocka_run_group_tests
#undef cmocka_run_group_tests_name
#define cmocka_run_group_tests(tests, setup, teardown) \
    cmocka_run_group_tests_name(#tests, tests, setup, teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown) \
    test_run_group(name, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)
