/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/echo/stand.h"

#include <stdio.h>
#include <stdlib.h>

void stand_die(const struct stand *stand, const char *text)
{
    fprintf(stderr, "%s: %s\n", stand->program, text);
    exit(2);
}

void stand_take_flag(struct stand *stand, int flag, const char *value)
{
    switch (flag) {
    case 'l':
        if (stand->count == STAND_ADDRESSES_MAX)
            stand_die(stand, "too many addresses");
        stand->addresses[stand->count++] = value;
        break;
    case 'c': stand->tls_cert = value; break;
    case 'p': stand->tls_key = value; break;
    default: stand_die(stand, "unknown option");
    }
}

bool stand_open(const struct stand *stand, struct cay_server *server, struct cay_error *err)
{
    struct cay_tls *tls = NULL;
    if (stand->tls_cert) {
        if (!cay_tls_create(stand->tls_cert, stand->tls_key, &tls, err))
            return false;
        cay_server_set_tls(server, tls);
    }
    for (size_t i = 0; i < stand->count; i++) {
        const char *address = NULL;
        if (!cay_server_listen(server, stand->addresses[i], tls != NULL, &address, err))
            return false;
        printf("%s ready on %s\n", stand->program, address);
    }
    return fflush(stdout) == 0;
}
