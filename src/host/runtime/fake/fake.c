/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sandbox without processes, for tests of what stands above: a thread that speaks init's side of
 * the protocol and knows a few commands. `true`, `false`, `exit N`, `echo WORDS`, `warn WORDS` (to
 * standard error), `sleep SECONDS`, `cat` (standard input back). Anything else is "not found".
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "host/runtime/fake/fake.h"
#include "host/runtime/runtime_ops.h"
#include "wire/frame/encode.h"

struct fake_sandbox {
    struct cay_sandbox base;
    struct cay_runtime *runtime;
    pthread_t thread;
    bool running;
    int daemon_fd; /* the link's end, until it is taken */
    int init_fd;
    bool frozen;
};

static bool open_runtime(const struct cay_runtime_config *, struct cay_runtime **out_runtime,
                         struct cay_error *)
{
    struct cay_runtime *runtime = cay_new(struct cay_runtime);
    *runtime = (struct cay_runtime){.ops = &cay_runtime_fake,
                                    .caps = CAY_RUNTIME_FREEZES | CAY_RUNTIME_SWITCHES};
    *out_runtime = runtime;
    return true;
}

static void close_runtime(struct cay_runtime *runtime)
{
    free(runtime);
}

static void *thread_main(void *fd)
{
    cay_fake_serve((int)(intptr_t)fd);
    return NULL;
}

static bool start(struct cay_runtime *runtime, const struct cay_sandbox_spec *,
                  struct cay_sandbox **out_sandbox, struct cay_error *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, -errno, "socketpair");
    struct fake_sandbox *fake = cay_new(struct fake_sandbox);
    fake->runtime = runtime;
    fake->daemon_fd = ends[0];
    fake->init_fd = ends[1];
    int result = pthread_create(&fake->thread, NULL, thread_main, (void *)(intptr_t)ends[1]);
    if (result != 0) {
        close(ends[0]);
        close(ends[1]);
        free(fake);
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, -result, "thread");
    }
    fake->running = true;
    *out_sandbox = &fake->base;
    return true;
}

static bool remove_leftovers(struct cay_runtime *, const char *, struct cay_error *)
{
    return true;
}

static void describe(const struct cay_sandbox *sandbox, struct cay_buf *out_text)
{
    cay_buf_printf(out_text, "format=1\nruntime=fake\nid=%s\n", sandbox->id);
}

static bool set_frozen(struct cay_sandbox *sandbox, bool frozen)
{
    CAY_CONTAINER_OF(sandbox, struct fake_sandbox, base)->frozen = frozen;
    return true;
}

static bool freeze(struct cay_sandbox *sandbox, int, struct cay_error *)
{
    return set_frozen(sandbox, true);
}

static bool thaw(struct cay_sandbox *sandbox, struct cay_error *)
{
    return set_frozen(sandbox, false);
}

static bool switch_root(struct cay_sandbox *, int, int *out_old_fd, struct cay_error *)
{
    *out_old_fd = -1;
    return true;
}

static bool kill_all(struct cay_sandbox *sandbox, struct cay_error *)
{
    struct fake_sandbox *fake = CAY_CONTAINER_OF(sandbox, struct fake_sandbox, base);
    if (fake->running) {
        shutdown(fake->init_fd, SHUT_RDWR);
        pthread_join(fake->thread, NULL);
        fake->running = false;
    }
    return true;
}

static void leave(struct cay_sandbox *sandbox)
{
    struct fake_sandbox *fake = CAY_CONTAINER_OF(sandbox, struct fake_sandbox, base);
    struct cay_error ignored;
    (void)kill_all(sandbox, &ignored);
    cay_cleanup_close(&fake->daemon_fd);
    cay_cleanup_close(&fake->init_fd);
    free(fake);
}

static bool destroy(struct cay_sandbox *sandbox, struct cay_error *)
{
    leave(sandbox);
    return true;
}

static bool connect_fake(struct cay_sandbox *sandbox, struct cay_connection *out_connection,
                         struct cay_error *err)
{
    struct fake_sandbox *fake = CAY_CONTAINER_OF(sandbox, struct fake_sandbox, base);
    if (fake->daemon_fd < 0)
        return cay_fail(err, CAY_R_UNAVAILABLE, "a fake sandbox is linked once");
    *out_connection = (struct cay_connection){
        .fd = cay_take_fd(fake->daemon_fd), .out_fd = -1, .is_first = true, .version = 1};
    return true;
}

const struct cay_runtime_ops cay_runtime_fake = {
    .name = "fake",
    .is_fake = true,
    .warning = "the runtime 'fake' runs no programs: it is for tests",
    .open = open_runtime,
    .close = close_runtime,
    .start = start,
    .remove = remove_leftovers,
    .describe = describe,
    .freeze = freeze,
    .thaw = thaw,
    .switch_root = switch_root,
    .kill = kill_all,
    .destroy = destroy,
    .leave = leave,
    .connect = connect_fake,
};
