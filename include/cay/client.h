/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLIENT_H
#define CAY_CLIENT_H

/*
 * Talking to one cayd: any verb of the contract (proto/cay/v1), by its name. What most programs
 * want is in cay/env.h and cay/control.h, which stand on this.
 *
 * One call, which blocks:
 *
 *     struct cay_client *client;
 *     struct cay_text answer;
 *     if (cay_client_open(NULL, &client, &err) &&
 *         cay_client_ask(client, "GetSession", "{\"sessionId\":\"demo\"}", NULL, &answer, &err)) {
 *         puts(answer.data);
 *         cay_text_free(&answer);
 *     }
 *     cay_client_close(client);
 *
 * A *flow* is a call whose messages are sent and received one by one: streams in either direction
 * or both. It either blocks (cay_flow_receive) or is driven by the caller's own loop: poll
 * cay_flow_fd for cay_flow_events within cay_flow_timeout_ms, then cay_flow_step. One flow is used
 * by one thread at a time; to end it from another thread is what cay_cancel is for.
 *
 * A call that has a timeout returns half a second after it at the latest: the daemon's own word for
 * that gets so long to arrive. A cancel ends a call at once. Neither ends the look-up of a host's
 * name, which the system does.
 *
 * What needs an object or a place for a result and gets NULL fails with `invalid_argument`, and
 * what cannot fail does nothing.
 *
 * Order: client open -> (ask | flow open -> (send* , receive*)* -> close)* -> client close. A
 * client may be closed while calls use it: they go on, and it is released with the last of them.
 */

#include "cay/error.h"

CAY_API_BEGIN

struct cay_client;
struct cay_cancel;
struct cay_flow;

struct cay_client_options {
    size_t size;
    const char *url;     /* unix:PATH, http://HOST:PORT or https://HOST; NULL: the local daemon */
    const char *key;     /* API key; NULL: none, which a Unix socket does not need */
    const char *ca_file; /* PEM certificates to trust for https; NULL: those of the system */
    int64_t timeout_ms;  /* of calls that name none; 0: they may take for ever */
};
#define CAY_CLIENT_OPTIONS CAY_INIT(cay_client_options)

/* Connects when the first call needs it. `options` may be NULL. */
CAY_API bool cay_client_open(const struct cay_client_options *options,
                             struct cay_client **out_client, struct cay_error *err);
CAY_API void cay_client_close(struct cay_client *client); /* accepts NULL */

/* Ends calls from another thread, or from a handler of a signal: whoever waits with it returns at
 * once with the reason `canceled`, and so does every later call, until it is reset. A call that
 * takes back what it began does so first (cay/env.h says which, and for how long). */
CAY_API bool cay_cancel_create(struct cay_cancel **out_cancel, struct cay_error *err);
CAY_API void cay_cancel_fire(struct cay_cancel *cancel); /* safe in signal handlers */
CAY_API void cay_cancel_reset(struct cay_cancel *cancel);
CAY_API void cay_cancel_destroy(struct cay_cancel *cancel); /* nobody waits with it any more */

enum cay_codec {
    CAY_CODEC_JSON = 0,
    CAY_CODEC_PROTO = 1 /* binary Protocol Buffers */
};

/* How a call is made; NULL stands for all defaults. */
struct cay_call_options {
    size_t size;
    int64_t timeout_ms;        /* 0: the client's; negative: none; half a second may be added */
    struct cay_cancel *cancel; /* NULL: nobody ends it */
    int codec;                 /* enum cay_codec, of requests and answers */
};
#define CAY_CALL_OPTIONS CAY_INIT(cay_call_options)

/* Bytes of the library's, with a NUL behind them. */
struct cay_text {
    char *data;
    size_t len;
};
CAY_API void cay_text_free(struct cay_text *text);

/* One request, one answer. `verb` is a method of the contract: "GetSession", or
 * "cay.v1.SandboxService/GetSession". `request` is its message in JSON; NULL: an empty one.
 * `out_answer` may be NULL. An answer that is no message in JSON is an error. A connection that was
 * closed before the daemon can have read the request is replaced; what breaks later is tried again
 * only where the verb is safe to repeat. */
CAY_API bool cay_client_ask(struct cay_client *client, const char *verb, const char *request,
                            const struct cay_call_options *options, struct cay_text *out_answer,
                            struct cay_error *err);

/* The same with bytes of any length, in the codec of the options. */
CAY_API bool cay_client_ask_bytes(struct cay_client *client, const char *verb, const void *request,
                                  size_t request_len, const struct cay_call_options *options,
                                  struct cay_text *out_answer, struct cay_error *err);

/* Any verb, as a flow. A verb whose client does not stream takes exactly one message; one whose
 * daemon does not stream gives exactly one. */
CAY_API bool cay_flow_open(struct cay_client *client, const char *verb,
                           const struct cay_call_options *options, struct cay_flow **out_flow,
                           struct cay_error *err);
/* Ends the call if it is under way. Accepts NULL. */
CAY_API void cay_flow_close(struct cay_flow *flow);

/* Queues a message; NULL ends the client's side of the stream. It never blocks. What is queued
 * beyond one message waits in memory: ask cay_flow_is_full before large ones. */
CAY_API bool cay_flow_send(struct cay_flow *flow, const void *message, size_t len,
                           struct cay_error *err);
CAY_API bool cay_flow_is_full(const struct cay_flow *flow);

enum cay_flow_news {
    CAY_FLOW_NOTHING = 0, /* there is none yet: poll and step (never from cay_flow_receive) */
    CAY_FLOW_MESSAGE = 1, /* valid until the flow is used again */
    CAY_FLOW_END = 2,     /* all went well */
    CAY_FLOW_FAILED = 3   /* *err says why */
};

/* The next message; blocks until there is one, or the end. */
CAY_API enum cay_flow_news cay_flow_receive(struct cay_flow *flow, const char **out_message,
                                            size_t *out_len, struct cay_error *err);

/* For a loop of the caller's. The descriptor may change with every step: ask again. */
CAY_API int cay_flow_fd(const struct cay_flow *flow);
CAY_API short cay_flow_events(const struct cay_flow *flow);   /* POLLIN, POLLOUT */
CAY_API int cay_flow_timeout_ms(const struct cay_flow *flow); /* for poll; -1: none */
/* Does what can be done without waiting, and gives the next message if it is there. While it gives
 * messages there may be more: call it until CAY_FLOW_NOTHING. Of a peer that never pauses it reads
 * 1 MiB at a time, and the next timeout is 0. */
CAY_API enum cay_flow_news cay_flow_step(struct cay_flow *flow, const char **out_message,
                                         size_t *out_len, struct cay_error *err);

CAY_API_END

#endif
