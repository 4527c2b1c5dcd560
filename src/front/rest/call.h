/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Errands (api/errand.h) that are made for a request. A call belongs to its request and is freed
 * when its verb has answered, whether or not anybody waits for the answer.
 *
 *     struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_SANDBOX_SERVICE_GET_SESSION);
 *     struct cay_v1_get_session_request *ask = cay_rest_call_message(call);
 *     ask->session_id = request->params[0];
 *     cay_rest_call_start(call, got_session);
 *
 * The verb may answer inside cay_rest_call_start. Nothing of a call is heard once its request is
 * closed.
 */

#include "api/errand.h"
#include "front/rest/request.h"

struct cay_rest_call;

/* The answer, or `err`; both are gone when this returns. A verb that streams answers has no
 * response at its good end. */
typedef void cay_rest_done_fn(struct cay_rest_request *request, struct cay_rest_call *call,
                              const void *response, const struct cay_error *err);

struct cay_rest_call {
    struct cay_errand errand; /* first */
    struct cay_rest_request *request;
    struct cay_list_node in_request;
    cay_rest_done_fn *done;
    void *state; /* the handler's */
    /* Of verbs that stream answers: one message, gone when this returns. False: stop for now, until
     * cay_rest_call_room. */
    bool (*on_message)(struct cay_rest_request *request, struct cay_rest_call *call,
                       const void *message);
    /* Of verbs that read a stream: wants the next one, by cay_rest_call_give. */
    void (*on_want)(struct cay_rest_request *request, struct cay_rest_call *call);
};

/* `method` is an index of the contract's (api/cay_v1.h). */
[[nodiscard]] struct cay_rest_call *cay_rest_call_new(struct cay_rest_request *request,
                                                      unsigned method);
/* Its request, zeroed, to be filled before the start; not of verbs that read a stream. */
[[nodiscard]] void *cay_rest_call_message(struct cay_rest_call *call);
void cay_rest_call_start(struct cay_rest_call *call, cay_rest_done_fn *done);

/* There is room for answers again. */
void cay_rest_call_room(struct cay_rest_call *call);
/* The next message of a stream, NULL at its end; only when it is wanted. */
void cay_rest_call_give(struct cay_rest_call *call, const void *message);

/* The request is not interested any more: tells the verb, hears nothing. */
void cay_rest_call_cancel(struct cay_rest_call *call);
void cay_rest_calls_cancel(struct cay_rest_request *request);
/* The one that the answer waits for, or that streams it, fails with `err`, whatever it is at. */
void cay_rest_calls_cut(struct cay_rest_request *request, const struct cay_error *err);
