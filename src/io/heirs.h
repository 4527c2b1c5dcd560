/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sockets that outlive a program: from a service manager, or from the daemon that ran in this
 * process before and replaced itself. Both hand them over in the same way, systemd's: descriptors
 * from 3 on, counted by LISTEN_FDS for the process LISTEN_PID, named by LISTEN_FDNAMES. Who
 * connects while nobody serves waits in the kernel's queue instead of being refused.
 *
 * Order: receive -> take* -> close_rest -> (serve) -> give* -> pass, and then exec.
 */

#include <sys/socket.h>

#include "base/base.h"

/* Names that a daemon gives; all others are the service manager's. */
#define CAY_HEIR_LISTENER   "cay-listener"
#define CAY_HEIR_PORT       "cay-port"
#define CAY_HEIR_CONNECTION "cay-connection"

enum { CAY_HEIRS_MAX = 4096 };

struct cay_heirs;

/* Whatever the environment speaks of, which is taken out of it. NULL is never returned. */
struct cay_heirs *cay_heirs_receive(void);
void cay_heirs_destroy(struct cay_heirs *heirs); /* closes what is left; accepts NULL */

/* A socket that listens on this address; port 0 is that of any listener of ours at the address. -1:
 * there is none. *out_is_managed: it is the service manager's, which goes on to listen. */
[[nodiscard]] int cay_heirs_take(struct cay_heirs *heirs, const struct sockaddr *address,
                                 bool *out_is_managed);
/* The next listener of the service manager that nobody took; -1: no more. */
[[nodiscard]] int cay_heirs_take_managed(struct cay_heirs *heirs);
/* The next connection; -1: no more. */
[[nodiscard]] int cay_heirs_take_connection(struct cay_heirs *heirs);
void cay_heirs_close_rest(struct cay_heirs *heirs);

/* From now on listeners that close give their sockets here. False goes back on it. */
void cay_heirs_collect(struct cay_heirs *heirs, bool collects);
[[nodiscard]] bool cay_heirs_collects(const struct cay_heirs *heirs); /* accepts NULL */
/* Takes the descriptor over. False when there are too many: it stays the caller's. `name` is one of
 * the above or NULL for a socket of the service manager; its own name is not kept. */
[[nodiscard]] bool cay_heirs_give(struct cay_heirs *heirs, int fd, const char *name);

/* Right before exec: puts them where the next program looks for them. Every other descriptor from 3
 * on may be overwritten. 0 or -errno. */
[[nodiscard]] int cay_heirs_pass(struct cay_heirs *heirs);
