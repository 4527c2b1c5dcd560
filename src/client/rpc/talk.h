/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One call as bytes, for who does the waiting itself, on a loop: what is to be sent, what came, and
 * what it means. Both directions flow at once, each at its own pace; nothing is held beyond one
 * message and the bytes of one read.
 *
 * Order: init -> begin -> (give* , feed -> next*)* -> finish. Bytes go to a connection of the
 * call's own.
 */

#include "client/rpc/transfer.h"

struct cay_talk {
    struct cay_transfer transfer;
    struct cay_answer answer;
    struct cay_buf body; /* of a good answer, not looked at yet */
    size_t body_read;
    struct cay_envelope_reader reader;
    struct cay_arena arena; /* of the message at hand */
    bool has_hung_up;
    bool has_response;
};

enum cay_talk_news {
    CAY_TALK_NOTHING = 0, /* there is more to come: feed */
    CAY_TALK_MESSAGE,
    CAY_TALK_END,    /* all went well; a call without a stream of answers has had its one message */
    CAY_TALK_FAILED, /* *err says why: as the daemon said it, or what went wrong on the way */
};

/* The client, the method and the headers (lines, each with its end) are borrowed. */
void cay_talk_init(struct cay_talk *talk, struct cay_client *client,
                   const struct cay_pb_method *method, struct cay_str headers);
void cay_talk_finish(struct cay_talk *talk);

/* Appends the head, and the request, which is NULL when the client streams. */
[[nodiscard]] bool cay_talk_begin(struct cay_talk *talk, const void *request, struct cay_buf *out,
                                  struct cay_error *err);
/* Appends one message of the client's stream, or its end: NULL. */
[[nodiscard]] bool cay_talk_give(struct cay_talk *talk, const void *message, struct cay_buf *out,
                                 struct cay_error *err);

/* What came. All news are to be taken before more is fed. */
[[nodiscard]] bool cay_talk_feed(struct cay_talk *talk, struct cay_str bytes,
                                 struct cay_error *err);
/* Nothing more will come. */
void cay_talk_hang_up(struct cay_talk *talk);

/* A message lives in `arena`, or, where answers stream, until the next call of this. */
[[nodiscard]] enum cay_talk_news cay_talk_next(struct cay_talk *talk, struct cay_arena *arena,
                                               const void **out_message, struct cay_error *err);
