/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/rules/guarded.h"

#include <sys/socket.h>

#define FOUR(a, b, c, d, n)                \
    {                                      \
        {AF_INET, {a, b, c, d}}, .bits = n \
    }
#define SIX(n, ...)                          \
    {                                        \
        {AF_INET6, {__VA_ARGS__}}, .bits = n \
    }

struct closed {
    struct cay_subnet range;
    enum cay_guard guard;
    const char *what;
};

static const char private[] = "a private network";
static const char near[] = "a link-local address, where clouds have their metadata";
static const char cloud[] = "a service of a cloud for its own machines";
static const char sample[] = "a range for documentation";
static const char special[] = "a range for the protocol's own use";
static const char local[] = "a sandbox's own loopback";
static const char disguise[] = "an IPv4 address in disguise";

/* clang-format off */
static const struct closed closed[] = {
    {FOUR(0, 0, 0, 0, 8),         CAY_GUARD_NEVER,  "this network"},
    {FOUR(10, 0, 0, 0, 8),        CAY_GUARD_CLOSED, private},
    {FOUR(100, 64, 0, 0, 10),     CAY_GUARD_CLOSED, "a carrier's or an overlay network"}, /* metadata at 100.100.100.200 */
    {FOUR(127, 0, 0, 0, 8),       CAY_GUARD_NEVER,  local},
    {FOUR(168, 63, 129, 16, 32),  CAY_GUARD_CLOSED, cloud},
    {FOUR(169, 254, 0, 0, 16),    CAY_GUARD_CLOSED, near},    /* metadata at 169.254.169.254 */
    {FOUR(172, 16, 0, 0, 12),     CAY_GUARD_CLOSED, private},
    {FOUR(192, 0, 0, 0, 24),      CAY_GUARD_CLOSED, special}, /* metadata at 192.0.0.192 */
    {FOUR(192, 0, 2, 0, 24),      CAY_GUARD_CLOSED, sample},
    {FOUR(192, 88, 99, 0, 24),    CAY_GUARD_CLOSED, special}, /* relays of 6to4 */
    {FOUR(192, 168, 0, 0, 16),    CAY_GUARD_CLOSED, private},
    /* Filtered networks give out these addresses for names. */
    {FOUR(198, 18, 0, 0, 15),     CAY_GUARD_NEVER,  "the range that stands for names inside"},
    {FOUR(198, 51, 100, 0, 24),   CAY_GUARD_CLOSED, sample},
    {FOUR(203, 0, 113, 0, 24),    CAY_GUARD_CLOSED, sample},
    {FOUR(224, 0, 0, 0, 3),       CAY_GUARD_NEVER,  "multicast, broadcast or reserved"},
    {SIX(32, 0x20, 1),                    CAY_GUARD_NEVER,  disguise}, /* Teredo */
    {SIX(23, 0x20, 1),                    CAY_GUARD_CLOSED, special},
    {SIX(32, 0x20, 1, 0x0d, 0xb8),        CAY_GUARD_CLOSED, sample},
    {SIX(16, 0x20, 2),                    CAY_GUARD_NEVER,  disguise}, /* 6to4 */
    {SIX(20, 0x3f, 0xff),                 CAY_GUARD_CLOSED, sample},
};

/* Outside of what there is of IPv6, and so closed without being listed. */
static const struct closed not_outside6[] = {
    {SIX(32, 0xfd, 0, 0xe9),              CAY_GUARD_NEVER,  "the range that stands for names inside"},
    {SIX(7, 0xfc),                        CAY_GUARD_CLOSED, private}, /* metadata at fd00:ec2::254 */
    {SIX(10, 0xfe, 0x80),                 CAY_GUARD_NEVER,  "a link-local address"},
    {SIX(8, 0xff),                        CAY_GUARD_NEVER,  "multicast"},
    {SIX(96, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff), CAY_GUARD_NEVER, disguise},
    {SIX(128, [15] = 1),                  CAY_GUARD_NEVER,  local},
};
/* clang-format on */

enum { NAT64_BITS = 96 };
#define NAT64_PREFIX 0, 0x64, 0xff, 0x9b

const struct cay_subnet cay_outside6[CAY_OUTSIDE6_COUNT] = {
    SIX(3, 0x20),
    SIX(NAT64_BITS, NAT64_PREFIX),
};

bool cay_closed_next(size_t *cursor, struct cay_subnet *out_range)
{
    size_t at = (*cursor)++;
    if (at < CAY_COUNT(closed)) {
        *out_range = closed[at].range;
        return true;
    }
    at -= CAY_COUNT(closed);
    if (at >= CAY_COUNT(closed) || closed[at].range.first.family != AF_INET) {
        *cursor = 2 * CAY_COUNT(closed); /* what is of IPv4 stands first */
        return false;
    }
    *out_range = cay_outside6[1];
    memcpy(out_range->first.bytes + NAT64_BITS / 8, closed[at].range.first.bytes, 4);
    out_range->bits += closed[at].range.bits;
    return true;
}

bool cay_address_embedded(const struct cay_ip *address, struct cay_ip *out_four)
{
    const struct cay_subnet range = {*address, 128};
    if (address->family != AF_INET6 || !cay_subnet_covers(&cay_outside6[1], &range))
        return false;
    *out_four = (struct cay_ip){.family = AF_INET};
    memcpy(out_four->bytes, address->bytes + NAT64_BITS / 8, 4);
    return true;
}

static enum cay_guard find(const struct closed *table, size_t count, const struct cay_subnet *range,
                           const char **out_what)
{
    for (size_t i = 0; i < count; i++) {
        if (cay_subnet_covers(&table[i].range, range)) {
            *out_what = table[i].what;
            return table[i].guard;
        }
    }
    return CAY_GUARD_NONE;
}

static bool is_apart(const struct cay_subnet *a, const struct cay_subnet *b)
{
    return !cay_subnet_covers(a, b) && !cay_subnet_covers(b, a);
}

enum cay_guard cay_guard_of(const struct cay_subnet *range, const char **out_what)
{
    const char *unwanted;
    const char **what = out_what ? out_what : &unwanted;
    enum cay_guard guard = find(closed, CAY_COUNT(closed), range, what);
    if (guard || range->first.family == AF_INET)
        return guard;
    guard = find(not_outside6, CAY_COUNT(not_outside6), range, what);
    if (guard)
        return guard;
    /* Somebody who means the IPv4 address writes that. */
    if (cay_subnet_covers(&cay_outside6[1], range)) {
        struct cay_subnet four = {.bits = range->bits - NAT64_BITS};
        if (!cay_address_embedded(&range->first, &four.first) ||
            !find(closed, CAY_COUNT(closed), &four, what))
            return CAY_GUARD_NONE;
        *what = disguise;
        return CAY_GUARD_NEVER;
    }
    for (size_t i = 0; i < CAY_OUTSIDE6_COUNT; i++) {
        if (!is_apart(&cay_outside6[i], range))
            return CAY_GUARD_NONE;
    }
    *what = "not a part of the internet";
    return CAY_GUARD_NEVER;
}

bool cay_address_is_guarded(const struct cay_ip *address)
{
    const struct cay_subnet range = {*address, (unsigned)cay_ip_bytes(address->family) * 8};
    return cay_guard_of(&range, NULL) != CAY_GUARD_NONE;
}
