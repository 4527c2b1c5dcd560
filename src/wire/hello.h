/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The first thing that a TLS client says (RFC 8446, 4.1.2), as somebody reads it who passes the
 * connection on and wants to know whom it is for. Strict: what servers might read in another way
 * is refused. Pure functions, no allocation.
 *
 * Order: cay_hello_look, each time there are more bytes, until it says something else than MORE.
 */

#include "base/base.h"

enum {
    CAY_HELLO_BYTES_MAX = 16 * 1024, /* with the heads of its records */
    CAY_HELLO_NAME_SIZE = 256,
    CAY_HELLO_PROTOCOLS_MAX = 256, /* bytes */
};

struct cay_hello {
    char name[CAY_HELLO_NAME_SIZE]; /* lower case; empty when none was sent */
    bool is_encrypted; /* another name is in it that cannot be read (ECH, ESNI), or may be */
    /* As on the wire: a byte of length before each. */
    uint8_t protocols[CAY_HELLO_PROTOCOLS_MAX];
    size_t protocols_len;
};

enum cay_hello_state {
    CAY_HELLO_MORE = 1,
    CAY_HELLO_WHOLE,
    CAY_HELLO_OTHER, /* no TLS: another protocol */
    CAY_HELLO_BAD,
};

/* Where one has come to. Zeroed to start with. */
struct cay_hello_look {
    size_t record_at; /* the first record that is not whole yet */
    size_t got;       /* bytes of the message in the records before it */
    size_t wanted;    /* bytes of the message with its head; 0: not known yet */
};

/* `bytes` is all that came since the beginning of the connection; *out is set by WHOLE. */
[[nodiscard]] enum cay_hello_state cay_hello_look(struct cay_hello_look *look, const uint8_t *bytes,
                                                  size_t len, struct cay_hello *out);

/* Was this protocol offered ("h2")? */
[[nodiscard]] bool cay_hello_offers(const struct cay_hello *hello, const char *protocol);
