/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <string.h>

#include "api/behalf.h"

/* What is understood is written as it was meant, and nothing is granted that cannot be said. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cay_caller caller = {};
    struct cay_caller again = {};
    struct cay_error err = {};
    if (!cay_behalf_read((struct cay_str){(const char *)data, size}, &caller, &err)) {
        FUZZ_CHECK(!caller.role && err.reason == CAY_R_INVALID_ARGUMENT);
        return 0;
    }
    FUZZ_CHECK(!caller.is_host && !caller.may_vouch && !caller.voucher[0]);
    FUZZ_CHECK(cay_id_valid(cay_str(caller.owner)));
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, 4096);
    cay_behalf_write(&caller, &text);
    FUZZ_CHECK(cay_behalf_read(cay_buf_str(&text), &again, &err));
    FUZZ_CHECK(memcmp(&caller, &again, sizeof(caller)) == 0);
    return 0;
}
