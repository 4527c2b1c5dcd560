/* SPDX-License-Identifier: Apache-2.0 */
#include "host/event/shelf.h"

#include <assert.h>
#include <stdlib.h>

/* As if each had so many bytes more: many small ones are too many as well. */
enum { EVENT_WEIGHT = 1024 };

struct cay_shelf_share {
    char *owner;
    bool is_receipts;
    struct cay_list events; /* oldest first */
    size_t weight;
    uint64_t count; /* of all there were, */
    uint64_t lost_count;
    uint64_t lost; /* and the newest that was pushed out */
};

void cay_shelf_init(struct cay_shelf *shelf, size_t bytes_max)
{
    *shelf = (struct cay_shelf){.bytes_max = bytes_max};
    for (size_t i = 0; i < CAY_COUNT(shelf->shares); i++)
        cay_map_init(&shelf->shares[i]);
}

void cay_shelf_finish(struct cay_shelf *shelf)
{
    for (size_t i = 0; i < shelf->count; i++)
        free(shelf->events[i]);
    for (size_t i = 0; i < CAY_COUNT(shelf->shares); i++) {
        size_t cursor = 0;
        for (struct cay_shelf_share *share; (share = cay_map_next(&shelf->shares[i], &cursor));) {
            free(share->owner);
            free(share);
        }
        cay_map_finish(&shelf->shares[i]);
    }
    shelf->count = 0;
}

static struct cay_shelf_share *share_of(struct cay_shelf *shelf, struct cay_str owner,
                                        bool is_receipt)
{
    struct cay_map *shares = &shelf->shares[is_receipt];
    struct cay_shelf_share *share = cay_map_get(shares, owner);
    if (!share) {
        share = cay_new(struct cay_shelf_share);
        share->is_receipts = is_receipt;
        share->owner = cay_strndup(owner.len ? owner.ptr : "", owner.len);
        cay_list_init(&share->events);
        (void)cay_map_put(shares, cay_str(share->owner), share);
    }
    return share;
}

/* Place of the first that has this number or a higher one. */
static size_t place_of(const struct cay_shelf *shelf, uint64_t number)
{
    size_t low = 0;
    size_t high = shelf->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (shelf->events[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static size_t weight_of(const struct cay_shelf_event *event)
{
    return event->len + EVENT_WEIGHT;
}

/* False when there is nothing. */
static bool push_out(struct cay_shelf *shelf)
{
    struct cay_shelf_share *most = NULL;
    for (size_t i = 0; i < CAY_COUNT(shelf->shares); i++) {
        size_t cursor = 0;
        for (struct cay_shelf_share *share; (share = cay_map_next(&shelf->shares[i], &cursor));) {
            if (!most || share->weight > most->weight)
                most = share;
        }
    }
    struct cay_list_node *node = most ? cay_list_pop_front(&most->events) : NULL;
    if (!node)
        return false;
    struct cay_shelf_event *event = CAY_CONTAINER_OF(node, struct cay_shelf_event, in_share);
    size_t place = place_of(shelf, event->number);
    memmove(&shelf->events[place], &shelf->events[place + 1],
            (shelf->count - place - 1) * sizeof(shelf->events[0]));
    shelf->count--;
    shelf->bytes -= event->len;
    shelf->lost = CAY_MAX(shelf->lost, event->number);
    most->weight -= weight_of(event);
    most->lost = event->number;
    most->lost_count++;
    free(event);
    return true;
}

void cay_shelf_add(struct cay_shelf *shelf, uint64_t number, struct cay_str owner, bool is_receipt,
                   struct cay_str bytes)
{
    assert(!shelf->count || shelf->events[shelf->count - 1]->number < number);
    while ((shelf->count == CAY_SHELF_EVENTS_MAX || shelf->bytes + bytes.len > shelf->bytes_max) &&
           push_out(shelf))
        ;
    struct cay_shelf_share *share = share_of(shelf, owner, is_receipt);
    struct cay_shelf_event *event = cay_alloc(sizeof(*event) + bytes.len + 1);
    event->number = number;
    event->nth = ++share->count;
    event->share = share;
    event->len = bytes.len;
    memcpy(event->bytes, bytes.ptr, bytes.len);
    share->weight += weight_of(event);
    cay_list_push_back(&share->events, &event->in_share);
    shelf->events[shelf->count++] = event;
    shelf->bytes += bytes.len;
}

const struct cay_shelf_event *cay_shelf_from(const struct cay_shelf *shelf, uint64_t number)
{
    size_t place = place_of(shelf, number);
    return place < shelf->count ? shelf->events[place] : NULL;
}

struct cay_str cay_shelf_owner(const struct cay_shelf_event *event)
{
    return cay_str(event->share->owner);
}

bool cay_shelf_is_receipt(const struct cay_shelf_event *event)
{
    return event->share->is_receipts;
}

uint64_t cay_shelf_lost(const struct cay_shelf *shelf, struct cay_str owner, bool is_receipt)
{
    const struct cay_shelf_share *share =
        owner.ptr ? cay_map_get(&shelf->shares[is_receipt], owner) : NULL;
    if (!owner.ptr)
        return shelf->lost;
    return share ? share->lost : 0;
}

uint64_t cay_shelf_lost_count(const struct cay_shelf *shelf, struct cay_str owner, bool is_receipt)
{
    const struct cay_shelf_share *share = cay_map_get(&shelf->shares[is_receipt], owner);
    return share ? share->lost_count : 0;
}

uint64_t cay_shelf_missing(const struct cay_shelf *shelf, uint64_t from, uint64_t to)
{
    return from > to ? 0 : to - from + 1 - (place_of(shelf, to + 1) - place_of(shelf, from));
}

uint64_t cay_shelf_owner_count(const struct cay_shelf *shelf, struct cay_str owner, bool is_receipt)
{
    const struct cay_shelf_share *share = cay_map_get(&shelf->shares[is_receipt], owner);
    return share ? share->count : 0;
}
