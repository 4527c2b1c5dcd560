/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of conf share: values by type, and setting one. */

#include "base/conf.h"
#include "base/secret.h"

/* Where the value of an entry came from. */
struct cay_conf_origin {
    enum cay_conf_source source;
    char *text;         /* as written; NULL for secrets, lists, and what is not set */
    char *file;         /* for CAY_CONF_FILE */
    unsigned line;      /* for CAY_CONF_FILE */
    unsigned file_line; /* where the file sets it, also when a higher source wins; else 0 */
};

/* A source while it is read. */
struct cay_conf_place {
    enum cay_conf_source source;
    const char *file;
    unsigned line;
};

/* The same bytes as the member in the target. */
union cay_conf_value {
    char *string;
    struct cay_secret secret;
    bool truth;
    int64_t integer;
    uint64_t bytes;
    double ratio;
    int choice;
    struct cay_conf_list list;
};

/* All of it: an empty initialiser need only clear a union's first member. */
static inline void cay_conf_value_clear(union cay_conf_value *value)
{
    memset(value, 0, sizeof(*value));
}

enum {
    CAY_CONF_NAME_BYTES = 96,
    CAY_CONF_ALLOWED_BYTES = 200,
    CAY_CONF_EXCERPT_BYTES = 64,
};

[[nodiscard]] size_t cay_conf_value_size(enum cay_conf_type type);
[[nodiscard]] const char *cay_conf_metavar(const struct cay_conf_entry *entry);

/* False when the entry does not allow this text; *out then owns nothing. */
[[nodiscard]] bool cay_conf_value_parse(const struct cay_conf_entry *entry, struct cay_str text,
                                        union cay_conf_value *out);
void cay_conf_value_finish(const struct cay_conf_entry *entry, union cay_conf_value *value);

/* Says what an entry allows, to follow "must be". */
void cay_conf_allowed(const struct cay_conf_entry *entry, char out[CAY_CONF_ALLOWED_BYTES]);

/* Reads the member of the target. */
void cay_conf_get_member(const struct cay_conf *conf, size_t index, union cay_conf_value *out);

[[nodiscard]] bool cay_conf_may_come_from(const struct cay_conf_entry *entry,
                                          enum cay_conf_source source);

/* "max_sessions", "CAY_MAX_SESSIONS" or "--max-sessions". */
void cay_conf_spell(const char *key, enum cay_conf_source source, char out[CAY_CONF_NAME_BYTES]);

/* A piece of foreign text that can be shown in a sentence: short and without controls. */
void cay_conf_excerpt(struct cay_str text, char out[CAY_CONF_EXCERPT_BYTES]);

/* Checks the value, and keeps it unless a higher source has set the entry. */
[[nodiscard]] bool cay_conf_set(struct cay_conf *conf, size_t index,
                                const struct cay_conf_place *place, struct cay_str text,
                                struct cay_error *err);

/* The same, refused when the entry may not be set from there. */
[[nodiscard]] bool cay_conf_set_from(struct cay_conf *conf, size_t index,
                                     const struct cay_conf_place *place, struct cay_str text,
                                     struct cay_error *err);

/* `written` is what the user wrote, `word` the part of it that is compared with keys. Suggests a
 * name that the source may set, or one of `ignored`. Returns false. */
bool cay_conf_fail_unknown(const struct cay_conf *conf, const struct cay_conf_place *place,
                           struct cay_str written, struct cay_str word, const char *const *ignored,
                           struct cay_error *err);
