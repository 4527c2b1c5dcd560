/* SPDX-License-Identifier: Apache-2.0 */
#include "base/library.h"

#include <math.h>
#include <pthread.h>

#include "tests/unit/test.h"

#define FUNCTIONS(X) X(cbrt) X(hypot)
CAY_LIBRARY(lib, "libm.so.6", FUNCTIONS);

static void *load(void *)
{
    return cay_library_load(&lib_library) && lib.cbrt(27) > 2.9 ? &lib : NULL;
}

static void threads_load_it_at_once(void **)
{
    enum { THREADS = 16 };
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, load, NULL), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *found = NULL;
        pthread_join(threads[i], &found);
        assert_non_null(found);
    }
    assert_true(lib.hypot(3, 4) > 4.9 && lib.hypot(3, 4) < 5.1);
}

static void what_is_not_there_is_said(void **)
{
    static const char *const names[] = {"cbrt", "there_is_no_such_function"};
    void *table[2] = {};
    struct cay_library missing = {"libthereisnosuch.so.1", names, 1, table, false};
    struct cay_library poor = {"libm.so.6", names, 2, table, false};
    struct cay_library good = {"libm.so.6", names, 1, table, false};
    assert_false(cay_library_load(&missing));
    assert_false(cay_library_load(&missing));
    assert_false(cay_library_load(&poor));
    assert_true(cay_library_load(&good));
    assert_non_null(table[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_load_it_at_once),
        cmocka_unit_test(what_is_not_there_is_said),
    };
    return cmocka_run_group_tests_name("library", tests, NULL, NULL);
}
