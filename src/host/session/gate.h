/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who may touch a session's tree now. File tools and the start of commands pass together; a turn, a
 * rollback or a fork passes alone, in the order of arrival, and nobody overtakes one that waits.
 * Loop thread only; `passed` may be called inside enter or leave.
 */

#include "base/list.h"

struct cay_gate_ticket {
    struct cay_list_node in_queue;
    void (*passed)(struct cay_gate_ticket *ticket);
    bool is_alone;
};

struct cay_gate {
    struct cay_list queue;
    unsigned inside;
    bool is_alone; /* the one inside wants no company */
};

void cay_gate_init(struct cay_gate *gate);

void cay_gate_enter(struct cay_gate *gate, struct cay_gate_ticket *ticket, bool is_alone,
                    void (*passed)(struct cay_gate_ticket *ticket));
void cay_gate_leave(struct cay_gate *gate, struct cay_gate_ticket *ticket);
/* Instead of passing: waits no longer. */
void cay_gate_quit(struct cay_gate *gate, struct cay_gate_ticket *ticket);
