/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * TLS for servers, over OpenSSL: TLS 1.2 and newer, ALPN "h2" then "http/1.1". The context is
 * shared by all connections and can be replaced while they live (certificate renewal).
 */

#include "base/error.h"

struct cay_tls;
struct cay_tls_session;

/* PEM files: certificate chain and private key. */
[[nodiscard]] bool cay_tls_create(const char *cert_path, const char *key_path,
                                  struct cay_tls **out_tls, struct cay_error *err);
void cay_tls_destroy(struct cay_tls *tls);

/* NULL when out of memory. The descriptor stays the caller's. */
[[nodiscard]] struct cay_tls_session *cay_tls_accept(struct cay_tls *tls, int fd);
void cay_tls_session_destroy(struct cay_tls_session *session);

/* As read(2) and write(2), with -errno; the handshake happens inside. */
[[nodiscard]] ssize_t cay_tls_read(struct cay_tls_session *session, void *data, size_t len);
[[nodiscard]] ssize_t cay_tls_write(struct cay_tls_session *session, const void *data, size_t len);

/* Says once that nothing more will be written (close_notify), without waiting for the peer's. */
void cay_tls_end(struct cay_tls_session *session);

[[nodiscard]] bool cay_tls_wants_write(const struct cay_tls_session *session);
[[nodiscard]] bool cay_tls_pending(const struct cay_tls_session *session);
