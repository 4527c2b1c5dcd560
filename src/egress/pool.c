/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/pool.h"

#include <arpa/inet.h>

#include "wire/egress/egress.h"

static const uint8_t first4[4] = {198, 18};
static const uint8_t first6[16] = {0xfd, 0, 0xe9};

enum { POOL4_SIZE = 1 << 17, HOST_BYTES = 4 };

void egress_pool_address(int family, uint32_t slot, struct cay_ip *out_address)
{
    uint32_t place = htonl(slot + CAY_EGRESS_NAMES_FIRST);
    *out_address = (struct cay_ip){.family = family};
    if (family == AF_INET) {
        uint32_t base = 0;
        memcpy(&base, first4, sizeof(base));
        place = htonl(ntohl(base) + slot + CAY_EGRESS_NAMES_FIRST);
        memcpy(out_address->bytes, &place, HOST_BYTES);
    } else {
        memcpy(out_address->bytes, first6, sizeof(first6));
        memcpy(out_address->bytes + sizeof(first6) - HOST_BYTES, &place, HOST_BYTES);
    }
}

bool egress_pool_slot(const struct cay_ip *address, uint32_t *out_slot)
{
    bool is_four = address->family == AF_INET;
    uint32_t place = 0;
    uint32_t base = 0;
    memcpy(&place, address->bytes + (is_four ? 0 : sizeof(first6) - HOST_BYTES), HOST_BYTES);
    place = ntohl(place);
    if (is_four) {
        memcpy(&base, first4, sizeof(base));
        base = ntohl(base);
        if (place < base || place - base >= POOL4_SIZE)
            return false;
        place -= base;
    } else if (memcmp(address->bytes, first6, 4) != 0) {
        return false;
    } else if (memcmp(address->bytes + 4, first6 + 4, sizeof(first6) - 4 - HOST_BYTES) != 0) {
        place = 0; /* of the pool, but never given out */
    }
    /* What is below the first is nobody's name either. */
    *out_slot = place < CAY_EGRESS_NAMES_FIRST ? UINT32_MAX : place - CAY_EGRESS_NAMES_FIRST;
    return true;
}
