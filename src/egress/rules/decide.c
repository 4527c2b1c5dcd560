/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>

#include "egress/rules/rules_internal.h"

/* What is asked for: a name, or an address. */
struct asked {
    struct cay_str name; /* empty: the address */
    struct cay_subnet address;
    bool has_embedded;
    struct cay_subnet embedded; /* for rules that deny */
    uint16_t port;
};

static bool is_below(struct cay_str name, struct cay_str top)
{
    size_t cut = name.len > top.len ? name.len - top.len : 0;
    return cut > 1 && name.ptr[cut - 1] == '.' && memcmp(name.ptr + cut, top.ptr, top.len) == 0;
}

static bool covers(const struct rule *rule, const struct asked *asked)
{
    switch (rule->kind) {
    case RULE_NAME: return asked->name.len && cay_str_equal(rule->name, asked->name);
    case RULE_BELOW: return is_below(asked->name, rule->name);
    case RULE_EVERY_NAME: return asked->name.len > 0;
    case RULE_RANGE:
        return !asked->name.len &&
               (cay_subnet_covers(&rule->range, &asked->address) ||
                (asked->has_embedded && cay_subnet_covers(&rule->range, &asked->embedded)));
    case RULE_SET: break;
    }
    return false;
}

static bool has_port(const struct rule *rule, uint16_t port)
{
    for (size_t i = 0; i < rule->port_count; i++) {
        if (rule->ports[i].first <= port && port <= rule->ports[i].last)
            return true;
    }
    return rule->port_count == 0;
}

/* Does it open what it covers? A wide range says nothing of guarded addresses in it. */
static bool opens(const struct rule *rule, enum cay_guard guard)
{
    return guard == CAY_GUARD_NONE || rule->guard == CAY_GUARD_CLOSED;
}

static void decide(struct cay_decision *out, enum cay_verdict verdict, enum cay_why why,
                   const struct rule *rule)
{
    *out = (struct cay_decision){.verdict = verdict, .why = why};
    if (rule) {
        out->rule = rule->text;
        out->member = rule->member;
    }
}

static bool is_denied(const struct cay_policy *policy, const struct asked *asked,
                      struct cay_decision *out)
{
    for (size_t i = 0; i < policy->deny.count; i++) {
        const struct rule *rule = &policy->deny.items[i];
        if (!rule->method.len && covers(rule, asked) && has_port(rule, asked->port)) {
            decide(out, CAY_VERDICT_REFUSED, CAY_WHY_RULE, rule);
            out->is_deny_rule = true;
            return true;
        }
    }
    return false;
}

static void find_allowed(const struct cay_policy *policy, const struct asked *asked,
                         enum cay_guard guard, struct cay_decision *out)
{
    const struct rule *near = NULL;
    const struct rule *some = NULL; /* allows some requests */
    for (size_t i = 0; i < policy->allow.count; i++) {
        const struct rule *rule = &policy->allow.items[i];
        if (!covers(rule, asked) || !opens(rule, guard))
            continue;
        bool is_here = has_port(rule, asked->port);
        if (is_here && !rule->method.len) {
            decide(out, CAY_VERDICT_ALLOWED, CAY_WHY_RULE, rule);
            return;
        }
        if (is_here)
            some = some ? some : rule;
        near = near ? near : rule;
    }
    if (some)
        decide(out, CAY_VERDICT_ALLOWED, CAY_WHY_RULE, some);
    out->is_partial = some != NULL;
    if (!some)
        decide(out, CAY_VERDICT_REFUSED, near ? CAY_WHY_PORT : CAY_WHY_NO_RULE, near);
}

/* --- requests --- */

bool cay_policy_has_requests(const struct cay_policy *policy)
{
    const struct rules *const lists[] = {&policy->allow, &policy->deny};
    for (size_t i = 0; i < CAY_COUNT(lists); i++) {
        for (size_t j = 0; j < lists[i]->count; j++) {
            if (lists[i]->items[j].method.len)
                return true;
        }
    }
    return false;
}

bool cay_policy_reads_requests(const struct cay_policy *policy, struct cay_str name, uint16_t port)
{
    const struct rules *const lists[] = {&policy->allow, &policy->deny};
    char text[CAY_NAME_SIZE];
    const char *why = NULL;
    if (!cay_name_normalise(name, text, &why))
        return false;
    const struct asked asked = {.name = cay_str(text), .port = port};
    for (size_t i = 0; i < CAY_COUNT(lists); i++) {
        for (size_t j = 0; j < lists[i]->count; j++) {
            const struct rule *rule = &lists[i]->items[j];
            if (rule->method.len && covers(rule, &asked) && has_port(rule, port))
                return true;
        }
    }
    return false;
}

void cay_policy_decide_request(const struct cay_policy *policy, struct cay_str name, uint16_t port,
                               struct cay_str method, struct cay_str path, struct cay_decision *out)
{
    char text[CAY_NAME_SIZE];
    const char *why = NULL;
    const struct rule *near = NULL;
    cay_policy_decide_name(policy, name, port, out);
    if (out->verdict == CAY_VERDICT_REFUSED || !cay_name_normalise(name, text, &why))
        return;
    const struct asked asked = {.name = cay_str(text), .port = port};
    for (size_t i = 0; i < policy->deny.count; i++) {
        const struct rule *rule = &policy->deny.items[i];
        if (rule->method.len && covers(rule, &asked) && has_port(rule, port) &&
            rule_covers_request(rule, method, path, true)) {
            decide(out, CAY_VERDICT_REFUSED, CAY_WHY_RULE, rule);
            out->is_deny_rule = true;
            return;
        }
    }
    if (out->verdict == CAY_VERDICT_ASKED) /* as its connection is */
        return;
    for (size_t i = 0; i < policy->allow.count; i++) {
        const struct rule *rule = &policy->allow.items[i];
        if (!covers(rule, &asked) || !has_port(rule, port))
            continue;
        if (!rule->method.len || rule_covers_request(rule, method, path, false)) {
            decide(out, CAY_VERDICT_ALLOWED, CAY_WHY_RULE, rule);
            return;
        }
        near = near ? near : rule;
    }
    decide(out, CAY_VERDICT_REFUSED, CAY_WHY_REQUEST, near);
}

void cay_policy_decide_name(const struct cay_policy *policy, struct cay_str name, uint16_t port,
                            struct cay_decision *out)
{
    char text[CAY_NAME_SIZE];
    const char *why = NULL;
    if (!cay_name_normalise(name, text, &why)) {
        decide(out, CAY_VERDICT_REFUSED, CAY_WHY_NAME, NULL);
        out->detail = why;
        return;
    }
    const struct asked asked = {.name = cay_str(text), .port = port};
    if (is_denied(policy, &asked, out))
        return;
    find_allowed(policy, &asked, CAY_GUARD_NONE, out);
    if (out->verdict == CAY_VERDICT_REFUSED && policy->asks)
        out->verdict = CAY_VERDICT_ASKED;
}

static struct asked ask_address(const struct cay_ip *address, uint16_t port)
{
    struct asked asked = {.address = {*address, (unsigned)cay_ip_bytes(address->family) * 8},
                          .embedded.bits = 32,
                          .port = port};
    asked.has_embedded = cay_address_embedded(address, &asked.embedded.first);
    return asked;
}

/* Without the address in disguise: only rules that deny look through it. */
static void decide_guarded(const struct cay_policy *policy, struct asked asked,
                           enum cay_guard guard, const char *what, struct cay_decision *out)
{
    asked.has_embedded = false;
    if (guard == CAY_GUARD_NEVER)
        decide(out, CAY_VERDICT_REFUSED, CAY_WHY_GUARDED, NULL);
    else
        find_allowed(policy, &asked, guard, out);
    if (guard != CAY_GUARD_NONE && out->why == CAY_WHY_NO_RULE)
        out->why = CAY_WHY_GUARDED;
    if (out->why == CAY_WHY_GUARDED)
        out->detail = what;
}

void cay_policy_decide_address(const struct cay_policy *policy, const struct cay_ip *address,
                               uint16_t port, struct cay_decision *out)
{
    const struct asked asked = ask_address(address, port);
    const char *what = NULL;
    enum cay_guard guard = cay_guard_of(&asked.address, &what);
    if (!is_denied(policy, &asked, out))
        decide_guarded(policy, asked, guard, what, out);
}

void cay_policy_decide_upstream(const struct cay_policy *policy, const struct cay_ip *address,
                                uint16_t port, struct cay_decision *out)
{
    const struct asked asked = ask_address(address, port);
    const char *what = NULL;
    enum cay_guard guard = cay_guard_of(&asked.address, &what);
    if (is_denied(policy, &asked, out))
        return;
    if (guard == CAY_GUARD_NONE)
        decide(out, CAY_VERDICT_ALLOWED, CAY_WHY_UPSTREAM, NULL);
    else
        decide_guarded(policy, asked, guard, what, out);
}

bool cay_policy_may_resolve(const struct cay_policy *policy, struct cay_str name)
{
    char text[CAY_NAME_SIZE];
    const char *why = NULL;
    if (!cay_name_normalise(name, text, &why))
        return false;
    const struct asked asked = {.name = cay_str(text)};
    for (size_t i = 0; i < policy->deny.count; i++) {
        if (policy->deny.items[i].port_count == 0 && !policy->deny.items[i].method.len &&
            covers(&policy->deny.items[i], &asked))
            return false;
    }
    for (size_t i = 0; i < policy->allow.count; i++) {
        if (covers(&policy->allow.items[i], &asked))
            return true;
    }
    return policy->asks;
}

static void explain(const struct cay_decision *decision, struct cay_buf *out)
{
    struct cay_str rule = decision->rule;
    const char *verb = decision->is_deny_rule ? "denies" : "allows";
    switch (decision->why) {
    case CAY_WHY_RULE:
        cay_buf_printf(out, "'%.*s' %s %s", (int)rule.len, rule.ptr, verb,
                       decision->is_partial ? "some requests to it" : "it");
        break;
    case CAY_WHY_NO_RULE: cay_buf_append_text(out, "no rule allows it"); return;
    case CAY_WHY_PORT:
        cay_buf_printf(out, "'%.*s' allows it on other ports only", (int)rule.len, rule.ptr);
        break;
    case CAY_WHY_GUARDED:
        cay_buf_printf(out, "it is %s, and no rule names it", decision->detail);
        return;
    case CAY_WHY_NAME:
        cay_buf_printf(out, "it is not a name of a host: %s", decision->detail);
        return;
    case CAY_WHY_REQUEST:
        cay_buf_printf(out, "'%.*s' allows other requests only", (int)rule.len, rule.ptr);
        break;
    case CAY_WHY_UPSTREAM: cay_buf_append_text(out, "its name is allowed"); return;
    }
    if (decision->member.len)
        cay_buf_printf(out, ", by its rule '%.*s'", (int)decision->member.len,
                       decision->member.ptr);
}

void cay_decision_explain(const struct cay_decision *decision, struct cay_buf *out)
{
    explain(decision, out);
    if (decision->verdict == CAY_VERDICT_ASKED)
        cay_buf_append_text(out, "; somebody is asked");
}

bool cay_policy_next_range(const struct cay_policy *policy, size_t *cursor,
                           struct cay_subnet *out_range)
{
    while (*cursor < policy->allow.count) {
        const struct rule *rule = &policy->allow.items[(*cursor)++];
        if (rule->kind != RULE_RANGE)
            continue;
        *out_range = rule->range;
        return true;
    }
    return false;
}
