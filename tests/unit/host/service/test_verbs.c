/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "api/cay_v1.h"
#include "host/service/service_internal.h"

static void every_verb_of_the_contract_has_a_row(void **)
{
    cay_verb *const *verbs = cay_host_verbs();
    for (size_t i = 0; i < CAY_V1_METHOD_COUNT; i++) {
        if (!verbs[i])
            fail_msg("%s: no room of the host has a row for it", cay_v1_methods[i].path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_verb_of_the_contract_has_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
