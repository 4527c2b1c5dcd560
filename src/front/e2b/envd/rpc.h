/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The RPC dialect inside a sandbox: Connect in JSON. A unary call answers its message or an error
 * with an HTTP status; a stream is always 200 and says in its last envelope how it ended.
 */

#include "base/json.h"
#include "front/e2b/visit.h"

/* Where in the body the one message stands; false when it does not stand there as a whole. */
[[nodiscard]] bool cay_e2b_rpc_payload(const struct cay_rest_request *request,
                                       struct cay_str *out_payload);

/* The one message of the request, the route's input. Answers and returns NULL when it is no such
 * message. */
[[nodiscard]] void *cay_e2b_rpc_read(struct cay_rest_request *request,
                                     const struct cay_pb_message *desc);

/* Whom the call is made as; empty: nobody said, the session's default. Answers and returns false
 * when the header is no name. */
[[nodiscard]] bool cay_e2b_rpc_user(struct cay_rest_request *request, struct cay_str *out_user);

/* How long the client waits for the call; 0: for ever. */
[[nodiscard]] uint64_t cay_e2b_rpc_timeout_ms(const struct cay_rest_request *request);

/* Errors: before the first message of a stream, or as its last. */
void cay_e2b_rpc_fail(struct cay_rest_request *request, enum cay_connect_code code,
                      const char *message);
void cay_e2b_rpc_error(struct cay_rest_request *request, const struct cay_error *err);

/* The answer of a unary call. */
void cay_e2b_rpc_reply(struct cay_rest_request *request, struct cay_str json);

/* One message of a stream: begin, write, send. False when the peer has enough for now. */
struct cay_e2b_envelope {
    struct cay_buf buf;
    struct cay_json_writer json;
    size_t at;
};
void cay_e2b_envelope_begin(struct cay_e2b_envelope *envelope);
bool cay_e2b_envelope_send(struct cay_rest_request *request, struct cay_e2b_envelope *envelope);

/* {"event":{NAME:{}}} and the like: a message without content under one or two keys. */
bool cay_e2b_rpc_send_empty(struct cay_rest_request *request, const char *outer, const char *inner);

/* The good end of a stream. */
void cay_e2b_rpc_end(struct cay_rest_request *request);

/* Breaks a stream off, as the end of a sandbox does: the client asks for its health then. */
void cay_e2b_rpc_cut(struct cay_rest_request *request);
