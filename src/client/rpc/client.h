/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A Connect client: calls the methods of the contract at one daemon, over HTTP/1.1 on a Unix
 * socket, TCP or TLS. cay/client.h has its public half; here are calls with the structs of the
 * contract's tables, which block until the call is over. Any number of threads may use one client:
 * each call has a connection of its own, which is kept for the next.
 *
 * A refusal of the daemon comes back as the error the daemon made: same reason, same sentence. What
 * went wrong on the way (nobody listens, the connection broke) has the reason `unavailable` and
 * says what to do.
 *
 * Order: open -> (set_timeout | call | call_stream | call_upload | call_duplex)* ->
 * close.
 */

#include "base/arena.h"
#include "base/error.h"
#include "cay/client.h"
#include "wire/pb/pb.h"

#define CAY_CLIENT_URL_DEFAULT "unix:/run/cay/cayd.sock"

/* The daemon's own "deadline exceeded" is better than ours: it gets a moment to arrive, which
 * include/cay/client.h tells of. */
enum { CAY_CLIENT_GRACE_MS = 500 };

void cay_client_cleanup(struct cay_client **client); /* for cay_auto */

/* The daemon is on this machine, as far as its address says. */
[[nodiscard]] bool cay_client_is_local(const struct cay_client *client);

/* The same client for somebody else, who closes it too. */
struct cay_client *cay_client_ref(struct cay_client *client);

/* Of calls that follow and name none; 0: none. Not while other threads call. */
void cay_client_set_timeout(struct cay_client *client, int64_t timeout_ms);

/* Can be read once it was fired; -1 for NULL. */
[[nodiscard]] int cay_cancel_fd(const struct cay_cancel *cancel);
[[nodiscard]] bool cay_cancel_is_fired(const struct cay_cancel *cancel); /* accepts NULL */

/* A unary method. Fills the struct of method->output; what it points to lives in the arena. */
[[nodiscard]] bool cay_client_call(struct cay_client *client, const struct cay_pb_method *method,
                                   const void *request, struct cay_arena *arena, void *out_response,
                                   struct cay_error *err);

/* The same with options of this call's own, which may be NULL. */
[[nodiscard]] bool cay_client_call_with(struct cay_client *client,
                                        const struct cay_call_options *options,
                                        const struct cay_pb_method *method, const void *request,
                                        struct cay_arena *arena, void *out_response,
                                        struct cay_error *err);

/* Gets one message of a streamed answer, valid until it returns. False with *err filled ends the
 * call, which then fails with that error. */
typedef bool cay_client_receiver(void *state, const void *message, struct cay_error *err);

/* A server-streaming method. True once the daemon has said that all went well. */
[[nodiscard]] bool cay_client_call_stream(struct cay_client *client,
                                          const struct cay_pb_method *method, const void *request,
                                          cay_client_receiver *receive, void *state,
                                          struct cay_error *err);

[[nodiscard]] bool cay_client_call_stream_with(struct cay_client *client,
                                               const struct cay_call_options *options,
                                               const struct cay_pb_method *method,
                                               const void *request, cay_client_receiver *receive,
                                               void *state, struct cay_error *err);

/* Gives the next message, made in `arena` (emptied before each call) or elsewhere; NULL when there
 * are no more. False with *err filled ends the call. Not called any more once the daemon has
 * answered. */
typedef bool cay_client_producer(void *state, struct cay_arena *arena, const void **out_message,
                                 struct cay_error *err);

/* A client-streaming method. */
[[nodiscard]] bool cay_client_call_upload(struct cay_client *client,
                                          const struct cay_pb_method *method,
                                          cay_client_producer *produce, void *state,
                                          struct cay_arena *arena, void *out_response,
                                          struct cay_error *err);

/* A call in which both sides stream: what is produced comes from `fd`, what is received goes there,
 * and the call waits for it as it waits for the daemon. `fd` does not block and stays the caller's.
 * It has no timeout of its own. */
struct cay_client_duplex {
    void *state; /* of the functions */
    int fd;
    cay_client_producer *produce; /* no message with is_waiting or is_held is not the end */
    cay_client_receiver *receive; /* may set is_full; it is not called again before that is unset */
    bool (*flush)(void *state, struct cay_error *err); /* fd may take more: may unset is_full */
    bool is_waiting; /* nothing to say before fd can be read; unset when it can be */
    bool is_held;    /* nothing to say before something was received; unset by `receive` */
    bool is_full;    /* not all that was received is written to fd */
};

/* True once the daemon has said that all went well, and nothing is left to flush. */
[[nodiscard]] bool cay_client_call_duplex(struct cay_client *client,
                                          const struct cay_pb_method *method,
                                          struct cay_client_duplex *duplex, struct cay_error *err);
