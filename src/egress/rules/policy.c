/* SPDX-License-Identifier: Apache-2.0 */
/* A policy: its lists read, sets put in place, everything copied. */
#include <stdlib.h>

#include "egress/rules/rules_internal.h"

enum {
    TEXTS_BYTES_MAX = 4 << 20,
    SHOWN_BYTES_MAX = 80, /* of a rule, in errors */
};

struct loading {
    const struct cay_policy_source *source;
    struct cay_policy *policy;
    struct rules *into;
    bool is_deny;
    struct cay_error *err;
};

/* As much of a rule as an error has room for, on one line. */
static struct cay_str shown(struct cay_str text, char out[static SHOWN_BYTES_MAX])
{
    size_t len = CAY_MIN(text.len, (size_t)SHOWN_BYTES_MAX);
    for (size_t i = 0; i < len; i++)
        out[i] = (unsigned char)text.ptr[i] < ' ' || text.ptr[i] == 0x7F ? '?' : text.ptr[i];
    return (struct cay_str){out, len};
}

static bool wrong_rule(const struct loading *loading, enum cay_reason reason, struct cay_str text,
                       const char *why)
{
    char copy[SHOWN_BYTES_MAX];
    struct cay_str part = shown(text, copy);
    return cay_fail(loading->err, reason, "network: the rule '%.*s'%s: %s", (int)part.len,
                    part.len ? part.ptr : "", text.len > part.len ? " …" : "", why);
}

static struct rule *add(const struct loading *loading, struct cay_str text)
{
    struct rules *rules = loading->into;
    if (rules->count == CAY_POLICY_EXPANDED_MAX) {
        cay_fail(
            loading->err, CAY_R_INVALID_ARGUMENT,
            "network: with the rules of its sets a list has at most %d rules; leave out '%.*s'",
            CAY_POLICY_EXPANDED_MAX, (int)CAY_MIN(text.len, (size_t)SHOWN_BYTES_MAX), text.ptr);
        return NULL;
    }
    if ((rules->count & (rules->count - 1)) == 0)
        rules->items =
            cay_realloc_array(rules->items, CAY_MAX(rules->count * 2, 1), sizeof(*rules->items));
    return &rules->items[rules->count++];
}

static bool is_opened(const struct cay_policy_source *source, const struct cay_subnet *range)
{
    for (size_t i = 0; i < source->opened_count; i++) {
        if (cay_subnet_covers(&source->opened[i], range))
            return true;
    }
    return false;
}

/* What opens more than it may. */
static bool check_guard(const struct loading *loading, const struct rule *rule)
{
    const char *what = "";
    char why[RULE_WHY_SIZE];
    if (loading->is_deny || rule->kind != RULE_RANGE || rule->guard == CAY_GUARD_NONE)
        return true;
    (void)cay_guard_of(&rule->range, &what);
    if (rule->guard == CAY_GUARD_NEVER) {
        snprintf(why, sizeof(why), "this is %s; no rule opens it", what);
        return wrong_rule(loading, CAY_R_INVALID_ARGUMENT, rule->text, why);
    }
    if (is_opened(loading->source, &rule->range))
        return true;
    snprintf(why, sizeof(why),
             "this is %s, which the host's administrator opens with network_allow", what);
    return wrong_rule(loading, CAY_R_PERMISSION_DENIED, rule->text, why);
}

/* `set` is the rule that names the set which has this one; empty when it stands in the list. */
static bool load_rule(const struct loading *loading, struct cay_str text, struct cay_str set)
{
    char name[CAY_NAME_SIZE];
    char why[RULE_WHY_SIZE];
    struct rule *rule = add(loading, text);
    if (!rule)
        return false;
    if (!rule_parse(text, rule, name, why))
        return wrong_rule(loading, CAY_R_INVALID_ARGUMENT, text, why);
    if (rule->kind == RULE_SET)
        return wrong_rule(loading, CAY_R_INVALID_ARGUMENT, text,
                          "a set has no other sets in it; write their rules");
    if (!check_guard(loading, rule))
        return false;
    if (rule->name.len)
        rule->name = cay_arena_str(&loading->policy->texts, rule->name);
    if (rule->method.len) {
        rule->method = cay_arena_str(&loading->policy->texts, rule->method);
        rule->path = cay_arena_str(&loading->policy->texts, rule->path);
    }
    rule->text = cay_arena_str(&loading->policy->texts, text);
    if (set.len) {
        rule->member = rule->text;
        rule->text = cay_arena_str(&loading->policy->texts, set);
    }
    return (!loading->policy->texts.no_memory && rule->text.len) ||
           cay_fail(loading->err, CAY_R_OUT_OF_MEMORY, NULL);
}

static bool load_set(const struct loading *loading, struct cay_str text, struct cay_str set)
{
    const struct cay_policy_source *source = loading->source;
    bool is_found = false;
    for (size_t i = 0; i < source->set_count; i++) {
        struct cay_str name;
        struct cay_str member;
        if (!set_line_split(source->sets[i], &name, &member) || !cay_str_equal(name, set))
            continue;
        is_found = true;
        if (!load_rule(loading, member, text))
            return false;
    }
    const char *const *builtin = is_found ? NULL : set_builtin(set);
    for (; builtin && *builtin; builtin++) {
        is_found = true;
        if (!load_rule(loading, cay_str(*builtin), text))
            return false;
    }
    if (is_found)
        return true;
    cay_auto(cay_buf_finish) struct cay_buf why;
    cay_buf_init(&why, RULE_WHY_SIZE);
    cay_buf_append_text(&why, "there is no such set; every host has ");
    set_names(&why);
    cay_buf_append_byte(&why, '\0');
    return wrong_rule(loading, CAY_R_INVALID_ARGUMENT, text, why.data);
}

static bool load_list(const struct loading *loading, const struct cay_str *texts, size_t count)
{
    const char *which = loading->is_deny ? "deny" : "allow";
    if (count > CAY_POLICY_RULES_MAX)
        return cay_fail(loading->err, CAY_R_INVALID_ARGUMENT,
                        "network.%s: at most %d rules, not %zu", which, CAY_POLICY_RULES_MAX,
                        count);
    for (size_t i = 0; i < count; i++) {
        struct cay_str set = {};
        if (texts[i].len && texts[i].ptr[0] == '@') {
            struct rule rule;
            char name[CAY_NAME_SIZE];
            char why[RULE_WHY_SIZE];
            if (!rule_parse(texts[i], &rule, name, why))
                return wrong_rule(loading, CAY_R_INVALID_ARGUMENT, texts[i], why);
            set = rule.name;
        }
        if (set.len ? !load_set(loading, texts[i], set)
                    : !load_rule(loading, texts[i], (struct cay_str){}))
            return false;
    }
    return true;
}

bool cay_policy_check_sets(const struct cay_str *sets, size_t set_count, struct cay_error *err)
{
    char shown_line[SHOWN_BYTES_MAX];
    if (set_count > CAY_POLICY_SETS_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "at most %d rules in sets",
                        CAY_POLICY_SETS_MAX);
    for (size_t i = 0; i < set_count; i++) {
        struct cay_str name;
        struct cay_str text;
        struct rule rule;
        char host[CAY_NAME_SIZE];
        char why[RULE_WHY_SIZE];
        struct cay_str line = shown(sets[i], shown_line);
        if (!set_line_split(sets[i], &name, &text))
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "'%.*s' is not a rule of a set, like corp=git.example.org:443, with a "
                            "name of small letters, digits and '-'",
                            (int)line.len, line.len ? line.ptr : "");
        bool is_good = rule_parse(text, &rule, host, why);
        if (!is_good || rule.kind == RULE_SET)
            return cay_fail(err, CAY_R_INVALID_ARGUMENT, "'%.*s': %s", (int)line.len, line.ptr,
                            is_good ? "a set has no other sets in it" : why);
    }
    return true;
}

bool cay_policy_create(const struct cay_policy_source *source, struct cay_policy **out_policy,
                       struct cay_error *err)
{
    if (!cay_policy_check_sets(source->sets, source->set_count, err))
        return false;
    struct cay_policy *policy = cay_new(struct cay_policy);
    policy->asks = source->asks;
    cay_arena_init(&policy->texts, TEXTS_BYTES_MAX);
    struct loading allow = {source, policy, &policy->allow, false, err};
    struct loading deny = {source, policy, &policy->deny, true, err};
    if (!load_list(&allow, source->allow, source->allow_count) ||
        !load_list(&deny, source->deny, source->deny_count)) {
        cay_policy_destroy(policy);
        return false;
    }
    *out_policy = policy;
    return true;
}

void cay_policy_destroy(struct cay_policy *policy)
{
    if (!policy)
        return;
    free(policy->allow.items);
    free(policy->deny.items);
    cay_arena_finish(&policy->texts);
    free(policy);
}

void cay_policy_print(const struct cay_policy *policy, bool is_deny, struct cay_buf *out)
{
    const struct rules *rules = is_deny ? &policy->deny : &policy->allow;
    for (size_t i = 0; i < rules->count; i++) {
        rule_print(&rules->items[i], out);
        cay_buf_append_byte(out, '\n');
    }
}
