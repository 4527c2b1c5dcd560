/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A certificate made on the spot, and a client that trusts anything. */

#include <openssl/ssl.h>

#include "base/base.h"

struct tls_pair {
    char dir[64];
    char cert[96];
    char key[96];
    SSL_CTX *client;
};

void tls_pair_open(struct tls_pair *pair);
void tls_pair_close(struct tls_pair *pair);

/* A client on `fd` that offers these protocols ("\x02h2\x08http/1.1"); NULL for none. */
SSL *tls_pair_connect(struct tls_pair *pair, int fd, const char *protocols);
