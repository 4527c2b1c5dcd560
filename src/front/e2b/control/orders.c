/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/control/orders.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/id.h"
#include "front/e2b/control/template.h"

enum {
    KEPT_MS = 60 * 60 * 1000,
    ORDER_BYTES_MAX = 64 * 1024,
};

static void drop(struct cay_e2b_order *order)
{
    cay_list_remove(&order->in_door);
    cay_arena_finish(&order->arena);
    free(order);
}

/* What is too old; the oldest, when there are too many. */
static void make_room(struct cay_rest_request *request)
{
    uint64_t now_ms = cay_loop_now_ms(request->loop);
    size_t own = 0;
    size_t all = 0;
    cay_list_for_each (struct cay_e2b_order, order, &cay_e2b_visit(request)->e2b->orders, in_door) {
        if (now_ms - order->made_ms > KEPT_MS) {
            drop(order);
            continue;
        }
        all++;
        own += strcmp(order->owner, request->caller.owner) == 0;
    }
    cay_list_for_each (struct cay_e2b_order, order, &cay_e2b_visit(request)->e2b->orders, in_door) {
        bool is_own = strcmp(order->owner, request->caller.owner) == 0;
        if (all < CAY_E2B_ORDERS_IN_ALL && (!is_own || own < CAY_E2B_ORDERS_OF_OWNER))
            continue;
        drop(order);
        all--;
        own -= is_own;
    }
}

struct cay_e2b_order *cay_e2b_order_new(struct cay_rest_request *request, struct cay_str name,
                                        struct cay_pb_strs tags)
{
    make_room(request);
    struct cay_e2b_order *order = cay_new(struct cay_e2b_order);
    cay_arena_init(&order->arena, ORDER_BYTES_MAX);
    cay_id_make(order->id, sizeof(order->id), "t");
    snprintf(order->owner, sizeof(order->owner), "%s", request->caller.owner);
    order->name = cay_arena_str(&order->arena, name);
    order->tags.items = cay_arena_array(&order->arena, tags.count, sizeof(struct cay_str));
    for (size_t i = 0; order->tags.items && i < tags.count; i++)
        order->tags.items[order->tags.count++] = cay_arena_str(&order->arena, tags.items[i]);
    order->made_ms = cay_loop_now_ms(request->loop);
    cay_list_push_back(&cay_e2b_visit(request)->e2b->orders, &order->in_door);
    return order;
}

struct cay_e2b_order *cay_e2b_order_find(struct cay_rest_request *request, struct cay_str id,
                                         struct cay_str name)
{
    cay_list_for_each (struct cay_e2b_order, order, &cay_e2b_visit(request)->e2b->orders, in_door) {
        if (strcmp(order->owner, request->caller.owner) == 0 && cay_str_equal(order->name, name) &&
            (!id.len || cay_str_is(id, order->id)))
            return order;
    }
    return NULL;
}

struct cay_e2b_order *cay_e2b_order_of(struct cay_rest_request *request)
{
    return cay_e2b_order_find(request, request->params[1],
                              cay_e2b_template_name(request->params[0]));
}

void cay_e2b_orders_close(struct cay_e2b *door)
{
    cay_list_for_each (struct cay_e2b_order, order, &door->orders, in_door)
        drop(order);
}
