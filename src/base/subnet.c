/* SPDX-License-Identifier: Apache-2.0 */
#include "base/subnet.h"

#include <arpa/inet.h>
#include <stdio.h>

static bool has_bits_below(const struct cay_subnet *subnet)
{
    for (unsigned bit = subnet->bits; bit < cay_ip_bytes(subnet->first.family) * 8; bit++) {
        if (subnet->first.bytes[bit / 8] & 0x80 >> bit % 8)
            return true;
    }
    return false;
}

bool cay_subnet_parse(const char *text, struct cay_subnet *out_subnet)
{
    char address[CAY_SUBNET_TEXT_SIZE];
    const char *slash = strchr(text, '/');
    size_t len = slash ? (size_t)(slash - text) : strlen(text);
    struct cay_subnet subnet = {};
    uint64_t bits = 0;
    if (len >= sizeof(address))
        return false;
    memcpy(address, text, len);
    address[len] = '\0';
    subnet.first.family = strchr(address, ':') ? AF_INET6 : AF_INET;
    uint64_t most = cay_ip_bytes(subnet.first.family) * 8;
    if (inet_pton(subnet.first.family, address, subnet.first.bytes) != 1 ||
        (slash && cay_str_to_u64(cay_str(slash + 1), most, &bits) < 0))
        return false;
    subnet.bits = (unsigned)(slash ? bits : most);
    if (has_bits_below(&subnet))
        return false;
    *out_subnet = subnet;
    return true;
}

void cay_subnet_format(const struct cay_subnet *subnet, char out_text[CAY_SUBNET_TEXT_SIZE])
{
    char address[INET6_ADDRSTRLEN] = "";
    (void)inet_ntop(subnet->first.family, subnet->first.bytes, address, sizeof(address));
    snprintf(out_text, CAY_SUBNET_TEXT_SIZE, "%s/%u", address, subnet->bits);
}

bool cay_subnet_covers(const struct cay_subnet *outer, const struct cay_subnet *inner)
{
    if (outer->first.family != inner->first.family || outer->bits > inner->bits)
        return false;
    struct cay_subnet cut = *inner;
    for (unsigned bit = outer->bits; bit < inner->bits; bit++)
        cut.first.bytes[bit / 8] &= (uint8_t) ~(0x80 >> bit % 8);
    return memcmp(cut.first.bytes, outer->first.bytes, cay_ip_bytes(outer->first.family)) == 0;
}
