/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "wire/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Exactly as long as it says, so that a byte too many is seen. */
    uint8_t *bytes = malloc(size + 1);
    if (size)
        memcpy(bytes, data, size);
    uint8_t *exact = realloc(bytes, size ? size : 1);
    enum cay_dns_code code = cay_dns_check(exact, size);
    if (code == CAY_DNS_GOOD)
        FUZZ_CHECK(size > CAY_DNS_HEADER_BYTES && !(exact[2] & 0xF8) && exact[4] == 0 &&
                   exact[5] == 1);
    if (cay_dns_is_question(exact, size)) {
        uint8_t answer[CAY_DNS_HEADER_BYTES];
        cay_dns_refuse(exact, CAY_DNS_REFUSED, answer);
        FUZZ_CHECK(cay_dns_is_answer(answer, sizeof(answer), exact));
        FUZZ_CHECK(!cay_dns_is_answer(exact, size, exact));
    }
    free(exact);
    return 0;
}
