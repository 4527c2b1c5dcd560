/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The functions that probes.def names, for the table. */

#include "probe/probe.h"

#define ATTEMPT(name)                                               \
    struct outcome name([[maybe_unused]] const struct world *world, \
                        [[maybe_unused]] const struct attempt *attempt)

/* Of tables. */
ATTEMPT(try_write);
ATTEMPT(try_read);
ATTEMPT(try_list);
ATTEMPT(try_mount);
ATTEMPT(try_call);
ATTEMPT(try_socket);
ATTEMPT(try_namespace);
ATTEMPT(try_init_file);

/* Each by itself. */
#define PROBE(number, name, title, how) how
#define CALL(function)                  ATTEMPT(function);
#define GREEDY(function)                ATTEMPT(function);
#define WRITE(path)
#define READ(path)
#define LIST(path)
#define MOUNT(type)
#define INIT(file)
#define NAMESPACE(flag)
#define ASK2(...)
#define ASK3(...)
#define SOCKET(...)
#include "probe/probes.def"
#undef PROBE
#undef CALL
#undef GREEDY
#undef WRITE
#undef READ
#undef LIST
#undef MOUNT
#undef INIT
#undef NAMESPACE
#undef ASK2
#undef ASK3
#undef SOCKET
