/* SPDX-License-Identifier: Apache-2.0 */
#include "host/live/settling.h"

static void finish(struct cay_settle *settle)
{
    cay_list_remove(&settle->in_settling);
    settle->done(settle);
}

static void on_timer(struct cay_timer *timer)
{
    struct cay_settling *settling = CAY_CONTAINER_OF(timer, struct cay_settling, timer);
    uint64_t now_ms = cay_loop_now_ms(settling->loop);
    struct cay_list due;
    uint64_t next_ms = UINT64_MAX;
    cay_list_init(&due);
    cay_list_for_each (struct cay_settle, settle, &settling->waits, in_settling) {
        if (settle->is_answered || settle->deadline_ms <= now_ms) {
            cay_list_remove(&settle->in_settling);
            cay_list_push_back(&due, &settle->in_settling);
        } else {
            next_ms = CAY_MIN(next_ms, settle->deadline_ms);
        }
    }
    if (next_ms != UINT64_MAX)
        cay_timer_start(&settling->timer, next_ms - now_ms, 0);
    /* Whoever is called may close it all. */
    for (struct cay_list_node *node; (node = cay_list_first(&due));)
        finish(CAY_CONTAINER_OF(node, struct cay_settle, in_settling));
}

void cay_settling_open(struct cay_settling *settling, struct cay_loop *loop)
{
    settling->loop = loop;
    cay_list_init(&settling->waits);
    cay_timer_open(&settling->timer, loop, on_timer);
}

void cay_settling_close(struct cay_settling *settling)
{
    cay_timer_close(&settling->timer);
    for (struct cay_list_node *node; (node = cay_list_first(&settling->waits));)
        finish(CAY_CONTAINER_OF(node, struct cay_settle, in_settling));
}

void cay_settling_add(struct cay_settling *settling, struct cay_settle *settle, bool is_for_rules,
                      uint64_t serial, void (*done)(struct cay_settle *settle))
{
    settle->done = done;
    settle->serial = serial;
    settle->is_for_rules = is_for_rules;
    settle->is_answered = false;
    settle->deadline_ms = cay_loop_now_ms(settling->loop) + CAY_SETTLING_MS;
    if (cay_list_empty(&settling->waits))
        cay_timer_start(&settling->timer, CAY_SETTLING_MS, 0);
    cay_list_push_back(&settling->waits, &settle->in_settling);
}

static void answer(struct cay_settling *settling, struct cay_settle *settle)
{
    settle->is_answered = true;
    cay_timer_start(&settling->timer, 0, 0);
}

void cay_settling_answer(struct cay_settling *settling, bool is_for_rules, uint64_t serial)
{
    cay_list_for_each (struct cay_settle, settle, &settling->waits, in_settling) {
        if (settle->is_for_rules == is_for_rules && settle->serial <= serial)
            answer(settling, settle);
    }
}

void cay_settling_give_up(struct cay_settling *settling)
{
    cay_list_for_each (struct cay_settle, settle, &settling->waits, in_settling)
        answer(settling, settle);
}
