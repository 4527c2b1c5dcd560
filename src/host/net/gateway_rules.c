/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "egress/rules/guarded.h"
#include "host/net/gateway_internal.h"
#include "sys/nftables.h"

enum {
    RULES_BYTES_MAX = 64 * 1024,
    WHY_BYTES_MAX = 2048,
    FLOWS_MAX = 4096, /* of one sandbox at once: the kernel's table is everybody's */
};

static void begin_set(struct cay_buf *out, const char *name, int family)
{
    cay_buf_printf(out, "set %s { type %s; flags interval; auto-merge; ", name,
                   family == AF_INET ? "ipv4_addr" : "ipv6_addr");
}

/* A set may be empty, its list of elements not. */
static void add_element(struct cay_buf *out, bool *in_out_is_some, const char *text)
{
    cay_buf_printf(out, "%s%s", *in_out_is_some ? ", " : "elements = { ", text);
    *in_out_is_some = true;
}

static void end_set(struct cay_buf *out, bool is_some)
{
    cay_buf_append_text(out, is_some ? " } }\n" : "}\n");
}

static void write_closed(struct cay_buf *out, const char *name, int family)
{
    char text[CAY_SUBNET_TEXT_SIZE];
    struct cay_subnet range;
    bool is_some = false;
    size_t cursor = 0;
    begin_set(out, name, family);
    while (cay_closed_next(&cursor, &range)) {
        cay_subnet_format(&range, text);
        if (range.first.family == family)
            add_element(out, &is_some, text);
    }
    end_set(out, is_some);
}

static void write_outside6(struct cay_buf *out, const char *name)
{
    char text[CAY_SUBNET_TEXT_SIZE];
    bool is_some = false;
    begin_set(out, name, AF_INET6);
    for (size_t i = 0; i < CAY_OUTSIDE6_COUNT; i++) {
        cay_subnet_format(&cay_outside6[i], text);
        add_element(out, &is_some, text);
    }
    end_set(out, is_some);
}

static void write_allowed(const struct cay_gateway *gateway, struct cay_buf *out, const char *name,
                          int family)
{
    char text[CAY_SUBNET_TEXT_SIZE];
    bool is_some = false;
    begin_set(out, name, family);
    for (size_t i = 0; i < gateway->allowed_count; i++) {
        cay_subnet_format(&gateway->allowed[i], text);
        if (gateway->allowed[i].first.family == family)
            add_element(out, &is_some, text);
    }
    end_set(out, is_some);
}

static void write_neighbours(const struct cay_gateway *gateway, struct cay_buf *out,
                             const char *name, int family)
{
    cay_auto(cay_buf_finish) struct cay_buf list;
    cay_buf_init(&list, RULES_BYTES_MAX);
    bool is_some = false;
    cay_gateway_write_neighbours(gateway, family, &list);
    cay_buf_append_byte(&list, '\0');
    begin_set(out, name, family);
    if (list.len > 1)
        add_element(out, &is_some, (const char *)list.data);
    end_set(out, is_some);
}

/*
 * `from` sees a packet before connection tracking and before anybody's address translation: what
 * the sandbox meant. `forward` sees where it really goes. Nothing that comes from a sandbox is for
 * this host itself: names are looked up through a socket inside (dns.h).
 */
void cay_gateway_write_rules(const struct cay_gateway *gateway, struct cay_buf *out)
{
    const char *table = gateway->table;
    const char *prefix = gateway->prefix;
    /* One transaction: what was there before goes when the new stands. */
    cay_buf_printf(out, "add table inet %s\ndelete table inet %s\ntable inet %s {\n", table, table,
                   table);
    write_closed(out, "closed4", AF_INET);
    write_closed(out, "closed6", AF_INET6);
    write_outside6(out, "open6");
    write_allowed(gateway, out, "allowed4", AF_INET);
    write_allowed(gateway, out, "allowed6", AF_INET6);
    write_neighbours(gateway, out, "neighbours4", AF_INET);
    write_neighbours(gateway, out, "neighbours6", AF_INET6);
    cay_buf_append_text(out, "set flows4 { type ipv4_addr; size 65535; flags dynamic; }\n"
                             "set flows6 { type ipv6_addr; size 65535; flags dynamic; }\n");
    cay_buf_append_text(out, "chain check {\n"
                             "fib daddr type != unicast reject with icmpx type admin-prohibited\n"
                             "meta l4proto != { tcp, udp, icmp, ipv6-icmp } drop\n"
                             "ip daddr @allowed4 return\n"
                             "ip6 daddr @allowed6 return\n"
                             "ip daddr @closed4 reject with icmpx type admin-prohibited\n"
                             "ip6 daddr @closed6 reject with icmpx type admin-prohibited\n"
                             "ip daddr @neighbours4 reject with icmpx type admin-prohibited\n"
                             "ip6 daddr @neighbours6 reject with icmpx type admin-prohibited\n"
                             "meta nfproto ipv6 ip6 daddr != @open6 "
                             "reject with icmpx type admin-prohibited\n"
                             "}\n");
    cay_buf_printf(out,
                   "chain from { type filter hook prerouting priority -310; policy accept;\n"
                   "iifname \"%s*\" fib saddr . iif oif missing drop\n"
                   "iifname \"%s*\" jump check\n"
                   "}\n"
                   "chain input { type filter hook input priority -10; policy accept;\n"
                   "iifname \"%s*\" drop\n"
                   "}\n",
                   prefix, prefix, prefix);
    cay_buf_printf(out,
                   "chain forward { type filter hook forward priority -10; policy accept;\n"
                   "iifname \"%s*\" oifname \"%s*\" drop\n"
                   "iifname \"%s*\" jump check\n"
                   "iifname \"%s*\" ct state new add @flows4 { ip saddr ct count over %d } drop\n"
                   "iifname \"%s*\" ct state new add @flows6 { ip6 saddr ct count over %d } drop\n"
                   "oifname \"%s*\" ct state established,related accept\n"
                   "oifname \"%s*\" drop\n"
                   "}\n"
                   "chain leave { type nat hook postrouting priority srcnat; policy accept;\n"
                   "iifname \"%s*\" masquerade\n"
                   "}\n}\n",
                   prefix, prefix, prefix, prefix, FLOWS_MAX, prefix, FLOWS_MAX, prefix, prefix,
                   prefix);
}

bool cay_gateway_apply(const char *text, const char *what, struct cay_error *err)
{
    cay_auto(cay_buf_finish) struct cay_buf why;
    cay_buf_init(&why, WHY_BYTES_MAX);
    int status = cay_nft_apply(text, &why);
    if (status == 0)
        return true;
    if (status == -ENOENT)
        return cay_fail(err, CAY_R_NOT_SUPPORTED,
                        "network open: its rules cannot be enforced without the program nft; "
                        "install nftables");
    struct cay_str words = cay_buf_str(&why);
    struct cay_str line = {};
    (void)cay_str_split(&words, '\n', &line);
    return cay_fail(err, CAY_R_NOT_SUPPORTED, "network open: %s: %.*s", what,
                    (int)CAY_MIN(line.len, 120), line.len ? line.ptr : "");
}

bool cay_gateway_put_rules(struct cay_gateway *gateway, struct cay_error *err)
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, RULES_BYTES_MAX);
    bool is_changed = false;
    if (!cay_gateway_find_neighbours(gateway, &is_changed, err))
        return false;
    cay_gateway_write_rules(gateway, &text);
    cay_buf_append_byte(&text, '\0');
    if (text.failed)
        return cay_fail(err, CAY_R_NOT_SUPPORTED, "network open: too many rules");
    gateway->is_ruled =
        cay_gateway_apply((const char *)text.data, "the kernel does not take its rules", err);
    return gateway->is_ruled;
}

bool cay_gateway_drop_rules(struct cay_gateway *gateway, struct cay_error *err)
{
    char text[64];
    int has = cay_nft_has_table(gateway->table);
    gateway->is_ruled = false; /* before the kernel tells that the table is gone */
    if (has <= 0)
        return true;
    snprintf(text, sizeof(text), "delete table inet %s", gateway->table);
    return cay_gateway_apply(text, "its rules cannot be removed", err);
}
