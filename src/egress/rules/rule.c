/* SPDX-License-Identifier: Apache-2.0 */
/* One rule: read, and spelt in one way. */
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>

#include "egress/rules/rules_internal.h"

struct reading {
    struct rule *rule;
    char *name; /* CAY_NAME_SIZE */
    char *why;  /* RULE_WHY_SIZE */
};

CAY_PRINTF(2, 3) static bool wrong(const struct reading *reading, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(reading->why, RULE_WHY_SIZE, fmt, args);
    va_end(args);
    return false;
}

static bool holds(struct cay_str text, const char *part)
{
    return text.len && memmem(text.ptr, text.len, part, strlen(part));
}

static size_t count_of(struct cay_str text, char c)
{
    size_t count = 0;
    for (size_t i = 0; i < text.len; i++)
        count += text.ptr[i] == c;
    return count;
}

/* --- ports --- */

static bool read_port(struct cay_str text, uint16_t *out)
{
    uint64_t value;
    if (cay_str_to_u64(text, UINT16_MAX, &value) < 0 || value == 0)
        return false;
    *out = (uint16_t)value;
    return true;
}

static bool read_ports(const struct reading *reading, struct cay_str text)
{
    struct rule *rule = reading->rule;
    struct cay_str part;
    while (cay_str_split(&text, ',', &part)) {
        struct cay_str last = part;
        struct cay_str first = {};
        struct ports ports;
        if (rule->port_count == CAY_RULE_PORTS_MAX)
            return wrong(reading,
                         "a rule has at most %d ports and ranges of ports; write two rules",
                         CAY_RULE_PORTS_MAX);
        (void)cay_str_split(&last, '-', &first);
        if (!read_port(first, &ports.first) || (last.ptr && !read_port(last, &ports.last)))
            return wrong(reading, "ports are numbers from 1 to 65535, as in :443, :443,8443 or "
                                  ":1000-2000");
        if (!last.ptr)
            ports.last = ports.first;
        if (ports.last < ports.first)
            return wrong(reading, "a range of ports begins with the lower one: %u-%u", ports.last,
                         ports.first);
        rule->ports[rule->port_count++] = ports;
    }
    return true;
}

/* --- addresses --- */

static bool read_address(struct cay_str text, int family, struct cay_ip *out)
{
    char copy[INET6_ADDRSTRLEN];
    if (text.len == 0 || text.len >= sizeof(copy) || memchr(text.ptr, '\0', text.len))
        return false;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    *out = (struct cay_ip){.family = family};
    return inet_pton(family, copy, out->bytes) == 1;
}

/* Zeroes what is below the bits; true when it was. */
static bool cut_below(struct cay_subnet *range)
{
    bool was_zero = true;
    for (unsigned bit = range->bits; bit < cay_ip_bytes(range->first.family) * 8; bit++) {
        uint8_t mask = (uint8_t)(0x80 >> bit % 8);
        was_zero = was_zero && !(range->first.bytes[bit / 8] & mask);
        range->first.bytes[bit / 8] &= (uint8_t)~mask;
    }
    return was_zero;
}

/* What was read of an address, as a rule has it. */
static void print_range(const struct cay_subnet *range, bool has_ports, struct cay_buf *out)
{
    char address[INET6_ADDRSTRLEN] = "";
    bool is_in_brackets = has_ports && range->first.family == AF_INET6;
    (void)inet_ntop(range->first.family, range->first.bytes, address, sizeof(address));
    cay_buf_printf(out, is_in_brackets ? "[%s]" : "%s", address);
    if (range->bits < cay_ip_bytes(range->first.family) * 8)
        cay_buf_printf(out, "/%u", range->bits);
}

static bool wrong_range(const struct reading *reading, const struct cay_subnet *range)
{
    char text[CAY_SUBNET_TEXT_SIZE];
    cay_subnet_format(range, text);
    return wrong(reading, "the range of this size that the address is in is written %s", text);
}

/* `bits` has no pointer when none are given. */
static bool read_range(const struct reading *reading, const struct cay_ip *address,
                       struct cay_str bits)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    struct rule *rule = reading->rule;
    uint64_t most = cay_ip_bytes(address->family) * 8;
    uint64_t count = most;
    if (bits.ptr && cay_str_to_u64(bits, most, &count) < 0)
        return wrong(reading, "behind '/' stands a number of bits from 0 to %u", (unsigned)most);
    rule->kind = RULE_RANGE;
    rule->range = (struct cay_subnet){*address, (unsigned)count};
    if (!cut_below(&rule->range))
        return wrong_range(reading, &rule->range);
    if (address->family == AF_INET6 && count >= 96 &&
        memcmp(address->bytes, mapped, sizeof(mapped)) == 0) {
        struct cay_subnet four = {.first.family = AF_INET, .bits = (unsigned)count - 96};
        char text[CAY_SUBNET_TEXT_SIZE];
        memcpy(four.first.bytes, address->bytes + 12, 4);
        cay_subnet_format(&four, text);
        return wrong(reading, "this is IPv4; write %s", text);
    }
    rule->guard = cay_guard_of(&rule->range, NULL);
    return true;
}

/* "[2001:db8::]/32:443" */
static bool read_brackets(const struct reading *reading, struct cay_str text)
{
    static const char form[] =
        "an address of IPv6 is written [2001:db8::1]:443, and a range [2001:db8::]/32:443";
    struct cay_ip address;
    struct cay_str bits = {};
    struct cay_str inside;
    struct cay_str rest = {text.ptr + 1, text.len - 1};
    if (!cay_str_split(&rest, ']', &inside) || !rest.ptr)
        return wrong(reading, "a bracket is not closed; %s", form);
    if (!read_address(inside, AF_INET6, &address))
        return wrong(reading, "%s", form);
    if (rest.len && rest.ptr[0] == '/') {
        struct cay_str tail = {rest.ptr + 1, rest.len - 1};
        (void)cay_str_split(&tail, ':', &bits);
        rest = tail.ptr ? (struct cay_str){tail.ptr - 1, tail.len + 1} : (struct cay_str){};
    }
    if (rest.len && rest.ptr[0] != ':')
        return wrong(reading, "%s", form);
    return read_range(reading, &address, bits) &&
           (rest.len == 0 || read_ports(reading, (struct cay_str){rest.ptr + 1, rest.len - 1}));
}

/* --- names --- */

static bool read_name(const struct reading *reading, struct cay_str text)
{
    struct rule *rule = reading->rule;
    const char *why = NULL;
    rule->kind = cay_str_is(text, "*") ? RULE_EVERY_NAME : RULE_NAME;
    if (rule->kind == RULE_EVERY_NAME)
        return true;
    if (cay_str_starts(text, "*.")) {
        rule->kind = RULE_BELOW;
        text = (struct cay_str){text.ptr + 2, text.len - 2};
    }
    if (holds(text, "*"))
        return wrong(reading, "'*' stands alone, for every name, or first, as in *.example.org");
    if (text.len > 1 && text.ptr[0] == '.')
        return wrong(reading, "names below another are written *.example.org");
    if (!cay_name_normalise(text, reading->name, &why))
        return wrong(reading, "%s", why);
    rule->name = cay_str(reading->name);
    return true;
}

/* "name", "10.1.0.0/16", "name:443" */
static bool read_plain(const struct reading *reading, struct cay_str text)
{
    struct cay_str ports = text;
    struct cay_str host;
    struct cay_ip address;
    (void)cay_str_split(&ports, ':', &host);
    if (ports.ptr && !read_ports(reading, ports))
        return false;
    struct cay_str bits = host;
    (void)cay_str_split(&bits, '/', &host);
    if (read_address(host, AF_INET, &address))
        return read_range(reading, &address, bits);
    if (bits.ptr && count_of(host, '.') == 3 && strspn(host.ptr, "0123456789.") >= host.len)
        return wrong(reading, "a range is written like 10.1.0.0/16");
    if (bits.ptr)
        return wrong(reading, "a path cannot be part of a rule; the name alone is %.*s",
                     (int)CAY_MIN(host.len, 100), host.ptr);
    return read_name(reading, host);
}

static bool wrong_url(const struct reading *reading, struct cay_str text)
{
    struct cay_str rest = text;
    struct cay_str scheme;
    struct cay_str host;
    (void)cay_str_split(&rest, ':', &scheme);
    rest = (struct cay_str){rest.ptr + 2, rest.len - 2};
    (void)cay_str_split(&rest, '/', &host);
    const char *port = memchr(host.ptr, ':', host.len) ? ""
                       : cay_str_is(scheme, "https")   ? ":443"
                       : cay_str_is(scheme, "http")    ? ":80"
                                                       : "";
    return wrong(reading, "a rule is no URL; write %.*s%s, or GET https://… for requests",
                 (int)CAY_MIN(host.len, 100), host.ptr, port);
}

bool rule_parse(struct cay_str text, struct rule *out, char name[static CAY_NAME_SIZE],
                char out_why[static RULE_WHY_SIZE])
{
    struct reading reading = {out, name, out_why};
    struct cay_ip address;
    *out = (struct rule){.text = text};
    if (text.len == 0)
        return wrong(&reading, "it is empty");
    if (text.len > CAY_RULE_BYTES_MAX)
        return wrong(&reading, "a rule has at most %d characters", CAY_RULE_BYTES_MAX);
    if (rule_is_request(text))
        return rule_parse_request(text, out, name, out_why);
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.ptr[i] <= ' ' || text.ptr[i] == 0x7F)
            return wrong(&reading, "blanks and control characters are in no rule; one rule is one "
                                   "text");
    }
    if (text.ptr[0] == '@') {
        out->kind = RULE_SET;
        out->name = (struct cay_str){text.ptr + 1, text.len - 1};
        if (memchr(text.ptr, ':', text.len))
            return wrong(&reading, "a set brings ports of its own");
        return set_name_is_good(out->name) ||
               wrong(&reading, "sets have names like @pypi, of small letters, digits and '-'");
    }
    if (holds(text, "://"))
        return wrong_url(&reading, text);
    if (memchr(text.ptr, '@', text.len))
        return wrong(&reading, "a user cannot be part of a rule");
    if (text.ptr[0] == '[')
        return read_brackets(&reading, text);
    if (count_of(text, ':') < 2)
        return read_plain(&reading, text);
    struct cay_str bits = text;
    struct cay_str host;
    (void)cay_str_split(&bits, '/', &host);
    if (read_address(host, AF_INET6, &address))
        return read_range(&reading, &address, bits);
    return wrong(&reading, "an address of IPv6 stands in brackets where ports follow, as in "
                           "[2001:db8::1]:443; several ports are written :443,8443");
}

void rule_print(const struct rule *rule, struct cay_buf *out)
{
    if (rule->method.len) {
        cay_buf_printf(out, "%.*s https://%s%.*s", (int)rule->method.len, rule->method.ptr,
                       rule->kind == RULE_BELOW ? "*." : "", (int)rule->name.len, rule->name.ptr);
        if (rule->ports[0].first != RULE_REQUEST_PORT)
            cay_buf_printf(out, ":%u", rule->ports[0].first);
        cay_buf_append_str(out, rule->path);
        return;
    }
    if (rule->kind == RULE_RANGE)
        print_range(&rule->range, rule->port_count > 0, out);
    else if (rule->kind == RULE_EVERY_NAME)
        cay_buf_append_byte(out, '*');
    else
        cay_buf_printf(out, "%s%.*s", rule->kind == RULE_BELOW ? "*." : "", (int)rule->name.len,
                       rule->name.ptr);
    for (size_t i = 0; i < rule->port_count; i++) {
        const struct ports *ports = &rule->ports[i];
        cay_buf_printf(out, "%c%u", i ? ',' : ':', ports->first);
        if (ports->last != ports->first)
            cay_buf_printf(out, "-%u", ports->last);
    }
}
