/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/pb/pb.h"

#include <errno.h>
#include <stdlib.h>

#include "wire/pb/pb_internal.h"

enum {
    SMALL_ITEM_BYTES = 32,
    SMALL_ITEMS_FIRST = 4,  /* room for that many small items comes at once */
    QUADRATIC_MAP_MAX = 16, /* up to here comparing all pairs beats sorting */
};

static_assert(sizeof(struct cay_pb_field) == 40, "field tables are meant to stay compact");

const struct cay_pb_field *cay_pb_field_by_number(const struct cay_pb_message *desc,
                                                  uint32_t number)
{
    if (number - 1 < desc->dense_count)
        return &desc->fields[number - 1];
    size_t low = desc->dense_count;
    size_t high = desc->field_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (desc->fields[middle].number == number)
            return &desc->fields[middle];
        if (desc->fields[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const struct cay_pb_method *cay_pb_method_by_path(const struct cay_pb_method *methods, size_t count,
                                                  struct cay_str path)
{
    for (size_t i = 0; i < count; i++) {
        if (methods[i].path_len == path.len && memcmp(methods[i].path, path.ptr, path.len) == 0)
            return &methods[i];
    }
    return NULL;
}

static const struct cay_pb_field *field_by_name(const struct cay_pb_message *desc,
                                                struct cay_str name)
{
    for (size_t i = 0; i < desc->field_count; i++) {
        if (cay_str_equal(name, (struct cay_str){desc->fields[i].name, desc->fields[i].name_len}))
            return &desc->fields[i];
    }
    return NULL;
}

struct cay_str cay_pb_text_at(const struct cay_pb_message *desc, const void *message,
                              const char *path)
{
    struct cay_str rest = cay_str(path);
    struct cay_str name;
    while (message && cay_str_split(&rest, '.', &name)) {
        const struct cay_pb_field *field = field_by_name(desc, name);
        const char *at = (const char *)message + (field ? field->offset : 0);
        if (!field ||
            (field->label == CAY_PB_ONEOF &&
             CAY_PB_LOAD(uint32_t, (const char *)message + field->presence) != field->number))
            break;
        if (field->type == CAY_PB_STRING)
            return rest.len ? (struct cay_str){} : CAY_PB_LOAD(struct cay_str, at);
        message = field->type == CAY_PB_MESSAGE ? CAY_PB_LOAD(const void *, at) : NULL;
        desc = field->message;
    }
    return (struct cay_str){};
}

const char *cay_pb_enum_name(const struct cay_pb_enum *enumeration, int32_t number)
{
    if (number >= 0 && number < enumeration->dense_count)
        return enumeration->values[number].name;
    for (size_t i = enumeration->dense_count; i < enumeration->value_count; i++) {
        if (enumeration->values[i].number == number)
            return enumeration->values[i].name;
    }
    return NULL;
}

bool cay_pb_enum_number(const struct cay_pb_enum *enumeration, struct cay_str name,
                        int32_t *out_number)
{
    for (size_t i = 0; i < enumeration->value_count; i++) {
        const struct cay_pb_enum_value *value = &enumeration->values[i];
        if (value->name_len == name.len && memcmp(value->name, name.ptr, name.len) == 0) {
            *out_number = value->number;
            return true;
        }
    }
    return false;
}

void cay_pb_set_present(void *message, const struct cay_pb_field *field)
{
    if (field->label == CAY_PB_OPTIONAL)
        CAY_PB_STORE(bool, (char *)message + field->presence, true);
    else if (field->label == CAY_PB_ONEOF)
        CAY_PB_STORE(uint32_t, (char *)message + field->presence, field->number);
}

static size_t list_capacity(size_t count, size_t item_size)
{
    if (!count)
        return 0;
    size_t capacity = item_size <= SMALL_ITEM_BYTES ? SMALL_ITEMS_FIRST : 1;
    while (capacity < count && capacity <= SIZE_MAX / 2)
        capacity *= 2;
    return capacity;
}

void *cay_pb_list_grow(struct cay_pb_list *list, size_t item_size, size_t extra,
                       struct cay_arena *arena)
{
    size_t need = 0;
    if (__builtin_add_overflow(list->count, extra, &need))
        return NULL;
    if (need > list_capacity(list->count, item_size)) {
        void *items = cay_arena_array(arena, list_capacity(need, item_size), item_size);
        if (!items)
            return NULL;
        if (list->count)
            memcpy(items, list->items, list->count * item_size);
        list->items = items;
    }
    return (char *)list->items + list->count * item_size;
}

struct map_order {
    const struct cay_pb_field *key;
    const char *items;
    size_t item_size;
};

/* Any order will do as long as equal keys meet. */
static int compare_keys(const struct map_order *order, size_t a, size_t b)
{
    const char *left = order->items + a * order->item_size + order->key->offset;
    const char *right = order->items + b * order->item_size + order->key->offset;
    if (order->key->type != CAY_PB_STRING)
        return memcmp(left, right, cay_pb_scalar_size(order->key->type));
    struct cay_str x = CAY_PB_LOAD(struct cay_str, left);
    struct cay_str y = CAY_PB_LOAD(struct cay_str, right);
    if (x.len != y.len)
        return x.len < y.len ? -1 : 1;
    return x.len ? memcmp(x.ptr, y.ptr, x.len) : 0;
}

static int compare_places(const void *a, const void *b, void *order)
{
    size_t x = *(const size_t *)a;
    size_t y = *(const size_t *)b;
    int by_key = compare_keys(order, x, y);
    return by_key ? by_key : x < y ? -1 : x > y;
}

/* Marks in `doomed` every entry that a later one with the same key replaces. */
static int mark_replaced(struct map_order *order, size_t count, bool *doomed)
{
    if (count <= QUADRATIC_MAP_MAX) {
        for (size_t i = 0; i < count; i++) {
            for (size_t j = i + 1; j < count && !doomed[i]; j++)
                doomed[i] = compare_keys(order, i, j) == 0;
        }
        return 0;
    }
    cay_autofree size_t *places = calloc(count, sizeof(*places));
    if (!places)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        places[i] = i;
    qsort_r(places, count, sizeof(*places), compare_places, order);
    for (size_t i = 0; i + 1 < count; i++)
        doomed[places[i]] = compare_keys(order, places[i], places[i + 1]) == 0;
    return 0;
}

int cay_pb_map_unique(const struct cay_pb_message *entry, struct cay_pb_list *map)
{
    if (map->count < 2)
        return 0;
    size_t size = entry->size_bytes;
    struct map_order order = {&entry->fields[0], map->items, size};
    bool small[QUADRATIC_MAP_MAX] = {};
    cay_autofree bool *large = map->count > CAY_COUNT(small) ? calloc(map->count, 1) : NULL;
    bool *doomed = map->count > CAY_COUNT(small) ? large : small;
    if (!doomed || mark_replaced(&order, map->count, doomed) < 0)
        return -ENOMEM;
    size_t kept = 0;
    char *items = map->items;
    for (size_t i = 0; i < map->count; i++) {
        if (doomed[i])
            continue;
        if (kept != i)
            memcpy(items + kept * size, items + i * size, size);
        kept++;
    }
    map->count = kept;
    return 0;
}
