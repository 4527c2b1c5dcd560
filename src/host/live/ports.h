/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The exposed ports of a session. They belong to it and last as long as its sandbox, or the process
 * they were exposed for. They are written down: the next daemon opens them where they were.
 */

#include "host/live/port_record.h"
#include "host/net/listening.h"
#include "host/net/port.h"
#include "host/session/session.h"

struct cay_exposed {
    struct cay_list_node in_session; /* oldest first */
    struct cay_session *session;
    struct cay_port *port;
    uint16_t number; /* inside */
    char id[CAY_PORT_ID_SIZE];
    struct cay_port_write *write; /* under way; nobody is told of it before */
    bool is_recorded;
    char process_id[CAY_PROCESS_ID_SIZE];
    struct cay_process_watcher watcher;
    int64_t created_ns;
    bool is_listening; /* as last seen */
    struct cay_list waiters;
    struct cay_listening *look; /* under way */
    struct cay_timer again;     /* the next look, while somebody waits */
};

/* Told what a look has found; embedded in whoever wants to know. */
struct cay_port_waiter {
    struct cay_list_node in_port;
    /* False: the port has been closed, and the waiter removed. May remove itself, and no other. */
    void (*looked)(struct cay_port_waiter *waiter, bool is_open);
    struct cay_exposed *exposed;
};

/* What can be said of a request without a session. */
[[nodiscard]] bool cay_port_request_check(const struct cay_v1_port_request *request,
                                          struct cay_error *err);

/* NULL when there is none. */
struct cay_exposed *cay_exposed_find(const struct cay_session *session, uint32_t number);

/* Somebody has begun to listen on this port, or has stopped; it need not be an exposed one. */
void cay_exposed_heard(struct cay_session *session, uint16_t number);

/* `process` may be NULL. Its sandbox runs. */
[[nodiscard]] bool cay_expose(struct cay_session *session, const struct cay_call *call,
                              const struct cay_v1_port_request *request,
                              struct cay_process *process, struct cay_exposed **out_exposed,
                              struct cay_error *err);

/* `why` is a word for the event. `done` hears when it is off the records; may be NULL. */
void cay_unexpose(struct cay_exposed *exposed, const struct cay_call *call, const char *why,
                  cay_port_written_fn *done, void *owner);
void cay_unexpose_all(struct cay_session *session, const char *why);
/* What others reach is closed, if the session's ports are private now. */
void cay_ports_hold_to_policy(struct cay_session *session);
/* At the end of the daemon: closed, and on the records for the next. */
void cay_ports_leave(struct cay_session *session);
/* At the start, when sandboxes and processes are taken over. */
[[nodiscard]] bool cay_ports_recover(struct cay_host *host, struct cay_error *err);

/* Looks whether somebody listens, again and again until the waiter is removed. */
void cay_exposed_wait(struct cay_exposed *exposed, struct cay_port_waiter *waiter,
                      void (*looked)(struct cay_port_waiter *waiter, bool is_open));
void cay_port_waiter_remove(struct cay_port_waiter *waiter);

/* What clients see, in the arena. */
void cay_exposed_message(const struct cay_exposed *exposed, struct cay_arena *arena,
                         struct cay_v1_exposed_port *out_message);
/* Those of a process, or (NULL) all. */
void cay_exposed_list(const struct cay_session *session, const char *process_id,
                      struct cay_arena *arena, struct cay_v1_exposed_port_array *out_list);

extern const struct cay_session_part cay_ports_part;
