/* SPDX-License-Identifier: Apache-2.0 */
#include "base/conf.h"

#include "base/conf_internal.h"

static const struct cay_conf_place flag_place = {.source = CAY_CONF_FLAG};

static size_t find_flag(const struct cay_conf *conf, struct cay_str name)
{
    size_t index = 0;
    for (; index < conf->count; index++) {
        char spelled[CAY_CONF_NAME_BYTES];
        cay_conf_spell(conf->entries[index].key, CAY_CONF_FLAG, spelled);
        if (cay_str_is(name, spelled + strlen("--")))
            break;
    }
    return index;
}

static size_t find_letter(const struct cay_conf *conf, char letter)
{
    size_t index = 0;
    while (index < conf->count && conf->entries[index].letter != letter)
        index++;
    return index;
}

/* The flag at argv[*at]; moves *at past it and its value. */
static bool load_flag(struct cay_conf *conf, int argc, const char *const *argv, int *at,
                      struct cay_error *err)
{
    struct cay_str written = cay_str(argv[(*at)++]);
    bool is_long = cay_str_starts(written, "--");
    size_t dashes = is_long ? 2 : 1;
    struct cay_str value = {written.ptr + dashes, written.len - dashes};
    struct cay_str name;
    bool negated = false;
    (void)cay_str_split(&value, '=', &name);
    size_t index = is_long         ? find_flag(conf, name)
                   : name.len == 1 ? find_letter(conf, *name.ptr)
                                   : conf->count;
    if (index == conf->count && is_long && cay_str_starts(name, "no-")) {
        struct cay_str rest = {name.ptr + 3, name.len - 3};
        index = find_flag(conf, rest);
        negated = index < conf->count && conf->entries[index].type == CAY_CONF_BOOL && !value.ptr;
        if (!negated)
            index = conf->count;
    }
    if (index == conf->count)
        return cay_conf_fail_unknown(
            conf, &flag_place, (struct cay_str){written.ptr, name.len + dashes}, name, NULL, err);
    if (!value.ptr && conf->entries[index].type == CAY_CONF_BOOL) {
        value = negated ? CAY_STR("false") : CAY_STR("true");
    } else if (!value.ptr) {
        if (*at >= argc)
            return cay_fail(err, CAY_R_INVALID_ARGUMENT, "%s needs a value: %s", written.ptr,
                            cay_conf_metavar(&conf->entries[index]));
        value = cay_str(argv[(*at)++]);
    }
    return cay_conf_set_from(conf, index, &flag_place, value, err);
}

bool cay_conf_load_flags(struct cay_conf *conf, int argc, const char *const *argv, int *out_rest,
                         struct cay_error *err)
{
    int at = 1;
    while (at < argc && argv[at][0] == '-' && argv[at][1]) {
        if (strcmp(argv[at], "--") == 0) {
            at++;
            break;
        }
        if (!load_flag(conf, argc, argv, &at, err))
            return false;
    }
    *out_rest = at;
    return true;
}
