/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <sys/random.h>

#include "egress/conn.h"

/*
 * Somebody connects to a name that no rule decides: the daemon is asked, and who connects waits.
 * There is one question about a name and port, however many wait. It is over when it is answered,
 * when the rules decide it after all, or when its time is; not when nobody waits any more: then
 * somebody may still answer for the next time, and whoever comes and goes asks only once.
 */

struct egress_ask {
    uint32_t id; /* 0: a free place */
    uint16_t port;
    char name[CAY_NAME_SIZE];
    uint64_t until_ms;
    uint32_t count;      /* connections that wait */
    uint32_t told_count; /* to this daemon */
    bool is_told;
    bool is_over; /* and the daemon does not know it */
};

static struct egress_ask *find(struct egress_asks *asks, uint32_t id)
{
    for (size_t i = 0; asks->items && i < CAY_EGRESS_ASKS_MAX; i++) {
        if (asks->items[i].id == id && !asks->items[i].is_over)
            return &asks->items[i];
    }
    return NULL;
}

static void tell(struct egress *egress, struct egress_ask *ask)
{
    uint64_t left_ms = ask->until_ms > egress->now_ms ? ask->until_ms - egress->now_ms : 1;
    const struct cay_egress_frame frame = {
        .kind = CAY_EGRESS_ASK,
        .ask = {.id = ask->id,
                .left_ms = ask->is_over ? 0 : (uint32_t)left_ms,
                .count = ask->count,
                .port = ask->port,
                .name = cay_str(ask->name)},
    };
    if (!egress_send(egress, &frame, NULL, 0))
        return;
    ask->is_told = true;
    ask->told_count = ask->count;
    if (ask->is_over)
        ask->id = 0;
}

static void end(struct egress *egress, struct egress_ask *ask)
{
    bool is_known = ask->is_told && egress->control.fd >= 0;
    ask->is_over = true;
    ask->count = 0;
    if (is_known)
        tell(egress, ask);
    else
        ask->id = 0;
}

static struct egress_ask *make(struct egress *egress, const struct egress_conn *conn)
{
    struct egress_asks *asks = &egress->asks;
    uint32_t id = 0;
    if (!asks->items)
        asks->items = cay_alloc(CAY_EGRESS_ASKS_MAX * sizeof(*asks->items));
    /* One of another helper's must not be answered for it. */
    if (getrandom(&id, sizeof(id), 0) != sizeof(id) || !id || find(asks, id))
        return NULL;
    for (size_t i = 0; i < CAY_EGRESS_ASKS_MAX; i++) {
        struct egress_ask *ask = &asks->items[i];
        if (ask->id)
            continue;
        *ask = (struct egress_ask){
            .id = id, .port = conn->port, .until_ms = egress->now_ms + asks->limit_ms};
        memcpy(ask->name, conn->name, sizeof(ask->name));
        return ask;
    }
    return NULL;
}

bool egress_ask(struct egress_conn *conn)
{
    struct egress *egress = conn->egress;
    struct egress_asks *asks = &egress->asks;
    struct egress_ask *ask = NULL;
    for (size_t i = 0; asks->items && i < CAY_EGRESS_ASKS_MAX && !ask; i++) {
        struct egress_ask *one = &asks->items[i];
        if (one->id && !one->is_over && one->port == conn->port &&
            strcmp(one->name, conn->name) == 0)
            ask = one;
    }
    if (asks->held_count == EGRESS_HELD_MAX)
        return false;
    ask = ask ? ask : make(egress, conn);
    if (!ask)
        return false;
    conn->phase = EGRESS_ASKS;
    conn->ask_id = ask->id;
    conn->deadline_ms = ask->until_ms;
    ask->count++;
    asks->held_count++;
    if (!ask->is_told)
        tell(egress, ask);
    return true;
}

void egress_ask_leave(struct egress_conn *conn)
{
    struct egress_asks *asks = &conn->egress->asks;
    if (!conn->ask_id)
        return;
    struct egress_ask *ask = find(asks, conn->ask_id);
    conn->ask_id = 0;
    asks->held_count--;
    if (ask)
        ask->count--;
}

void egress_asks_answer(struct egress *egress, uint32_t id, bool is_allowed)
{
    struct egress_ask *ask = find(&egress->asks, id);
    if (!ask)
        return;
    cay_list_for_each (struct egress_conn, conn, &egress->conns, in_list) {
        if (conn->ask_id != id)
            continue;
        if (!is_allowed) {
            egress_conn_end(conn, CAY_EGRESS_REFUSED, CAY_EGRESS_REJECTED);
            continue;
        }
        conn->is_let_through = true;
        egress_conn_admit(conn);
    }
    ask->id = 0;
}

void egress_asks_judge(struct egress *egress, uint32_t limit_ms)
{
    struct egress_asks *asks = &egress->asks;
    asks->limit_ms = limit_ms;
    for (size_t i = 0; asks->items && i < CAY_EGRESS_ASKS_MAX; i++) {
        struct egress_ask *ask = &asks->items[i];
        struct cay_decision decision = {};
        if (!ask->id || ask->is_over)
            continue;
        if (egress->policy)
            cay_policy_decide_name(egress->policy, cay_str(ask->name), ask->port, &decision);
        if (decision.verdict != CAY_VERDICT_ASKED)
            end(egress, ask);
    }
}

void egress_asks_tick(struct egress *egress)
{
    struct egress_asks *asks = &egress->asks;
    for (size_t i = 0; asks->items && i < CAY_EGRESS_ASKS_MAX; i++) {
        struct egress_ask *ask = &asks->items[i];
        bool is_due = !ask->is_over && ask->until_ms <= egress->now_ms;
        if (ask->id && (is_due || (ask->is_over && egress->control.fd < 0)))
            end(egress, ask);
        else if (ask->id && (!ask->is_told || ask->is_over || ask->told_count != ask->count))
            tell(egress, ask);
    }
}

void egress_asks_repeat(struct egress *egress)
{
    for (size_t i = 0; egress->asks.items && i < CAY_EGRESS_ASKS_MAX; i++) {
        struct egress_ask *ask = &egress->asks.items[i];
        ask->is_told = false;
        if (ask->is_over)
            ask->id = 0;
    }
}

bool egress_asks_wait(const struct egress *egress)
{
    for (size_t i = 0; egress->asks.items && i < CAY_EGRESS_ASKS_MAX; i++) {
        if (egress->asks.items[i].id)
            return true;
    }
    return false;
}

void egress_asks_finish(struct egress_asks *asks)
{
    free(cay_take_ptr(asks->items));
}
