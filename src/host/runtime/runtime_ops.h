/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a runtime implements. `struct cay_runtime` and `struct cay_sandbox` are the first member of
 * its own structs and hold nothing of any one runtime. A slot that is NULL means NOT_SUPPORTED. All
 * may block; comments in runtime.h say what each promises.
 */

#include "host/runtime/runtime.h"
#include "wire/frame/frame.h"

struct cay_runtime_ops;

struct cay_runtime {
    const struct cay_runtime_ops *ops;
    unsigned caps;
    unsigned limits; /* those it keeps: bits of 1 << enum cay_cgroup_controller */
    const char *limits_by;
};

struct cay_sandbox {
    struct cay_runtime *runtime;
    char id[CAY_SANDBOX_ID_BYTES_MAX + 1];
    int root_fd; /* O_PATH, with what is mounted in it; -1: it has no root of its own */
};

/* To the init of a sandbox. */
struct cay_connection {
    int fd;                               /* a non-blocking stream socket, the caller's ... */
    int out_fd;                           /* ... or two pipes, this one to init; -1: a socket */
    uint8_t token[CAY_FRAME_TOKEN_BYTES]; /* what HELLO needs */
    bool is_first;                        /* no HELLO is due: init was started with it ... */
    uint32_t version;                     /* ... and said this */
};

struct cay_runtime_ops {
    const char *name;
    const char *warning;
    bool is_fake; /* for tests; nobody is told of it */
    /* caps of the result may depend on the host. */
    bool (*open)(const struct cay_runtime_config *, struct cay_runtime **, struct cay_error *);
    void (*close)(struct cay_runtime *);
    /* May be NULL. */
    void (*prepare)(struct cay_runtime *);
    bool (*start)(struct cay_runtime *, const struct cay_sandbox_spec *, struct cay_sandbox **,
                  struct cay_error *);
    /* Those of CAY_RUNTIME_WAITS; NULL without it. While it waits, its socket says so (socket.h):
     * made before anything else of it, and renamed when nothing can fail any more. */
    bool (*start_waiting)(struct cay_runtime *, const struct cay_sandbox_spec *,
                          struct cay_sandbox **, struct cay_error *);
    bool (*hand_out)(struct cay_sandbox *, const struct cay_sandbox_spec *, int *out_old_fd,
                     struct cay_error *);
    bool (*adopt)(struct cay_runtime *, struct cay_str description, struct cay_sandbox **,
                  struct cay_error *);
    bool (*remove)(struct cay_runtime *, const char *id, struct cay_error *);
    void (*describe)(const struct cay_sandbox *, struct cay_buf *);
    int (*pidfd)(const struct cay_sandbox *);
    /* Its tree, O_PATH, or -1. NULL: what its first process has as its root. */
    int (*open_root)(const struct cay_sandbox *);
    /* NULL: it shares the host's network. Does not block. */
    int (*netns)(const struct cay_sandbox *);
    /* NULL: it has none. Does not block. */
    int (*group)(const struct cay_sandbox *);
    bool (*freeze)(struct cay_sandbox *, int timeout_ms, struct cay_error *);
    bool (*thaw)(struct cay_sandbox *, struct cay_error *);
    /* Nothing but its first process lives. NULL: not known. Does not block. */
    bool (*is_idle)(const struct cay_sandbox *);
    bool (*switch_root)(struct cay_sandbox *, int root_fd, int *out_old_fd, struct cay_error *);
    bool (*set_limits)(struct cay_sandbox *, const struct cay_cgroup_limits *, struct cay_error *);
    /* NULL: all have the same. Does not block. */
    void (*set_part)(struct cay_sandbox *, unsigned parts);
    void (*stats)(struct cay_sandbox *, struct cay_sandbox_stats *);
    /* See cay_sandbox_end_start; may be NULL. Loop thread only. */
    bool (*end_start)(struct cay_sandbox *, int64_t waited_ms);
    bool (*kill)(struct cay_sandbox *, struct cay_error *);
    bool (*destroy)(struct cay_sandbox *, struct cay_error *);
    void (*leave)(struct cay_sandbox *);

    /* For the link. open_slot makes one more control group for a command; NULL or -EOPNOTSUPP: none
     * needed. */
    bool (*connect)(struct cay_sandbox *, struct cay_connection *, struct cay_error *);
    int (*open_slot)(struct cay_sandbox *, uint32_t index, struct cay_cgroup_slot *);
    /* The same with limits; NULL or -EOPNOTSUPP: it cannot be limited, -EBUSY: try another. */
    int (*open_room)(struct cay_sandbox *, uint32_t index, const struct cay_cgroup_limits *,
                     struct cay_cgroup_slot *);
};

extern const struct cay_runtime_ops cay_runtime_namespaces;
extern const struct cay_runtime_ops cay_runtime_none;
extern const struct cay_runtime_ops cay_runtime_gvisor;
extern const struct cay_runtime_ops cay_runtime_fake;
