/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Room-private. */

#include <sys/socket.h>

#include "base/list.h"
#include "client/rpc/client_internal.h"
#include "remote/remote.h"

struct cay_remote {
    struct cay_service service; /* first */
    struct cay_service_ops ops;
    cay_verb **verbs; /* method_count times the same */
    struct cay_loop *loop;
    struct cay_client *client; /* its address and key; it is never called */
    struct sockaddr_storage address;
    socklen_t address_len;
    struct cay_list calls; /* struct forwarded, under way */
};

/* forward.c: any verb. */
cay_verb cay_remote_forward;
