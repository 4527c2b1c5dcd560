/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "host/net/gateway_internal.h"
#include "sys/nftables.h"

enum {
    RULES_BYTES_MAX = 64 * 1024,
    WHY_BYTES_MAX = 2048,
    FLOWS_MAX = 4096, /* of one sandbox at once: the kernel's table is everybody's */
};

/* What is not the internet, and where clouds keep their secrets. */
const char *const cay_gateway_closed[] = {
    "0.0.0.0/8",              /* this network */
    "10.0.0.0/8",             /* private */
    "100.64.0.0/10",          /* carriers, overlay networks; metadata at 100.100.100.200 */
    "127.0.0.0/8",            /* loopback */
    "168.63.129.16",          /* a cloud's own services behind a public address */
    "169.254.0.0/16",         /* link-local; metadata at 169.254.169.254 */
    "172.16.0.0/12",          /* private */
    "192.0.0.0/24",           /* protocol assignments; metadata at 192.0.0.192 */
    "192.0.2.0/24",           /* documentation */
    "192.88.99.0/24",         /* 6to4 relays */
    "192.168.0.0/16",         /* private */
    "198.18.0.0/15",          /* measurements between networks */
    "198.51.100.0/24",        /* documentation */
    "203.0.113.0/24",         /* documentation */
    "224.0.0.0/3",            /* multicast, reserved, broadcast */
    "64:ff9b::/104",          /* the same behind NAT64: 0.0.0.0/8 */
    "64:ff9b::a00:0/104",     /* 10.0.0.0/8 */
    "64:ff9b::6440:0/106",    /* 100.64.0.0/10 */
    "64:ff9b::7f00:0/104",    /* 127.0.0.0/8 */
    "64:ff9b::a83f:8110",     /* 168.63.129.16 */
    "64:ff9b::a9fe:0/112",    /* 169.254.0.0/16 */
    "64:ff9b::ac10:0/108",    /* 172.16.0.0/12 */
    "64:ff9b::c000:0/120",    /* 192.0.0.0/24 */
    "64:ff9b::c000:200/120",  /* 192.0.2.0/24 */
    "64:ff9b::c058:6300/120", /* 192.88.99.0/24 */
    "64:ff9b::c0a8:0/112",    /* 192.168.0.0/16 */
    "64:ff9b::c612:0/111",    /* 198.18.0.0/15 */
    "64:ff9b::c633:6400/120", /* 198.51.100.0/24 */
    "64:ff9b::cb00:7100/120", /* 203.0.113.0/24 */
    "64:ff9b::e000:0/99",     /* 224.0.0.0/3 */
    "2001::/23",              /* protocol assignments; Teredo: IPv4 in disguise; measurements */
    "2001:db8::/32",          /* documentation */
    "2002::/16",              /* 6to4: IPv4 in disguise */
    "3fff::/20",              /* documentation */
    NULL,
};

/* Loopback, link-local, unique local (metadata at fd00:ec2::254), multicast and the rest are not.
 */
const char *const cay_gateway_open6[] = {"2000::/3", "64:ff9b::/96", NULL};

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

static void write_set(struct cay_buf *out, const char *name, int family, const char *const *texts)
{
    bool is_some = false;
    begin_set(out, name, family);
    for (; *texts; texts++) {
        if ((strchr(*texts, ':') != NULL) == (family == AF_INET6))
            add_element(out, &is_some, *texts);
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
    write_set(out, "closed4", AF_INET, cay_gateway_closed);
    write_set(out, "closed6", AF_INET6, cay_gateway_closed);
    write_set(out, "open6", AF_INET6, cay_gateway_open6);
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
