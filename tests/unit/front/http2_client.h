/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* An HTTP/2 client on a socket of the harness. It reads and writes only when it is told to. */

#include <nghttp2/nghttp2.h>

#include "tests/unit/front/harness.h"

struct http2_answer {
    int status;
    bool is_closed;
    uint32_t error_code;
    char grpc_status[8];
    struct cay_buf body;
    struct cay_str upload; /* not sent yet */
    bool is_upload_over;
};

enum { HTTP2_ANSWERS_MAX = 300 };

struct http2_client {
    struct harness *harness;
    nghttp2_session *session;
    int fd;
    bool no_consume; /* flow control: windows are never opened again */
    bool is_gone;    /* the server hung up */
    bool got_goaway;
    struct http2_answer answers[HTTP2_ANSWERS_MAX]; /* by (stream id - 1) / 2 */
};

struct http2_client *http2_client_open(struct harness *harness, bool no_consume);
void http2_client_close(struct http2_client *client);

/* POST to /cay.v1.METHOD (or GET/POST of a whole path that begins with '/'), with the upload;
 * returns the place of the answer. An upload that is not over stays open. */
struct http2_answer *http2_client_call(struct http2_client *client, const char *method,
                                       const char *type, struct cay_str upload, bool is_over);

/* Sends and receives until nothing moves any more. */
void http2_client_run(struct http2_client *client);

/* Sends only. */
void http2_client_send(struct http2_client *client);
