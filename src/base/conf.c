/* SPDX-License-Identifier: Apache-2.0 */
#include "base/conf.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/conf_internal.h"

void cay_conf_get_member(const struct cay_conf *conf, size_t index, union cay_conf_value *out)
{
    const struct cay_conf_entry *entry = &conf->entries[index];
    cay_conf_value_clear(out);
    memcpy(out, (const char *)conf->target + entry->offset, entry->size);
}

static void set_member(const struct cay_conf *conf, size_t index, const union cay_conf_value *value)
{
    const struct cay_conf_entry *entry = &conf->entries[index];
    memcpy((char *)conf->target + entry->offset, value, entry->size);
}

static bool fail_value(const struct cay_conf_entry *entry, const struct cay_conf_place *place,
                       struct cay_str text, struct cay_error *err)
{
    char name[CAY_CONF_NAME_BYTES];
    char allowed[CAY_CONF_ALLOWED_BYTES];
    char excerpt[CAY_CONF_EXCERPT_BYTES];
    bool secret = entry->type == CAY_CONF_SECRET;
    cay_conf_spell(entry->key, place->source, name);
    cay_conf_excerpt(secret ? CAY_STR("***") : text, excerpt);
    if (text.len > CAY_CONF_VALUE_BYTES_MAX)
        snprintf(allowed, sizeof(allowed), "at most %d bytes long", CAY_CONF_VALUE_BYTES_MAX);
    else
        cay_conf_allowed(entry, allowed);
    if (place->source == CAY_CONF_FILE)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "%s in %s:%u is '%s'; it must be %s", name,
                        place->file, place->line, excerpt, allowed);
    return cay_fail(err, CAY_R_INVALID_ARGUMENT, "%s is '%s'; it must be %s", name, excerpt,
                    allowed);
}

/* Items of the same source add up: a flag may be repeated. Takes the items of *more. */
static void append_list(struct cay_conf_list *list, struct cay_conf_list *more)
{
    list->items = cay_realloc_array(list->items, list->count + more->count, sizeof(*list->items));
    for (size_t i = 0; i < more->count; i++)
        list->items[list->count++] = more->items[i];
    free(more->items);
    *more = (struct cay_conf_list){};
}

static void keep_value(struct cay_conf *conf, size_t index, const struct cay_conf_place *place,
                       struct cay_str text, union cay_conf_value *value)
{
    const struct cay_conf_entry *entry = &conf->entries[index];
    struct cay_conf_origin *origin = &conf->origins[index];
    union cay_conf_value before;
    cay_conf_get_member(conf, index, &before);
    if (entry->type == CAY_CONF_LIST && origin->source == place->source) {
        append_list(&before.list, &value->list);
        *value = before;
        cay_conf_value_clear(&before);
    }
    cay_conf_value_finish(entry, &before);
    set_member(conf, index, value);

    free(origin->text);
    free(origin->file);
    origin->source = place->source;
    origin->line = place->line;
    origin->file = place->file ? cay_strdup(place->file) : NULL;
    bool kept_elsewhere = entry->type == CAY_CONF_SECRET || entry->type == CAY_CONF_LIST;
    origin->text = kept_elsewhere ? NULL : cay_strndup(text.ptr, text.len);
}

static bool list_is_full(const struct cay_conf *conf, size_t index,
                         const union cay_conf_value *more)
{
    union cay_conf_value now;
    cay_conf_get_member(conf, index, &now);
    return now.list.count + more->list.count > CAY_CONF_LIST_ITEMS_MAX;
}

bool cay_conf_set(struct cay_conf *conf, size_t index, const struct cay_conf_place *place,
                  struct cay_str text, struct cay_error *err)
{
    const struct cay_conf_entry *entry = &conf->entries[index];
    struct cay_conf_origin *origin = &conf->origins[index];
    if (place->source == CAY_CONF_FILE && entry->type != CAY_CONF_LIST) {
        if (origin->file_line)
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "%s is set twice, in %s:%u and in line %u; keep one", entry->key,
                            place->file, place->line, origin->file_line);
        origin->file_line = place->line;
    }
    union cay_conf_value value;
    if (!cay_conf_value_parse(entry, text, &value))
        return fail_value(entry, place, text, err);
    if (place->source < origin->source) {
        cay_conf_value_finish(entry, &value);
        return true;
    }
    if (entry->type == CAY_CONF_LIST && place->source == origin->source &&
        list_is_full(conf, index, &value)) {
        cay_conf_value_finish(entry, &value);
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "%s has more than %d items", entry->key,
                        CAY_CONF_LIST_ITEMS_MAX);
    }
    keep_value(conf, index, place, text, &value);
    return true;
}

static void check_entry(const struct cay_conf_entry *entry, size_t target_size)
{
    assert(entry->key && entry->help);
    assert(strlen(entry->key) < CAY_CONF_NAME_BYTES - sizeof("--no-"));
    assert(entry->size == cay_conf_value_size(entry->type));
    assert(entry->offset + entry->size <= target_size);
    assert((entry->type == CAY_CONF_ENUM) == (entry->choices != NULL));
    assert(entry->min <= entry->max);
}

void cay_conf_init(struct cay_conf *conf, const struct cay_conf_entry *entries, size_t count,
                   void *target, size_t target_size)
{
    static const struct cay_conf_place place = {.source = CAY_CONF_DEFAULT};
    *conf = (struct cay_conf){.entries = entries, .count = count, .target = target};
    conf->origins = cay_alloc(count * sizeof(*conf->origins));
    memset(target, 0, target_size);
    for (size_t i = 0; i < count; i++) {
        check_entry(&entries[i], target_size);
        conf->origins[i].source = CAY_CONF_DEFAULT;
        if (!entries[i].fallback)
            continue;
        struct cay_error err;
        bool sound = cay_conf_set(conf, i, &place, cay_str(entries[i].fallback), &err);
        assert(sound);
    }
}

void cay_conf_finish(struct cay_conf *conf)
{
    for (size_t i = 0; i < conf->count; i++) {
        union cay_conf_value value;
        cay_conf_get_member(conf, i, &value);
        cay_conf_value_finish(&conf->entries[i], &value);
        set_member(conf, i, &value);
        free(conf->origins[i].text);
        free(conf->origins[i].file);
    }
    free(conf->origins);
    *conf = (struct cay_conf){};
}

enum cay_conf_source cay_conf_source_of(const struct cay_conf *conf, const char *key)
{
    size_t index = 0;
    while (index < conf->count && strcmp(conf->entries[index].key, key) != 0)
        index++;
    assert(index < conf->count);
    return conf->origins[index].source;
}
