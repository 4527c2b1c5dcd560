/* SPDX-License-Identifier: Apache-2.0 */
#include "base/conf.h"

#include "base/conf_internal.h"

static bool is_ignored(struct cay_str name, const char *const *ignored)
{
    for (; ignored && *ignored; ignored++) {
        if (cay_str_is(name, *ignored))
            return true;
    }
    return false;
}

/* CAY_MAX_SESSIONS is the only spelling of max_sessions. */
static size_t find_variable(const struct cay_conf *conf, struct cay_str name)
{
    size_t index = 0;
    for (; index < conf->count; index++) {
        char spelled[CAY_CONF_NAME_BYTES];
        cay_conf_spell(conf->entries[index].key, CAY_CONF_ENVIRONMENT, spelled);
        if (cay_str_is(name, spelled))
            break;
    }
    return index;
}

bool cay_conf_load_environment(struct cay_conf *conf, const char *const *environment,
                               const char *const *ignored, struct cay_error *err)
{
    static const struct cay_conf_place place = {.source = CAY_CONF_ENVIRONMENT};
    for (; *environment; environment++) {
        struct cay_str value = cay_str(*environment);
        struct cay_str name;
        if (!cay_str_starts(value, "CAY_") || !cay_str_split(&value, '=', &name) || !value.len ||
            is_ignored(name, ignored))
            continue;
        size_t index = find_variable(conf, name);
        if (index == conf->count) {
            struct cay_str word = {name.ptr + strlen("CAY_"), name.len - strlen("CAY_")};
            return cay_conf_fail_unknown(conf, &place, name, word, ignored, err);
        }
        if (!cay_conf_set_from(conf, index, &place, value, err))
            return false;
    }
    return true;
}
