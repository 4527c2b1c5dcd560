/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "wire/dns.h"

/* What can be asked in text is answered, and the answer is one. */
static void check_own(const uint8_t *question, size_t size)
{
    static const struct cay_ip four[2] = {{AF_INET, {198, 18, 0, 1}}, {AF_INET, {198, 18, 0, 2}}};
    struct cay_dns_question read;
    struct cay_dns_addresses found;
    uint8_t answer[CAY_DNS_OWN_BYTES_MAX];
    if (!cay_dns_read_question(question, size, &read))
        return;
    FUZZ_CHECK(strlen(read.name) < CAY_DNS_NAME_SIZE && read.len <= size);
    size_t count = read.type == CAY_DNS_TYPE_A ? 2 : 0;
    size_t len = cay_dns_write_answer(question, &read, four, count, 60, answer);
    FUZZ_CHECK(len <= sizeof(answer));
    enum cay_dns_code code = cay_dns_read_answer(answer, len, question, read.len, &found);
    FUZZ_CHECK(!read.name[0] || (code == CAY_DNS_GOOD && found.count == count));
}

/* As the answer to the question that it repeats, and to one that it may not. */
static void check_answer(const uint8_t *bytes, size_t size)
{
    struct cay_dns_addresses found;
    uint8_t question[CAY_DNS_OWN_BYTES_MAX];
    const uint8_t id[2] = {size > 0 ? bytes[0] : 0, size > 1 ? bytes[1] : 0};
    size_t len = cay_dns_write_question(CAY_STR("pack.example"), CAY_DNS_TYPE_A, id, question);
    enum cay_dns_code code = cay_dns_read_answer(bytes, size, question, len, &found);
    FUZZ_CHECK(found.count <= CAY_DNS_ADDRESSES_MAX && (code == CAY_DNS_GOOD || !found.count));
    for (size_t i = 0; i < found.count; i++)
        FUZZ_CHECK(found.list[i].family == AF_INET);
}

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
    check_own(exact, size);
    check_answer(exact, size);
    free(exact);
    return 0;
}
