/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is said when something goes wrong on the way to the daemon. All return false. The part
 * behind the last semicolon is advice; the fact CAY_FACT_REMEDY says which, so that a program with
 * commands and variables of its own can word it better.
 */

#include "client/rpc/address.h"

#define CAY_FACT_REMEDY "remedy" /* start, rights, address, time, certificate, plain, tls */

/* `remedy` is one of the words above. */
bool cay_blame_unreachable(const struct cay_address *address, const char *why, const char *remedy,
                           struct cay_error *err);
/* `number` is the errno of a connection that was not made; 0: it is not known. */
bool cay_blame_not_connected(const struct cay_address *address, int number, struct cay_error *err);
/* is_silent: nobody has answered anything yet. */
bool cay_blame_late(const struct cay_address *address, bool is_silent, int64_t timeout_ms,
                    struct cay_error *err);
bool cay_blame_broken(const struct cay_address *address, struct cay_error *err);
/* The connection ended before the first byte of an answer. */
bool cay_blame_wordless(const struct cay_address *address, struct cay_error *err);
bool cay_blame_not_http(const struct cay_address *address, struct cay_error *err);
bool cay_blame_stranger(const struct cay_address *address, const char *type, struct cay_error *err);
