/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/rules/destination.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "egress/rules/rules_internal.h"

enum { PORT_OTHERWISE = 443, SHOWN_BYTES_MAX = 80, URL_BYTES_MAX = 8 * 1024 };

static const struct scheme {
    const char *name;
    uint16_t port;
} schemes[] = {
    {"https", 443}, {"http", 80}, {"wss", 443}, {"ws", 80}, {"ssh", 22}, {"git", 9418},
};

/* "POST https://…"; GET when nothing is said. Leaves the URL. */
static void cut_method(struct cay_str *text, struct cay_str *out_method)
{
    struct cay_str rest = *text;
    struct cay_str method;
    *out_method = CAY_STR("GET");
    if (!rule_is_request(*text) || !cay_str_split(&rest, ' ', &method) || !method.len)
        return;
    *out_method = method;
    *text = rest;
}

/* The path of what is behind the scheme. */
static struct cay_str path_of(struct cay_str rest)
{
    struct cay_str path = CAY_STR("/");
    size_t at = 0;
    while (at < rest.len && !strchr("/?#", rest.ptr[at]))
        at++;
    if (at == rest.len || rest.ptr[at] != '/')
        return path;
    path = (struct cay_str){rest.ptr + at, 0};
    while (at + path.len < rest.len && !strchr("?#", rest.ptr[at + path.len]))
        path.len++;
    return path;
}

/* Leaves the host and its port of a URL; what is none stays as it is. */
static bool cut_url(struct cay_str *text, uint16_t *out_port, struct cay_str *out_path,
                    const char **out_why)
{
    const char *mark = text->len ? memmem(text->ptr, text->len, "://", 3) : NULL;
    if (!mark)
        return true;
    const struct cay_str name = {text->ptr, (size_t)(mark - text->ptr)};
    *out_port = 0;
    for (size_t i = 0; i < CAY_COUNT(schemes); i++) {
        if (cay_str_equal_nocase(name, cay_str(schemes[i].name)))
            *out_port = schemes[i].port;
    }
    *out_why = "the port of this kind of URL is not known here; write NAME:PORT";
    struct cay_str rest = {mark + 3, text->len - name.len - 3};
    if (cay_str_equal_nocase(name, CAY_STR("https")))
        *out_path = path_of(rest);
    for (const char *end = "/?#"; *end; end++)
        (void)cay_str_split(&(struct cay_str){rest.ptr, rest.len}, *end, &rest);
    const char *user = rest.len ? memrchr(rest.ptr, '@', rest.len) : NULL;
    if (user)
        rest = (struct cay_str){user + 1, rest.len - (size_t)(user + 1 - rest.ptr)};
    *text = rest;
    return *out_port != 0;
}

static bool is_one_port(const struct rule *rule)
{
    return rule->port_count == 0 ||
           (rule->port_count == 1 && rule->ports[0].first == rule->ports[0].last);
}

static bool read_host(struct cay_str text, struct cay_destination *out,
                      char why[static RULE_WHY_SIZE])
{
    struct rule rule;
    if (!rule_parse(text, &rule, out->name, why))
        return false;
    bool is_one =
        rule.kind == RULE_RANGE && rule.range.bits == cay_ip_bytes(rule.range.first.family) * 8;
    if ((rule.kind != RULE_NAME && !is_one) || !is_one_port(&rule)) {
        snprintf(why, RULE_WHY_SIZE, "write one name or one address, with one port at most");
        return false;
    }
    out->is_address = is_one;
    out->address = rule.range.first;
    if (is_one)
        out->name[0] = '\0';
    if (rule.port_count)
        out->port = rule.ports[0].first;
    return true;
}

bool cay_destination_parse(struct cay_str text, struct cay_destination *out, struct cay_error *err)
{
    struct cay_destination found = {.port = PORT_OTHERWISE};
    struct cay_str host = text;
    cut_method(&host, &found.method);
    char why[RULE_WHY_SIZE];
    const char *wrong = why;
    if (text.len > URL_BYTES_MAX)
        wrong = "it is too long";
    else if (cut_url(&host, &found.port, &found.path, &wrong) && read_host(host, &found, why)) {
        *out = found;
        return true;
    } else if (found.port) {
        wrong = why;
    }
    char shown[SHOWN_BYTES_MAX];
    size_t len = CAY_MIN(text.len, sizeof(shown));
    for (size_t i = 0; i < len; i++)
        shown[i] = (unsigned char)text.ptr[i] < ' ' || text.ptr[i] == 0x7F ? '?' : text.ptr[i];
    return cay_fail(err, CAY_R_INVALID_ARGUMENT, "destination '%.*s'%s: %s", (int)len, shown,
                    len < text.len ? " …" : "", wrong);
}

void cay_policy_decide(const struct cay_policy *policy, const struct cay_destination *destination,
                       struct cay_decision *out)
{
    if (destination->is_address)
        cay_policy_decide_address(policy, &destination->address, destination->port, out);
    else if (destination->path.len &&
             cay_policy_reads_requests(policy, cay_str(destination->name), destination->port))
        cay_policy_decide_request(policy, cay_str(destination->name), destination->port,
                                  destination->method, destination->path, out);
    else
        cay_policy_decide_name(policy, cay_str(destination->name), destination->port, out);
}

void cay_destination_format(const struct cay_destination *destination,
                            char out_text[CAY_DESTINATION_TEXT_SIZE])
{
    char address[INET6_ADDRSTRLEN] = "";
    const char *host = destination->name;
    if (destination->is_address)
        host = inet_ntop(destination->address.family, destination->address.bytes, address,
                         sizeof(address));
    bool is_in_brackets = destination->is_address && destination->address.family == AF_INET6;
    snprintf(out_text, CAY_DESTINATION_TEXT_SIZE, is_in_brackets ? "[%s]:%u" : "%s:%u", host,
             destination->port);
}
