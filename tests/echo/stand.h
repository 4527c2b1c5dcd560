/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Where a daemon of the tests stands: its addresses, with TLS or without. */

#include <getopt.h>

#include "front/http/server.h"

enum { STAND_ADDRESSES_MAX = 4 };

struct stand {
    const char *program; /* for messages */
    const char *addresses[STAND_ADDRESSES_MAX];
    size_t count;
    const char *tls_cert;
    const char *tls_key;
};

/* Of getopt_long. */
/* clang-format off */
#define STAND_FLAGS                                                                                \
    {"listen", required_argument, NULL, 'l'},                                                      \
    {"tls-cert", required_argument, NULL, 'c'},                                                    \
    {"tls-key", required_argument, NULL, 'p'}
/* clang-format on */

/* One of these flags. Ends the program for what is none. */
void stand_take_flag(struct stand *stand, int flag, const char *value);

/* Listens, and prints `PROGRAM ready on ADDRESS` per listener. */
[[nodiscard]] bool stand_open(const struct stand *stand, struct cay_server *server,
                              struct cay_error *err);

[[gnu::noreturn]] void stand_die(const struct stand *stand, const char *text);
