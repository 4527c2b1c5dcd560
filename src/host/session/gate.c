/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/gate.h"

#include <assert.h>

void cay_gate_init(struct cay_gate *gate)
{
    *gate = (struct cay_gate){};
    cay_list_init(&gate->queue);
}

static bool may_pass(const struct cay_gate *gate, const struct cay_gate_ticket *ticket)
{
    return gate->inside == 0 || (!gate->is_alone && !ticket->is_alone);
}

static void pass(struct cay_gate *gate, struct cay_gate_ticket *ticket)
{
    gate->inside++;
    gate->is_alone = ticket->is_alone;
    ticket->passed(ticket);
}

void cay_gate_enter(struct cay_gate *gate, struct cay_gate_ticket *ticket, bool is_alone,
                    void (*passed)(struct cay_gate_ticket *ticket))
{
    *ticket = (struct cay_gate_ticket){.passed = passed, .is_alone = is_alone};
    if (cay_list_empty(&gate->queue) && may_pass(gate, ticket))
        pass(gate, ticket);
    else
        cay_list_push_back(&gate->queue, &ticket->in_queue);
}

static void let_in(struct cay_gate *gate)
{
    for (;;) {
        struct cay_gate_ticket *next =
            CAY_LIST_ITEM(cay_list_first(&gate->queue), struct cay_gate_ticket, in_queue);
        if (!next || !may_pass(gate, next))
            return;
        cay_list_remove(&next->in_queue);
        pass(gate, next);
    }
}

void cay_gate_leave(struct cay_gate *gate, struct cay_gate_ticket *ticket)
{
    assert(gate->inside > 0 && !cay_list_linked(&ticket->in_queue));
    gate->inside--;
    let_in(gate);
}

void cay_gate_quit(struct cay_gate *gate, struct cay_gate_ticket *ticket)
{
    assert(cay_list_linked(&ticket->in_queue));
    cay_list_remove(&ticket->in_queue);
    let_in(gate);
}
