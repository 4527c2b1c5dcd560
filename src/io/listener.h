/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Listening sockets, Unix and TCP. An address is "unix:/path", "HOST:PORT", "[IPV6]:PORT" or
 * ":PORT" (all addresses); a port of 0 lets the kernel choose.
 */

#include "base/error.h"
#include "io/loop.h"

struct cay_peer {
    bool is_unix;
    uid_t uid; /* Unix only, from the kernel */
    pid_t pid;
    char text[64]; /* "127.0.0.1:1234", "uid=0 pid=77" */
    char from[64]; /* what all its connections have in common: "127.0.0.1", "2001:db8::/64", "uid=0"
                    */
};

struct cay_listener {
    /* A connection: the descriptor (non-blocking, close-on-exec) is the callee's. */
    void (*accepted)(struct cay_listener *listener, int fd, const struct cay_peer *peer);
    struct cay_loop *loop;
    struct cay_watch watch;
    struct cay_timer retry;
    int fd;
    int spare_fd;          /* given up to turn a connection away when descriptors run out */
    char *unix_path;       /* removed at close; NULL when it is the service manager's */
    const char *heir_name; /* by which it is handed over, may be changed; NULL: it is the service
                              manager's */
    const char *farewell;  /* for whoever cannot be served; NULL: nothing is said */
    char address[128];     /* what it is bound to, with the real port */
    bool is_unix;
};

[[nodiscard]] bool cay_listener_open(struct cay_listener *listener, struct cay_loop *loop,
                                     const char *address,
                                     void (*accepted)(struct cay_listener *listener, int fd,
                                                      const struct cay_peer *peer),
                                     struct cay_error *err);
/* On a socket that listens already, which it takes over (also on failure). */
[[nodiscard]] bool cay_listener_open_managed(struct cay_listener *listener, struct cay_loop *loop,
                                             int fd,
                                             void (*accepted)(struct cay_listener *listener, int fd,
                                                              const struct cay_peer *peer),
                                             struct cay_error *err);
/* Says a farewell, if it is not NULL, and hangs up. */
void cay_listener_refuse(int fd, const char *farewell);
/* Hands the socket over to the heirs of the loop, if they collect. */
void cay_listener_close(struct cay_listener *listener);

/* Of a connection that somebody else accepted. False when it is gone. */
[[nodiscard]] bool cay_peer_of(int fd, struct cay_peer *out_peer);
