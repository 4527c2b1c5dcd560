/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The client's end of TLS, by OpenSSL, which is loaded at the first use: most clients talk to a
 * Unix socket. It moves bytes between the caller and a socket that does not block, and never raises
 * SIGPIPE.
 *
 * Order: trust_create (once per client) -> veil_create -> (advance until 1) -> (send | receive)* ->
 * veil_destroy.
 */

#include "base/error.h"

struct cay_trust; /* whom to believe; may be used by several threads */
struct cay_veil;  /* TLS around one connection */

/* `ca_file` NULL: the certificates of the system. *out_why, when it fails, is a static text. */
[[nodiscard]] bool cay_trust_create(const char *ca_file, struct cay_trust **out_trust,
                                    struct cay_error *err);
void cay_trust_destroy(struct cay_trust *trust); /* accepts NULL */

/* `host` is the name or number that the certificate must be for. NULL when there is no memory. */
[[nodiscard]] struct cay_veil *cay_veil_create(struct cay_trust *trust, int fd, const char *host);
void cay_veil_destroy(struct cay_veil *veil); /* accepts NULL */

/* The handshake: 1 when done, 0 when the socket must be waited for, -EPROTO with *out_why, in the
 * veil, and *out_is_trust: the certificate is not believed. */
[[nodiscard]] int cay_veil_advance(struct cay_veil *veil, const char **out_why, bool *out_is_trust);

/* As send(2) and recv(2), with -EAGAIN and -EPIPE. */
[[nodiscard]] ssize_t cay_veil_send(struct cay_veil *veil, const void *data, size_t len);
[[nodiscard]] ssize_t cay_veil_receive(struct cay_veil *veil, void *out, size_t size);
/* Something of it waits to be written before anything else can happen. */
[[nodiscard]] bool cay_veil_wants_write(const struct cay_veil *veil);
/* Bytes were read from the socket that nobody has received yet: do not wait for it. */
[[nodiscard]] bool cay_veil_has_more(const struct cay_veil *veil);
