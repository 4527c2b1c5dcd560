/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One call of a verb: what the caller wants, who it is, how long it may take, and the way back. A
 * door makes it, a service answers it. Everything made for the answer lives in call->arena.
 *
 * A verb answers exactly once, now or later, with cay_call_done or cay_call_fail. A verb that
 * streams answers sends messages before that; a verb that reads a stream gets on_message per
 * message. Nothing is queued without a bound: cay_call_send says when to stop and on_room when to
 * go on; the next message comes only after cay_call_next.
 *
 * All of it happens on the loop thread.
 */

#include "base/arena.h"
#include "base/error.h"
#include "base/id.h"
#include "base/list.h"
#include "wire/pb/pb.h"

enum cay_role {
    CAY_ROLE_USER = 1, /* sees what its owner owns */
    CAY_ROLE_ADMIN,    /* sees everything */
};

struct cay_caller {
    enum cay_role role;
    char owner[CAY_ID_SIZE];
    char key_id[40]; /* empty for a peer on the Unix socket */
    bool is_local;   /* came by the Unix socket: a process of this machine */
    bool is_host;    /* the host itself, for a verb made of others */
    bool is_door;    /* a door itself, for somebody who has shown nothing so far */
    /* Not empty: a token of one session was shown, and nothing else is there for its holder. */
    char session_id[CAY_ID_SIZE];
    bool may_vouch;   /* for others: what it says of them is believed */
    char voucher[40]; /* not empty: the key of who vouches for all of this */
};

struct cay_call;

/* A request's id as text, for logs and events. */
enum { CAY_REQUEST_ID_BYTES = 17 };
void cay_request_id(uint64_t id, char out[CAY_REQUEST_ID_BYTES]);

/* The door's half; see the functions below. */
struct cay_call_ops {
    void (*done)(struct cay_call *call, const void *response);
    void (*fail)(struct cay_call *call, const struct cay_error *err);
    bool (*send)(struct cay_call *call, const void *message);
    void (*next)(struct cay_call *call);
    /* The caller gets this error now; the verb is told by on_cancel, as when the caller left. NULL:
     * the caller is no client and goes with the daemon. */
    void (*cut)(struct cay_call *call, const struct cay_error *err);
    /* NULL: nothing waits. */
    size_t (*unsent)(const struct cay_call *call);
    /* One message that lasts as long as the call, or NULL: as `send`. Where it is there, `done`
     * takes the last message of a stream, too. */
    bool (*send_kept)(struct cay_call *call, const void *message);
};

struct cay_call {
    const struct cay_call_ops *ops;
    const struct cay_pb_method *method;
    struct cay_arena arena;
    struct cay_caller caller;
    uint64_t deadline_ms; /* of the loop's clock, 0 = none */
    uint64_t request_id;  /* as in the access log; 0: no request caused it */
    const void *request;  /* the decoded message; NULL when the client streams */
    bool is_kept;         /* the response lasts as long as the call */
    /* The caller is gone or out of time; the answer will be dropped. Workers may watch it
     * (base/stop.h). */
    bool is_cancelled;
    bool is_restarting;              /* and was told to come back: the daemon ends */
    struct cay_list_node in_service; /* the service's own; left when the verb answers */
    size_t *counted_in;              /* so is this: one less when the verb answers; NULL: nowhere */

    /* The verb's half: set by it before it returns. */
    void *state;
    /* The caller went away. The verb still ends with done or fail, which nobody will see. */
    void (*on_cancel)(struct cay_call *call);
    /* A client-streaming verb's next message, valid until cay_call_next; NULL when the client is
     * done. */
    void (*on_message)(struct cay_call *call, const void *message);
    /* There is room for cay_call_send again. */
    void (*on_room)(struct cay_call *call);
    /* The daemon ends: a verb that has a good answer for that gives it. NULL: the call is cut. */
    void (*on_restart)(struct cay_call *call);
};

/* The call may be freed inside: it must not be touched afterwards. A unary or client-streaming verb
 * gives its response; one that streams answers gives NULL. */
void cay_call_done(struct cay_call *call, const void *response);

/* The same for a response that may be large: what it points to lasts as long as the call (it is in
 * its arena, or constant), so that a door can leave the encoding to a worker. The struct itself is
 * copied. Of a verb that streams answers it is the last one. */
void cay_call_done_kept(struct cay_call *call, const void *response);
/* The same without that promise: cay_call_done, or the last message of a stream and its end. */
void cay_call_done_last(struct cay_call *call, const void *response);

void cay_call_fail(struct cay_call *call, const struct cay_error *err);

/* One message of a streamed answer, encoded before it returns. False when the peer has enough for
 * now: stop until on_room. A message that cannot be sent ends the call for the caller, and
 * on_cancel runs inside: a verb that answers there must not touch the call after a false. */
[[nodiscard]] bool cay_call_send(struct cay_call *call, const void *message);

/* The same for one that may be large: what it points to lasts as long as the call. */
[[nodiscard]] bool cay_call_send_kept(struct cay_call *call, const void *message);

/* At least so many bytes of what was sent by cay_call_send have not left the daemon; on_room says
 * when there are fewer. */
[[nodiscard]] size_t cay_call_unsent(const struct cay_call *call);

/* The verb is through with the current message (or has just set on_message) and wants the next. */
void cay_call_next(struct cay_call *call);
