/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "probe/attempts.h"

#define CALL(function)  \
    {                   \
        .run = function \
    }
#define GREEDY(function)                   \
    {                                      \
        .run = function, .is_greedy = true \
    }
#define WRITE(name)                    \
    {                                  \
        .run = try_write, .path = name \
    }
#define READ(name)                    \
    {                                 \
        .run = try_read, .path = name \
    }
#define LIST(name)                    \
    {                                 \
        .run = try_list, .path = name \
    }
#define MOUNT(name)                    \
    {                                  \
        .run = try_mount, .path = name \
    }
#define INIT(name)                         \
    {                                      \
        .run = try_init_file, .path = name \
    }
#define NAMESPACE(flag)                      \
    {                                        \
        .run = try_namespace, .number = flag \
    }
#define SOCKET(of, kind, about)                                          \
    {                                                                    \
        .run = try_socket, .domain = of, .type = kind, .protocol = about \
    }
#define ASK2(name, a, b, as)                                                                   \
    {                                                                                          \
        .run = try_call, .number = SYS_##name, .args = {(long)(a), (long)(b)}, .passes_as = as \
    }
#define ASK3(name, a, b, c, as)                                                           \
    {                                                                                     \
        .run = try_call, .number = SYS_##name, .args = {(long)(a), (long)(b), (long)(c)}, \
        .passes_as = as                                                                   \
    }

const struct probe probes[] = {
#define PROBE(id, ident, title, how) {.number = id, .name = #ident, .attempt = how},
#include "probe/probes.def"
#undef PROBE
};
const size_t probe_count = CAY_COUNT(probes);
