/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An intrusive doubly linked list. The node is a member of the item, so linking allocates nothing
 * and an item leaves its list in constant time without knowing which list that is. The list owns
 * nothing: whoever owns the items removes them before they die.
 *
 *     struct item { struct cay_list_node in_queue; ... };
 *     cay_list_push_back(&queue, &item->in_queue);
 *     cay_list_for_each (struct item, item, &queue, in_queue)
 *         item_destroy(item);
 */

#include <assert.h>

#include "base/base.h"

/* Zeroed when in no list. */
struct cay_list_node {
    struct cay_list_node *prev;
    struct cay_list_node *next;
};

/* A ring through `head`, so neither end is a special case. Must not move in memory. */
struct cay_list {
    struct cay_list_node head;
};

static inline void cay_list_init(struct cay_list *list)
{
    list->head = (struct cay_list_node){&list->head, &list->head};
}

static inline bool cay_list_empty(const struct cay_list *list)
{
    return list->head.next == &list->head;
}

static inline bool cay_list_linked(const struct cay_list_node *node)
{
    return node->next != NULL;
}

static inline void cay_list_insert_after(struct cay_list_node *place, struct cay_list_node *node)
{
    assert(!cay_list_linked(node));
    *node = (struct cay_list_node){.prev = place, .next = place->next};
    place->next->prev = node;
    place->next = node;
}

static inline void cay_list_push_back(struct cay_list *list, struct cay_list_node *node)
{
    cay_list_insert_after(list->head.prev, node);
}

static inline void cay_list_push_front(struct cay_list *list, struct cay_list_node *node)
{
    cay_list_insert_after(&list->head, node);
}

/* Does nothing to a node that is in no list, so a destructor need not ask. */
static inline void cay_list_remove(struct cay_list_node *node)
{
    if (!cay_list_linked(node))
        return;
    node->prev->next = node->next;
    node->next->prev = node->prev;
    *node = (struct cay_list_node){};
}

/* NULL at the end. */
static inline struct cay_list_node *cay_list_next(const struct cay_list *list,
                                                  const struct cay_list_node *node)
{
    return node->next == &list->head ? NULL : node->next;
}

static inline struct cay_list_node *cay_list_first(const struct cay_list *list)
{
    return cay_list_next(list, &list->head);
}

static inline struct cay_list_node *cay_list_pop_front(struct cay_list *list)
{
    struct cay_list_node *node = cay_list_first(list);
    if (node)
        cay_list_remove(node);
    return node;
}

static inline struct cay_list_node *cay_list_prev(const struct cay_list *list,
                                                  const struct cay_list_node *node)
{
    return node->prev == &list->head ? NULL : node->prev;
}

/* The item around a node; NULL for NULL. */
#define CAY_LIST_ITEM(node, type, member)                               \
    ({                                                                  \
        struct cay_list_node *node_ = (node);                           \
        node_ ? CAY_CONTAINER_OF(node_, type, member) : (type *)(NULL); \
    })

/* Declares `item` and visits every one. The body may remove or free the item it is at, and no other
 * one. */
#define cay_list_for_each(type, item, list, member)                                                \
    for (type *item = CAY_LIST_ITEM(cay_list_first(list), type, member),                           \
              *item##_next =                                                                       \
                  item ? CAY_LIST_ITEM(cay_list_next(list, &item->member), type, member) : 0;      \
         item; item = item##_next,                                                                 \
              item##_next = item ? CAY_LIST_ITEM(cay_list_next(list, &item->member), type, member) \
                                 : 0)

/* The same from the last to the first; the body may not remove anything. */
#define cay_list_for_each_back(type, item, list, member)                                     \
    for (type *item = CAY_LIST_ITEM(cay_list_prev(list, &(list)->head), type, member); item; \
         item = CAY_LIST_ITEM(cay_list_prev(list, &item->member), type, member))
