/* SPDX-License-Identifier: Apache-2.0 */
/* How keys are spelled in each source, and what to say when a name is not known there. */
#include "base/conf_internal.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/nearest.h"

enum { VARIABLES_IGNORED_MAX = 64 };

bool cay_conf_may_come_from(const struct cay_conf_entry *entry, enum cay_conf_source source)
{
    return source == CAY_CONF_DEFAULT || !entry->sources || (entry->sources & source);
}

static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - ('a' - 'A')) : c;
}

void cay_conf_spell(const char *key, enum cay_conf_source source, char out[CAY_CONF_NAME_BYTES])
{
    const char *prefix = source == CAY_CONF_FLAG ? "--" : source == CAY_CONF_FILE ? "" : "CAY_";
    int start = snprintf(out, CAY_CONF_NAME_BYTES, "%s", prefix);
    snprintf(out + start, CAY_CONF_NAME_BYTES - (size_t)start, "%s", key);
    for (char *c = out + start; *c; c++) {
        if (source == CAY_CONF_ENVIRONMENT)
            *c = upper(*c);
        else if (source == CAY_CONF_FLAG && *c == '_')
            *c = '-';
    }
}

void cay_conf_excerpt(struct cay_str text, char out[CAY_CONF_EXCERPT_BYTES])
{
    enum { KEPT = CAY_CONF_EXCERPT_BYTES - sizeof("...") };
    size_t len = CAY_MIN(text.len, (size_t)KEPT);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        out[i] = c < 0x20 || c >= 0x7F ? '?' : (char)c;
    }
    snprintf(out + len, CAY_CONF_EXCERPT_BYTES - len, "%s", len < text.len ? "..." : "");
}

static const char *nearest_key(const struct cay_conf *conf, enum cay_conf_source source,
                               struct cay_str word, const char *const *ignored)
{
    size_t count = 0;
    cay_autofree const char **names =
        cay_realloc_array(NULL, conf->count + VARIABLES_IGNORED_MAX, sizeof(*names));
    for (size_t i = 0; i < conf->count; i++) {
        if (cay_conf_may_come_from(&conf->entries[i], source))
            names[count++] = conf->entries[i].key;
    }
    for (size_t i = 0; ignored && ignored[i] && i < VARIABLES_IGNORED_MAX; i++)
        names[count++] = ignored[i] + strlen("CAY_");
    return cay_nearest(word, names, count);
}

bool cay_conf_fail_unknown(const struct cay_conf *conf, const struct cay_conf_place *place,
                           struct cay_str written, struct cay_str word, const char *const *ignored,
                           struct cay_error *err)
{
    char excerpt[CAY_CONF_EXCERPT_BYTES];
    char hint[CAY_CONF_NAME_BYTES + 32] = "";
    cay_conf_excerpt(written, excerpt);
    const char *nearest = nearest_key(conf, place->source, word, ignored);
    if (nearest) {
        char name[CAY_CONF_NAME_BYTES];
        cay_conf_spell(nearest, place->source, name);
        snprintf(hint, sizeof(hint), "; did you mean '%s'?", name);
    }
    switch (place->source) {
    case CAY_CONF_FILE:
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "unknown key '%s' in %s:%u%s", excerpt,
                        place->file, place->line, hint);
    case CAY_CONF_ENVIRONMENT:
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "unknown variable '%s' in the environment%s",
                        excerpt, hint);
    case CAY_CONF_FLAG:
    case CAY_CONF_DEFAULT:
    default:
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "unknown flag '%s'%s", excerpt,
                        nearest ? hint : "; --help lists them");
    }
}

/* For a key that exists but that this source may not set. */
static bool fail_source(const struct cay_conf_entry *entry, const struct cay_conf_place *place,
                        struct cay_error *err)
{
    char name[CAY_CONF_NAME_BYTES];
    static const enum cay_conf_source others[] = {CAY_CONF_FLAG, CAY_CONF_ENVIRONMENT,
                                                  CAY_CONF_FILE};
    size_t i = 0;
    while (i + 1 < CAY_COUNT(others) && !cay_conf_may_come_from(entry, others[i]))
        i++;
    cay_conf_spell(entry->key, others[i], name);
    const char *where = place->source == CAY_CONF_FILE          ? "the file"
                        : place->source == CAY_CONF_ENVIRONMENT ? "the environment"
                                                                : "a flag";
    return cay_fail(err, CAY_R_INVALID_ARGUMENT, "%s cannot be set by %s; use %s", entry->key,
                    where, name);
}

bool cay_conf_set_from(struct cay_conf *conf, size_t index, const struct cay_conf_place *place,
                       struct cay_str value, struct cay_error *err)
{
    if (!cay_conf_may_come_from(&conf->entries[index], place->source))
        return fail_source(&conf->entries[index], place, err);
    return cay_conf_set(conf, index, place, value, err);
}
