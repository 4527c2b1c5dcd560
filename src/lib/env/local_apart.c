/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "api/limits.h"
#include "base/clock.h"
#include "base/stop.h"
#include "lib/env/env_internal.h"
#include "lib/env/local.h"

/*
 * A call on a thread of its own. It is shared by that thread, by those who wait for it and, when
 * the caller gave it an id, by the environment, which remembers it: the same call again joins it,
 * or gets its result. Failures are not remembered, and large results only while somebody waits.
 *
 * Output is shown by the thread that made the call and by no other: the worker hands over a piece
 * and goes on when it was shown, or when nobody listens any more.
 */

enum {
    REMEMBERED_MAX = 64,
    REMEMBERED_BYTES_MAX = 1024 * 1024,
};

struct waiter {
    struct cay_list_node in_apart;
    int fd; /* an eventfd: there is news */
};

struct apart {
    struct cay_list_node in_env; /* linked while it is remembered */
    struct cay_local_env *self;
    unsigned refs; /* under the environment's lock, as all that changes */
    bool is_remembered;
    struct cay_buf request; /* the call, encoded: what `call` borrows from */
    struct cay_v1_tool_call call;
    struct cay_arena arena;

    int kill_fd; /* readable: its command is to end */
    bool stop;   /* the same for work on files */
    struct cay_list waiters;
    struct cay_env_order *listener; /* who is shown its output; NULL: nobody */
    int listener_fd;
    const struct cay_v1_output_chunk *chunk; /* to be shown */

    bool is_over;
    bool is_done; /* with this result, or this error */
    struct cay_v1_tool_result result;
    struct cay_error err;
};

static void tell(int fd)
{
    uint64_t one = 1;
    ssize_t written = write(fd, &one, sizeof(one));
    (void)written; /* it is full of news otherwise */
}

static void apart_free(struct apart *apart)
{
    if (apart->kill_fd >= 0)
        close(apart->kill_fd);
    cay_buf_finish(&apart->request);
    cay_arena_finish(&apart->arena);
    free(apart);
}

/* Under the lock. */
static void apart_unref(struct apart *apart)
{
    if (--apart->refs == 0)
        apart_free(apart);
}

/* Under the lock. */
static void forget(struct apart *apart)
{
    if (!apart->is_remembered)
        return;
    apart->is_remembered = false;
    cay_list_remove(&apart->in_env);
    apart->self->apart_count--;
    apart_unref(apart);
}

/* Under the lock: the oldest of those that are over. */
static void forget_some(struct cay_local_env *self)
{
    cay_list_for_each (struct apart, apart, &self->apart, in_env) {
        if (self->apart_count < REMEMBERED_MAX)
            return;
        if (apart->is_over)
            forget(apart);
    }
}

void cay_local_apart_finish(struct cay_local_env *self)
{
    cay_list_for_each (struct apart, apart, &self->apart, in_env)
        forget(apart);
}

/* --- the worker --- */

static void on_output(void *context, const struct cay_v1_output_chunk *chunk)
{
    struct apart *apart = context;
    struct cay_local_env *self = apart->self;
    pthread_mutex_lock(&self->lock);
    if (apart->listener) {
        apart->chunk = chunk;
        tell(apart->listener_fd);
    }
    while (apart->chunk)
        pthread_cond_wait(&self->changed, &self->lock);
    pthread_mutex_unlock(&self->lock);
}

static void *work(void *context)
{
    struct apart *apart = context;
    struct cay_local_env *self = apart->self;
    struct cay_env *env = &self->env;
    const struct cay_local_progress progress = {.output = on_output, .context = apart};
    const struct cay_local_call call = {
        .tool = &apart->call,
        .progress = &progress,
        .cancel_fd = apart->kill_fd,
        .stop = &apart->stop,
    };
    struct cay_v1_tool_result result = {};
    struct cay_error err = {};
    bool is_done = cay_local_tool(atomic_load(&self->engine), &call, &apart->arena, &result, &err);
    pthread_mutex_lock(&self->lock);
    apart->is_over = true;
    apart->is_done = is_done;
    apart->result = result;
    apart->err = err;
    if (!is_done || cay_arena_taken(&apart->arena) > REMEMBERED_BYTES_MAX)
        forget(apart);
    cay_list_for_each (struct waiter, waiter, &apart->waiters, in_apart)
        tell(waiter->fd);
    apart_unref(apart);
    pthread_mutex_unlock(&self->lock);
    cay_env_unref(env);
    return NULL;
}

/* No signal of the program is handled on a thread that it does not know. */
static int start_thread(void *(*function)(void *), void *context)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = pthread_create(&thread, &attributes, function, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return -status;
}

/* --- who calls --- */

static struct apart *apart_new(struct cay_local_env *self, const struct cay_v1_tool_call *call,
                               struct cay_error *err)
{
    struct apart *apart = calloc(1, sizeof(*apart));
    if (!apart) {
        cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
        return NULL;
    }
    apart->self = self;
    apart->refs = 1;
    apart->kill_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int number = errno;
    cay_list_init(&apart->waiters);
    cay_buf_init(&apart->request, CAY_LIMIT_MESSAGE_BYTES);
    cay_arena_init(&apart->arena, CAY_LIMIT_CALL_ARENA_BYTES);
    if (cay_pb_encode(&cay_v1_tool_call_desc, call, &apart->request) == 0 &&
        cay_pb_decode(&cay_v1_tool_call_desc, cay_buf_str(&apart->request), &apart->arena,
                      &apart->call) == 0 &&
        apart->kill_fd >= 0)
        return apart;
    if (apart->kill_fd < 0)
        cay_fail_errno(err, CAY_R_RESOURCE_EXHAUSTED, -number, "a call needs a descriptor");
    else if (apart->request.no_memory || apart->arena.no_memory)
        cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
    else
        cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    apart_free(apart);
    return NULL;
}

/* Under the lock. */
static struct apart *find(struct cay_local_env *self, struct cay_str id)
{
    cay_list_for_each (struct apart, apart, &self->apart, in_env) {
        if (cay_str_equal(apart->call.tool_call_id, id))
            return apart;
    }
    return NULL;
}

/* The call that this one is, with a reference: `fresh`, which is started then, or an earlier one.
 */
static struct apart *begin(struct cay_local_env *self, struct apart *fresh, bool has_id,
                           struct cay_error *err)
{
    pthread_mutex_lock(&self->lock);
    struct apart *known = has_id ? find(self, fresh->call.tool_call_id) : NULL;
    if (known && !cay_str_equal(cay_buf_str(&known->request), cay_buf_str(&fresh->request))) {
        known = NULL;
        cay_fail(err, CAY_R_ALREADY_EXISTS, "tool_call_id: another call has it");
    } else if (known) {
        known->refs++;
    } else {
        known = fresh;
        known->refs += 2; /* the caller's and the worker's */
        cay_env_ref(&self->env);
        int status = start_thread(work, known);
        if (status < 0) {
            known->refs -= 2;
            cay_env_unref(&self->env);
            known = NULL;
            cay_fail_errno(err, CAY_R_RESOURCE_EXHAUSTED, status, "start a thread for the call");
        } else if (has_id) {
            forget_some(self);
            known->is_remembered = true;
            known->refs++;
            cay_list_push_back(&self->apart, &known->in_env);
            self->apart_count++;
        }
    }
    apart_unref(fresh);
    pthread_mutex_unlock(&self->lock);
    return known;
}

/* Until there is news, or patience ends. */
static bool await_news(const struct waiter *waiter, const struct cay_local_patience *patience,
                       struct cay_error *err)
{
    struct pollfd entries[] = {{.fd = waiter->fd, .events = POLLIN},
                               {.fd = patience->cancel_fd, .events = POLLIN}};
    if (cay_local_patience_over(patience, err))
        return false;
    int timeout_ms = -1;
    if (patience->until_ms)
        timeout_ms = (int)CAY_MIN(patience->until_ms - cay_clock_ms() + 1, (int64_t)INT_MAX);
    uint64_t count = 0;
    if (poll(entries, 2, CAY_MAX(timeout_ms, -1)) > 0 && entries[0].revents)
        (void)!read(waiter->fd, &count, sizeof(count));
    return true;
}

/* Under the lock, which is let go meanwhile. */
static void show(struct apart *apart, struct cay_env_order *order)
{
    struct cay_local_env *self = apart->self;
    const struct cay_v1_output_chunk *chunk = apart->chunk;
    pthread_mutex_unlock(&self->lock);
    cay_env_order_show(order, chunk);
    pthread_mutex_lock(&self->lock);
    apart->chunk = NULL;
    pthread_cond_broadcast(&self->changed);
}

/* Until the call is over. */
static bool await_end(struct apart *apart, struct cay_env_order *order, const struct waiter *waiter,
                      const struct cay_local_patience *patience, struct cay_error *err)
{
    struct cay_local_env *self = apart->self;
    for (;;) {
        pthread_mutex_lock(&self->lock);
        if (apart->chunk && apart->listener == order)
            show(apart, order);
        bool is_over = apart->is_over;
        pthread_mutex_unlock(&self->lock);
        if (is_over)
            return true;
        if (!await_news(waiter, patience, err))
            return false;
    }
}

/* True when it is over, in whatever way. */
static bool wait_for(struct apart *apart, struct cay_env_order *order,
                     const struct cay_local_patience *patience, struct cay_error *err)
{
    struct cay_local_env *self = apart->self;
    struct waiter waiter = {.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (waiter.fd < 0)
        return cay_fail_errno(err, CAY_R_RESOURCE_EXHAUSTED, -errno, "wait for the call");
    pthread_mutex_lock(&self->lock);
    cay_list_push_back(&apart->waiters, &waiter.in_apart);
    if (!apart->listener && order->request->progress) {
        apart->listener = order;
        apart->listener_fd = waiter.fd;
    }
    pthread_mutex_unlock(&self->lock);
    bool is_over = await_end(apart, order, &waiter, patience, err);
    pthread_mutex_lock(&self->lock);
    cay_list_remove(&waiter.in_apart);
    if (apart->listener == order) {
        apart->listener = NULL;
        apart->chunk = NULL;
        pthread_cond_broadcast(&self->changed);
    }
    pthread_mutex_unlock(&self->lock);
    close(waiter.fd);
    return is_over;
}

bool cay_local_apart_run(struct cay_local_env *self, struct cay_env_order *order,
                         const struct cay_local_patience *patience, struct cay_error *err)
{
    const bool has_id = !order->made_up_id[0];
    struct apart *fresh = apart_new(self, &order->call, err);
    if (!fresh)
        return false;
    struct apart *apart = begin(self, fresh, has_id, err);
    if (!apart)
        return false;
    bool is_done = wait_for(apart, order, patience, err);
    if (is_done) {
        struct cay_v1_tool_result result = apart->result;
        result.cached = apart != fresh;
        is_done = apart->is_done;
        if (is_done)
            is_done = cay_env_order_take(order, &result, err);
        else
            *err = apart->err;
    } else if (!has_id) {
        tell(apart->kill_fd);
        cay_stop_ask(&apart->stop);
    }
    pthread_mutex_lock(&self->lock);
    apart_unref(apart);
    pthread_mutex_unlock(&self->lock);
    return is_done;
}
