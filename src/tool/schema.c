/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/tool.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/nearest.h"

/*
 * Checks parameters against the part of JSON Schema that the tools use: type, properties, required,
 * additionalProperties (always false), minimum, maximum, minLength, maxLength, items, maxItems,
 * enum. A test makes sure that no schema uses more.
 */

enum {
    SCHEMA_ARENA_BYTES = 1024 * 1024,
    NAMES_MAX = 32,
    TOOLS_MAX = 32,
};

/* The schemas are ours: one that does not parse is a mistake found by the first test. NULL when
 * there is no memory. */
static struct google_protobuf_struct *parse(const struct cay_tool *tool, struct cay_arena *arena)
{
    char problem[256] = "";
    struct google_protobuf_struct *schema = cay_arena_new(arena, struct google_protobuf_struct);
    int parsed = !schema ? -ENOMEM
                         : cay_pb_json_read(&google_protobuf_struct_desc, cay_str(tool->schema),
                                            NULL, arena, schema, problem, sizeof(problem));
    return parsed == 0 ? schema : NULL;
}

/* What was parsed once serves all, and stays. */
struct known {
    struct cay_arena arena;
    const struct google_protobuf_struct *schema;
};

static struct known *know(const struct cay_tool *tool)
{
    struct known *known = calloc(1, sizeof(*known));
    if (!known)
        return NULL;
    cay_arena_init(&known->arena, SCHEMA_ARENA_BYTES);
    known->schema = parse(tool, &known->arena);
    return known;
}

const struct google_protobuf_struct *cay_tool_schema(const struct cay_tool *tool)
{
    static _Atomic(struct known *) all[TOOLS_MAX];
    size_t at = 0;
    while (at < cay_tool_count() && cay_tool_at(at) != tool)
        at++;
    assert(at < cay_tool_count() && cay_tool_count() <= TOOLS_MAX);
    struct known *before = atomic_load_explicit(&all[at], memory_order_acquire);
    if (before)
        return before->schema;
    struct known *mine = know(tool);
    if (mine && mine->schema && atomic_compare_exchange_strong(&all[at], &before, mine))
        return mine->schema;
    /* Somebody was faster, or there is no memory. */
    if (mine)
        cay_arena_finish(&mine->arena);
    free(mine);
    return before ? before->schema : NULL;
}

static const struct google_protobuf_value *member(const struct google_protobuf_struct *object,
                                                  struct cay_str key)
{
    for (size_t i = 0; object && i < object->fields.count; i++)
        if (cay_str_equal(object->fields.items[i].key, key))
            return object->fields.items[i].value;
    return NULL;
}

static const struct google_protobuf_struct *object_member(const struct google_protobuf_struct *of,
                                                          const char *key)
{
    const struct google_protobuf_value *value = member(of, cay_str(key));
    return value && value->which_kind == GOOGLE_PROTOBUF_VALUE_KIND_STRUCT_VALUE
               ? value->kind.struct_value
               : NULL;
}

static const struct google_protobuf_list_value *list_member(const struct google_protobuf_struct *of,
                                                            const char *key)
{
    const struct google_protobuf_value *value = member(of, cay_str(key));
    return value && value->which_kind == GOOGLE_PROTOBUF_VALUE_KIND_LIST_VALUE
               ? value->kind.list_value
               : NULL;
}

static double number_member(const struct google_protobuf_struct *of, const char *key,
                            double otherwise)
{
    const struct google_protobuf_value *value = member(of, cay_str(key));
    return value ? value->kind.number_value : otherwise;
}

static const char *kind_name(const struct google_protobuf_value *value)
{
    switch (value->which_kind) {
    case GOOGLE_PROTOBUF_VALUE_KIND_NUMBER_VALUE: return "a number";
    case GOOGLE_PROTOBUF_VALUE_KIND_STRING_VALUE: return "a string";
    case GOOGLE_PROTOBUF_VALUE_KIND_BOOL_VALUE: return "a boolean";
    case GOOGLE_PROTOBUF_VALUE_KIND_STRUCT_VALUE: return "an object";
    case GOOGLE_PROTOBUF_VALUE_KIND_LIST_VALUE: return "an array";
    case GOOGLE_PROTOBUF_VALUE_KIND_NULL_VALUE:
    case GOOGLE_PROTOBUF_VALUE_KIND_NOT_SET:
    default: return "null";
    }
}

static bool wrong_type(const char *where, const char *type,
                       const struct google_protobuf_value *value, struct cay_error *err)
{
    return cay_fail(err, CAY_R_INVALID_ARGUMENT, "%s: expected %s %s, found %s", where,
                    strchr("aeio", type[0]) ? "an" : "a", type, kind_name(value));
}

static bool check_number(const struct google_protobuf_struct *schema, const char *where,
                         double number, bool integer, struct cay_error *err)
{
    double least = number_member(schema, "minimum", -9007199254740991.0);
    double most = number_member(schema, "maximum", 9007199254740991.0);
    if (integer && number != floor(number))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "%s: expected an integer, found %g", where,
                        number);
    if (!(number >= least && number <= most))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "%s: expected %.0f to %.0f, found %g", where,
                        least, most, number);
    return true;
}

static size_t characters(struct cay_str text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.len; i++)
        count += ((unsigned char)text.ptr[i] & 0xC0) != 0x80;
    return count;
}

static bool check_string(const struct google_protobuf_struct *schema, const char *where,
                         struct cay_str text, struct cay_error *err)
{
    const struct google_protobuf_list_value *allowed = list_member(schema, "enum");
    for (size_t i = 0; allowed && i <= allowed->values.count; i++) {
        if (i == allowed->values.count)
            return cay_fail(err, CAY_R_INVALID_ARGUMENT, "%s: not one of the allowed values",
                            where);
        if (cay_str_equal(text, allowed->values.items[i].kind.string_value))
            break;
    }
    double least = number_member(schema, "minLength", 0);
    double most = number_member(schema, "maxLength", (double)SIZE_MAX);
    if ((double)text.len < least)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "%s: must not be empty", where);
    if ((double)text.len > most && (double)characters(text) > most)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "%s: at most %.0f characters", where, most);
    return true;
}

static bool check_value(const struct google_protobuf_struct *schema, const char *where,
                        const struct google_protobuf_value *value, struct cay_error *err);

static bool check_array(const struct google_protobuf_struct *schema, const char *where,
                        const struct google_protobuf_list_value *list, struct cay_error *err)
{
    double most = number_member(schema, "maxItems", (double)SIZE_MAX);
    if ((double)list->values.count > most)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "%s: at most %.0f items", where, most);
    const struct google_protobuf_struct *items = object_member(schema, "items");
    for (size_t i = 0; items && i < list->values.count; i++) {
        char inner[128];
        snprintf(inner, sizeof(inner), "%s[%zu]", where, i);
        if (!check_value(items, inner, &list->values.items[i], err))
            return false;
    }
    return true;
}

static bool check_value(const struct google_protobuf_struct *schema, const char *where,
                        const struct google_protobuf_value *value, struct cay_error *err)
{
    static const struct {
        const char *type;
        enum google_protobuf_value_kind_case kind;
    } kinds[] = {
        {"string", GOOGLE_PROTOBUF_VALUE_KIND_STRING_VALUE},
        {"integer", GOOGLE_PROTOBUF_VALUE_KIND_NUMBER_VALUE},
        {"number", GOOGLE_PROTOBUF_VALUE_KIND_NUMBER_VALUE},
        {"boolean", GOOGLE_PROTOBUF_VALUE_KIND_BOOL_VALUE},
        {"array", GOOGLE_PROTOBUF_VALUE_KIND_LIST_VALUE},
    };
    struct cay_str type = member(schema, CAY_STR("type"))->kind.string_value;
    size_t at = 0;
    while (at < CAY_COUNT(kinds) && !cay_str_is(type, kinds[at].type))
        at++;
    assert(at < CAY_COUNT(kinds));
    if (value->which_kind != kinds[at].kind)
        return wrong_type(where, kinds[at].type, value, err);
    switch (kinds[at].kind) {
    case GOOGLE_PROTOBUF_VALUE_KIND_STRING_VALUE:
        return check_string(schema, where, value->kind.string_value, err);
    case GOOGLE_PROTOBUF_VALUE_KIND_NUMBER_VALUE:
        return check_number(schema, where, value->kind.number_value, cay_str_is(type, "integer"),
                            err);
    case GOOGLE_PROTOBUF_VALUE_KIND_LIST_VALUE:
        return check_array(schema, where, value->kind.list_value, err);
    case GOOGLE_PROTOBUF_VALUE_KIND_BOOL_VALUE:
    case GOOGLE_PROTOBUF_VALUE_KIND_STRUCT_VALUE:
    case GOOGLE_PROTOBUF_VALUE_KIND_NULL_VALUE:
    case GOOGLE_PROTOBUF_VALUE_KIND_NOT_SET:
    default: return true;
    }
}

static bool unknown_parameter(const struct cay_tool *tool,
                              const struct google_protobuf_struct *properties, struct cay_str key,
                              struct cay_error *err)
{
    char names[NAMES_MAX][64];
    const char *list[NAMES_MAX];
    char all[160] = "";
    size_t len = 0;
    size_t count = CAY_MIN(properties->fields.count, (size_t)NAMES_MAX);
    for (size_t i = 0; i < count; i++) {
        struct cay_str name = properties->fields.items[i].key;
        snprintf(names[i], sizeof(names[i]), "%.*s", (int)name.len, name.ptr);
        list[i] = names[i];
        if (len < sizeof(all))
            len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s", i ? ", " : "", names[i]);
    }
    const char *nearest = cay_nearest(key, list, count);
    if (nearest)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "%s has no parameter '%.*s'; did you mean '%s'?", tool->name,
                        (int)CAY_MIN(key.len, (size_t)64), key.ptr, nearest);
    return cay_fail(err, CAY_R_INVALID_ARGUMENT, "%s has no parameter '%.*s'; it takes %s",
                    tool->name, (int)CAY_MIN(key.len, (size_t)48), key.ptr, all);
}

static bool is_given(const struct google_protobuf_value *value)
{
    return value && value->which_kind != GOOGLE_PROTOBUF_VALUE_KIND_NOT_SET &&
           value->which_kind != GOOGLE_PROTOBUF_VALUE_KIND_NULL_VALUE;
}

bool cay_tool_check_params(const struct cay_tool *tool, const struct google_protobuf_struct *params,
                           struct cay_error *err)
{
    const struct google_protobuf_struct *schema = cay_tool_schema(tool);
    if (!schema)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "out of memory");
    const struct google_protobuf_struct *properties = object_member(schema, "properties");
    for (size_t i = 0; params && i < params->fields.count; i++) {
        struct cay_str key = params->fields.items[i].key;
        const struct google_protobuf_value *rule = member(properties, key);
        if (!rule)
            return unknown_parameter(tool, properties, key, err);
        char where[64];
        snprintf(where, sizeof(where), "%.*s", (int)key.len, key.ptr);
        if (is_given(params->fields.items[i].value) &&
            !check_value(rule->kind.struct_value, where, params->fields.items[i].value, err))
            return false;
    }
    const struct google_protobuf_list_value *required = list_member(schema, "required");
    for (size_t i = 0; required && i < required->values.count; i++) {
        struct cay_str name = required->values.items[i].kind.string_value;
        if (!is_given(member(params, name)))
            return cay_fail(err, CAY_R_INVALID_ARGUMENT, "%s needs the parameter '%.*s'",
                            tool->name, (int)name.len, name.ptr);
    }
    return true;
}
