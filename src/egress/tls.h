/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * TLS on sockets that never block, by OpenSSL, for connections that are looked into: to the client
 * we are the server, by a certificate of the host's authority; to the server a client that
 * verifies its name, its chain and its dates. Everything that needs a file happens in
 * egress_tls_init, before the process is confined.
 */

#include "wire/egress/egress.h"

enum {
    EGRESS_TLS_LEAVES_MAX = 64, /* names, each with its context */
    EGRESS_TLS_LEAF_MS = 24 * 60 * 60 * 1000,
    EGRESS_TLS_TURN_BYTES = 128 * 1024, /* read of one socket in one turn */
};

struct egress_tls; /* of the process */

/* `trust_path`: certificates, in PEM, of who vouches for servers. One that cannot be read vouches
 * for nobody. NULL when OpenSSL cannot be had. */
struct egress_tls *egress_tls_init(const char *trust_path);

/* A certificate for a name, with its key, in PEM. False when it is none. */
[[nodiscard]] bool egress_tls_add_leaf(struct egress_tls *tls, struct cay_str name,
                                       struct cay_str pem, uint64_t now_ms);
[[nodiscard]] bool egress_tls_has_leaf(struct egress_tls *tls, const char *name, uint64_t now_ms);

/* One end of a connection. */
struct egress_tls_side {
    void *ssl; /* NULL: none */
    int fd;
    const char *early; /* read of the socket already; borrowed until it is used up */
    size_t early_len;
    size_t turn_left;             /* may still be read in this turn */
    bool is_up;                   /* the handshake is over */
    bool wants_read, wants_write; /* what it waits for */
    bool is_read_over;            /* the other end said so, */
    bool is_cut;                  /* or its connection ended without a word */
};

/* 0, or -errno: -ENOENT when there is no certificate for the name. */
[[nodiscard]] int egress_tls_accept(struct egress_tls *tls, const char *name, int fd,
                                    struct cay_str early, struct egress_tls_side *out_side);
[[nodiscard]] int egress_tls_connect(struct egress_tls *tls, const char *name, int fd,
                                     struct egress_tls_side *out_side);
void egress_tls_close(struct egress_tls_side *side);

/* 1 when it is over, 0 while it is not, -1 when it failed. */
[[nodiscard]] int egress_tls_shake(struct egress_tls_side *side);
/* Why the server's certificate was refused: a clause; NULL when that is not why it failed. */
[[nodiscard]] const char *egress_tls_distrust(const struct egress_tls_side *side);

/* As read and write: > 0 bytes, 0 not now (wants_read, wants_write) or over (is_read_over), -1
 * broken. */
[[nodiscard]] ssize_t egress_tls_read(struct egress_tls_side *side, void *data, size_t len);
[[nodiscard]] ssize_t egress_tls_write(struct egress_tls_side *side, const void *data, size_t len);
/* Says that no more comes. */
void egress_tls_end(struct egress_tls_side *side);
