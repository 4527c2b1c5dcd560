/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A call under way on a connection (cay/client.h has the public side): a talk, a line, a deadline,
 * and what may be tried again. With messages of the contract's tables, for client.c.
 *
 * Order: start -> send(NULL at the end of a client's stream) -> (next | wait)* -> cay_flow_close.
 */

#include "client/rpc/client.h"

/* `options` may be NULL. */
[[nodiscard]] bool cay_flow_start(struct cay_client *client, const struct cay_pb_method *method,
                                  const struct cay_call_options *options,
                                  struct cay_flow **out_flow, struct cay_error *err);

/* Before anything is sent; it is CAY_CODEC_PROTO. */
void cay_flow_set_codec(struct cay_flow *flow, enum cay_codec codec);
[[nodiscard]] enum cay_codec cay_flow_codec(const struct cay_flow *flow);

/* As cay_flow_send, for a struct of the method's input. */
[[nodiscard]] bool cay_flow_send_message(struct cay_flow *flow, const void *message,
                                         struct cay_error *err);

/* Whoever steps does so to wait, and for nothing else: a step may wait by itself. */
void cay_flow_set_patient(struct cay_flow *flow, bool is_patient);

/* As cay_flow_step; decodes into the arena. */
[[nodiscard]] enum cay_flow_news cay_flow_next_message(struct cay_flow *flow,
                                                       struct cay_arena *arena,
                                                       const void **out_message,
                                                       struct cay_error *err);

/* Sends without reading, for who can take nothing at the moment. */
void cay_flow_push(struct cay_flow *flow);

/* Until there may be something to do: at the flow, or at another descriptor (-1: none). */
void cay_flow_wait(struct cay_flow *flow, bool reads, int other_fd, short other_events,
                   short *out_other_ready);
