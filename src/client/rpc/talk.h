/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One call as bytes: what is to be sent, what came, and what it means. It waits for nothing and
 * knows no socket. Both directions flow at once, each at its own pace; nothing is held beyond one
 * message and the bytes of one read. Messages are those of the contract's tables, or bytes that the
 * caller has encoded.
 *
 * Order: init -> begin -> (give* , feed -> next*)* -> finish. Bytes go to a connection of the
 * call's own.
 */

#include "client/rpc/answer.h"
#include "client/rpc/client.h"
#include "wire/rpc.h"

struct cay_talk {
    /* Set by init; the caller may change them before begin. */
    const struct cay_client *client;
    const struct cay_pb_method *method;
    struct cay_str headers; /* further lines of the head, each with its end */
    int64_t timeout_ms;     /* that the daemon is told of; 0: none */
    enum cay_rpc_codec codec;
    bool offers_gzip; /* messages of a stream may come packed */
    bool is_relayed;  /* through a proxy that wants to see the whole address */

    struct cay_answer answer; /* the rest is its own */
    size_t body_read;
    struct cay_envelope_reader reader;
    struct cay_buf unpacked;
    struct cay_arena arena; /* of the message at hand */
    bool has_hung_up;
    bool has_response;
    bool has_envelope; /* the reader's is complete, and was given out */
    bool is_over;
};

enum cay_talk_news {
    CAY_TALK_NOTHING = 0, /* there is more to come: feed */
    CAY_TALK_MESSAGE,
    CAY_TALK_END,    /* all went well; a call without a stream of answers has had its one message */
    CAY_TALK_FAILED, /* *err says why: as the daemon said it, or what went wrong on the way */
};

/* The client, the method and the headers are borrowed. */
void cay_talk_init(struct cay_talk *talk, const struct cay_client *client,
                   const struct cay_pb_method *method, struct cay_str headers);
void cay_talk_finish(struct cay_talk *talk);

/* Appends the head, and the request, which is NULL when the client streams. */
[[nodiscard]] bool cay_talk_begin(struct cay_talk *talk, const void *request, struct cay_buf *out,
                                  struct cay_error *err);
[[nodiscard]] bool cay_talk_begin_bytes(struct cay_talk *talk, struct cay_str request,
                                        struct cay_buf *out, struct cay_error *err);
/* Appends one message of the client's stream, or its end: NULL. */
[[nodiscard]] bool cay_talk_give(struct cay_talk *talk, const void *message, struct cay_buf *out,
                                 struct cay_error *err);
[[nodiscard]] bool cay_talk_give_bytes(struct cay_talk *talk, struct cay_str message,
                                       struct cay_buf *out, struct cay_error *err);
void cay_talk_give_end(struct cay_buf *out);

/* What came. All news are to be taken before more is fed. */
[[nodiscard]] bool cay_talk_feed(struct cay_talk *talk, struct cay_str bytes,
                                 struct cay_error *err);
/* Nothing more will come. */
void cay_talk_hang_up(struct cay_talk *talk);

/* A message lives in `arena`, or, where answers stream, until the next call of this. */
[[nodiscard]] enum cay_talk_news cay_talk_next(struct cay_talk *talk, struct cay_arena *arena,
                                               const void **out_message, struct cay_error *err);
/* As bytes, which live until the next call. */
[[nodiscard]] enum cay_talk_news
cay_talk_next_bytes(struct cay_talk *talk, struct cay_str *out_message, struct cay_error *err);

/* As bytes that begin and give take; `out` is to be finished, also when this fails. */
[[nodiscard]] bool cay_talk_encode(const struct cay_talk *talk, const void *message,
                                   struct cay_buf *out, struct cay_error *err);

/* Decodes one that came as bytes. */
[[nodiscard]] bool cay_talk_decode(const struct cay_talk *talk, struct cay_str bytes,
                                   struct cay_arena *arena, const void **out_message,
                                   struct cay_error *err);
