/* SPDX-License-Identifier: Apache-2.0 */
#include "host/live/network_rules.h"

#include <stdlib.h>

#include "host/live/bindings.h"
#include "host/session/host.h"

static struct cay_str *sets_of(const struct cay_host *host)
{
    const struct cay_conf_list *sets = &host->settings->network_sets;
    struct cay_str *texts = cay_alloc((sets->count + 1) * sizeof(*texts));
    for (size_t i = 0; i < sets->count; i++)
        texts[i] = cay_str(sets->items[i]);
    return texts;
}

bool cay_network_sets_check(const struct cay_host *host, struct cay_error *err)
{
    cay_autofree struct cay_str *sets = sets_of(host);
    return cay_policy_check_sets(sets, host->settings->network_sets.count, err) ||
           cay_wrap(err, "network_sets");
}

bool cay_network_default_check(const struct cay_host *host, struct cay_error *err)
{
    const struct cay_conf_list *list = &host->settings->network_rules;
    struct cay_policy *rules = NULL;
    cay_autofree struct cay_str *items = cay_alloc((list->count + 1) * sizeof(*items));
    for (size_t i = 0; i < list->count; i++)
        items[i] = cay_str(list->items[i]);
    const struct cay_v1_network_policy policy = {.allow = {items, list->count}};
    if (!cay_network_rules_make(host, &policy, &rules, err))
        return cay_wrap(err, "network_rules");
    cay_policy_destroy(rules);
    return true;
}

bool cay_network_secret_rules(const struct cay_host *host,
                              const struct cay_v1_network_policy *policy,
                              const struct cay_v1_secret_binding_array *secrets,
                              struct cay_arena *arena, struct cay_pb_strs *out_rules,
                              struct cay_error *err)
{
    const struct cay_v1_network_policy allowed = {.allow = policy->allow};
    struct cay_policy *own = NULL;
    *out_rules = (struct cay_pb_strs){};
    if (!secrets->count)
        return true;
    if (!cay_network_rules_make(host, &allowed, &own, err))
        return false;
    out_rules->items = cay_arena_array(arena, secrets->count, sizeof(*out_rules->items));
    for (size_t i = 0; out_rules->items && i < secrets->count; i++) {
        const struct cay_v1_secret_binding *binding = &secrets->items[i];
        if (!cay_policy_reads_requests(own, binding->host, CAY_BINDING_PORT))
            out_rules->items[out_rules->count++] = cay_binding_rule(binding, arena);
    }
    cay_policy_destroy(own);
    return out_rules->items || cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
}

bool cay_network_rules_with(const struct cay_host *host, const struct cay_v1_network_policy *policy,
                            const struct cay_v1_secret_binding_array *secrets,
                            struct cay_policy **out_rules, struct cay_error *err)
{
    enum { ARENA_BYTES = 1 << 16 };
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_autofree struct cay_str *sets = sets_of(host);
    size_t count = policy->allow.count;
    cay_autofree struct cay_str *allow = cay_alloc((count + secrets->count + 1) * sizeof(*allow));
    struct cay_pb_strs more;
    cay_arena_init(&arena, ARENA_BYTES);
    if (!cay_network_secret_rules(host, policy, secrets, &arena, &more, err))
        return false;
    for (size_t i = 0; i < count; i++)
        allow[i] = policy->allow.items[i];
    for (size_t i = 0; i < more.count; i++)
        allow[count++] = more.items[i];
    const struct cay_policy_source source = {
        .allow = allow,
        .allow_count = count,
        .deny = policy->deny.items,
        .deny_count = policy->deny.count,
        .sets = sets,
        .set_count = host->settings->network_sets.count,
        .opened = host->gateway.allowed,
        .opened_count = host->gateway.allowed_count,
        .asks = policy->ask,
    };
    return cay_policy_create(&source, out_rules, err);
}

bool cay_network_rules_make(const struct cay_host *host, const struct cay_v1_network_policy *policy,
                            struct cay_policy **out_rules, struct cay_error *err)
{
    static const struct cay_v1_secret_binding_array none;
    return cay_network_rules_with(host, policy, &none, out_rules, err);
}
