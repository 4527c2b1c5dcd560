/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One POST and its answer. Without TLS and without a proxy it is our own HTTP/1.1
 * (transfer_plain.c); for the rest there is libcurl (transfer_curl.c), which is loaded when it is
 * needed: with all that it needs itself it costs more than most calls. Room-private: client.h is
 * what callers use.
 */

#include "base/buf.h"
#include "base/secret.h"
#include "client/rpc/address.h"
#include "client/rpc/client.h"
#include "wire/http1.h"
#include "wire/rpc.h"

enum {
    CAY_TRANSFER_CONNECT_MS = 10'000,
    CAY_TRANSFER_KEEPALIVE_S = 30, /* a peer that vanished is noticed on a silent stream */
    /* The daemon's own "deadline exceeded" is better than ours: it gets a moment to arrive. */
    CAY_TRANSFER_GRACE_MS = 500,
};

struct cay_curl;

struct cay_client {
    int kept_fd;           /* the plain connection between two calls; -1: none */
    struct cay_curl *curl; /* NULL until it is needed */
    struct cay_address address;
    struct cay_secret key;
    char *ca_file;
    int64_t timeout_ms;
    const volatile sig_atomic_t *stop;
};

struct cay_transfer {
    struct cay_client *client;
    const struct cay_pb_method *method;
    void *state;            /* of source and sink */
    struct cay_str headers; /* further lines of the head, each with its end */

    /* The request's body: `body`, or what `source` appends whenever more is wanted. Appending
     * nothing ends it. */
    struct cay_str body;
    bool (*source)(struct cay_transfer *transfer, struct cay_buf *out, struct cay_error *err);

    /* Takes the bytes of a good answer as they come. */
    bool (*sink)(struct cay_transfer *transfer, struct cay_str bytes, struct cay_error *err);

    bool is_gzip; /* set by the transfer: messages of the stream may be packed */
    bool is_over; /* set by the sink: the answer is complete, whatever follows does not matter */

    /* The rest is the transfer's own. */
    struct cay_buf unsent;
    struct cay_buf refusal;
    struct cay_error *err;
    bool has_answer;
    bool has_failed;
};

/* True when the daemon answered with 200 and the sink took everything. With `other` both bodies
 * flow at once; NULL otherwise. */
[[nodiscard]] bool cay_transfer_run(struct cay_transfer *transfer, struct cay_client_duplex *other,
                                    struct cay_error *err);

/* The ways. True when the answer is complete, with any status; the sink has its body. */
[[nodiscard]] bool cay_transfer_run_plain(struct cay_transfer *transfer, int *out_status,
                                          char *out_type, size_t type_size, struct cay_error *err);
[[nodiscard]] bool cay_transfer_run_curl(struct cay_transfer *transfer, int *out_status,
                                         char *out_type, size_t type_size, struct cay_error *err);
[[nodiscard]] bool cay_transfer_run_duplex(struct cay_transfer *transfer,
                                           struct cay_client_duplex *other, int *out_status,
                                           char *out_type, size_t type_size, struct cay_error *err);
void cay_curl_close(struct cay_curl *curl); /* accepts NULL */

/* The answer, as it is read by those who speak HTTP themselves. */
struct cay_answer {
    struct cay_buf head;
    struct cay_http1_chunks chunks;
    uint64_t body_left;
    int status;
    char type[64];
    bool has_head;
    bool is_chunked;
    bool has_length;
    bool is_complete;
    bool is_last; /* nothing more can be asked on this connection */
};

void cay_answer_init(struct cay_answer *answer);
void cay_answer_finish(struct cay_answer *answer);
/* Gives the transfer what is in the next bytes. */
[[nodiscard]] bool cay_answer_feed(struct cay_answer *answer, struct cay_transfer *transfer,
                                   struct cay_str bytes, struct cay_error *err);
/* The connection has ended: true when so the answer was to end. */
[[nodiscard]] bool cay_answer_end(struct cay_answer *answer);

/* Whether this client goes the first of them: no TLS, and no proxy to go through. */
[[nodiscard]] bool cay_transfer_is_plain(const struct cay_client *client);

/* A connection without TLS, which does not block. deadline_ns of cay_clock_ns, 0: none. */
[[nodiscard]] bool cay_transfer_connect(const struct cay_client *client, int64_t deadline_ns,
                                        int *out_fd, struct cay_error *err);
/* False with *err when time is up or the caller is stopped; is_silent: nobody has answered yet. */
[[nodiscard]] bool cay_transfer_wait(const struct cay_client *client, int fd, short events,
                                     int64_t deadline_ns, bool is_silent, short *out_ready,
                                     struct cay_error *err);

/* A connection with TLS or through a proxy, kept in client->curl, for bytes of any kind. It does
 * not block: send and receive give a count, 0 at its end, -EAGAIN, or -EPIPE when it is broken.
 * *out_fd is for poll alone. */
[[nodiscard]] bool cay_curl_connect(struct cay_client *client, int *out_fd, struct cay_error *err);
[[nodiscard]] ssize_t cay_curl_send(struct cay_client *client, const void *data, size_t len);
[[nodiscard]] ssize_t cay_curl_receive(struct cay_client *client, void *out, size_t size);

/* For them: the head of a request in HTTP/1.1, and its body if it is there; header lines that all
 * send; a part of the answer's body. */
void cay_transfer_write_head(const struct cay_transfer *transfer, struct cay_buf *out);
void cay_transfer_write_headers(const struct cay_transfer *transfer, struct cay_buf *out);
[[nodiscard]] bool cay_transfer_take(struct cay_transfer *transfer, int status, const char *type,
                                     struct cay_str bytes, struct cay_error *err);

/* What went wrong on the way; all return false. */
bool cay_transfer_unreachable(const struct cay_client *client, const char *why, const char *remedy,
                              struct cay_error *err);
bool cay_transfer_not_connected(const struct cay_client *client, int number, struct cay_error *err);
bool cay_transfer_timed_out(const struct cay_client *client, bool is_silent, struct cay_error *err);
bool cay_transfer_broke(const struct cay_client *client, struct cay_error *err);
bool cay_transfer_not_http(const struct cay_client *client, struct cay_error *err);

/* An answer that is complete: true if it is a good one and of the right kind. */
[[nodiscard]] bool cay_transfer_check(struct cay_transfer *transfer, int status, const char *type,
                                      struct cay_error *err);

[[nodiscard]] bool cay_client_encode(const struct cay_pb_message *desc, const void *message,
                                     struct cay_buf *out, struct cay_error *err);

/* Copies the bytes into the arena first, since decoded strings point into them. */
[[nodiscard]] bool cay_client_decode(const struct cay_pb_message *desc, struct cay_str bytes,
                                     struct cay_arena *arena, void *out_message,
                                     struct cay_error *err);
