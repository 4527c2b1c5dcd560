/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tool/world.h"

#include <dlfcn.h>

/* A machine without PCRE2: the library is not found until it is there. */

static bool is_missing;

void *dlopen(const char *name, int mode)
{
    void *(*real)(const char *, int) = NULL;
    void *found = dlsym(RTLD_NEXT, "dlopen");
    memcpy(&real, &found, sizeof(real));
    return is_missing ? NULL : real(name, mode);
}

static void grep_without_its_library_names_the_package(void **state)
{
    struct world *world = *state;
    world_put(world, "/workspace/a.txt", "one\ntwo\n");
    is_missing = true;
    assert_string_equal(
        world_run_failing(world, "grep", "{\"pattern\":\"o.e\"}", "not_supported"),
        "grep needs PCRE2, which is not on this machine; install the package libpcre2-8-0");
    /* What is no expression needs none. */
    assert_string_equal(world_run(world, "grep", "{\"pattern\":\"one\",\"literal\":true}"),
                        "1 match\n\na.txt:1: one\n");
    is_missing = false;
    assert_string_equal(world_run(world, "grep", "{\"pattern\":\"o.e\"}"),
                        "1 match\n\na.txt:1: one\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(grep_without_its_library_names_the_package, world_setup,
                                        world_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
