/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/rules/rules_internal.h"

enum { SET_NAME_BYTES_MAX = 32 };

struct set {
    const char *name;
    const char *const *rules;
};

static const char *const debian[] = {"deb.debian.org:80,443", "security.debian.org:80,443",
                                     "ftp.debian.org:80,443", NULL};
/* Includes whatever anybody publishes there. */
static const char *const github[] = {"github.com:22,443", "*.github.com:22,443",
                                     "*.githubusercontent.com:443", NULL};
static const char *const npm[] = {"registry.npmjs.org:443", "registry.yarnpkg.com:443", NULL};
static const char *const pypi[] = {"pypi.tst:443", "files.pythonhosted.org:443", NULL};

static const struct set sets[] = {
    {"debian", debian},
    {"github", github},
    {"npm", npm},
    {"pypi", pypi},
};

bool set_name_is_good(struct cay_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (i && c == '-')))
            return false;
    }
    return name.len && name.len <= SET_NAME_BYTES_MAX;
}

bool set_line_split(struct cay_str line, struct cay_str *out_name, struct cay_str *out_rule)
{
    struct cay_str rest = line;
    if (!cay_str_split(&rest, '=', out_name) || !rest.ptr)
        return false;
    *out_rule = rest;
    return set_name_is_good(*out_name);
}

const char *const *set_builtin(struct cay_str name)
{
    for (size_t i = 0; i < CAY_COUNT(sets); i++) {
        if (cay_str_is(name, sets[i].name))
            return sets[i].rules;
    }
    return NULL;
}

void set_names(struct cay_buf *out)
{
    for (size_t i = 0; i < CAY_COUNT(sets); i++)
        cay_buf_printf(out, "%s@%s", i ? ", " : "", sets[i].name);
}
