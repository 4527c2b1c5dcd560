/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>
#include <uv.h>

#include "io/loop.h"
#include "io/loop_internal.h"

/*
 * libuv frees nothing before its close callback ran, one turn of the loop later. Each handle is
 * therefore its own small allocation that knows its owner; closing cuts that tie and the owner may
 * be gone.
 */

struct cay_watch_handle {
    uv_poll_t uv;
    struct cay_watch *owner;
};

struct cay_timer_handle {
    uv_timer_t uv;
    struct cay_timer *owner;
};

struct cay_signal_handle {
    uv_signal_t uv;
    struct cay_signal *owner;
};

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

static_assert(offsetof(struct cay_watch_handle, uv) == 0,
              "free_handle frees the uv handle's address");
static_assert(offsetof(struct cay_timer_handle, uv) == 0,
              "free_handle frees the uv handle's address");
static_assert(offsetof(struct cay_signal_handle, uv) == 0,
              "free_handle frees the uv handle's address");

static void start_poll(struct cay_watch *watch);

static void on_poll(uv_poll_t *poll, int status, int uv_events)
{
    struct cay_watch *watch = CAY_CONTAINER_OF(poll, struct cay_watch_handle, uv)->owner;
    if (!watch)
        return;
    unsigned events = 0;
    if (uv_events & UV_READABLE)
        events |= CAY_READY_READ;
    if (uv_events & UV_WRITABLE)
        events |= CAY_READY_WRITE;
    if (uv_events & UV_DISCONNECT)
        events |= CAY_READY_HANGUP;
    /* An error condition: whoever reads or writes next learns which, though there may be data to
     * read before it. libuv has stopped watching. */
    if (status < 0) {
        events = watch->events;
        start_poll(watch);
    }
    watch->ready(watch, events);
}

static void start_poll(struct cay_watch *watch)
{
    int uv_events = 0;
    if (watch->events & CAY_READY_READ)
        uv_events |= UV_READABLE;
    if (watch->events & CAY_READY_WRITE)
        uv_events |= UV_WRITABLE;
    if (watch->events & CAY_READY_HANGUP)
        uv_events |= UV_DISCONNECT;
    uv_poll_start(&watch->handle->uv, uv_events, on_poll);
}

int cay_watch_open(struct cay_watch *watch, struct cay_loop *loop, int fd,
                   void (*ready)(struct cay_watch *watch, unsigned events))
{
    struct cay_watch_handle *handle = cay_new(struct cay_watch_handle);
    int status = uv_poll_init(&loop->uv, &handle->uv, fd);
    if (status < 0) {
        free(handle);
        return status;
    }
    handle->owner = watch;
    *watch = (struct cay_watch){.ready = ready, .handle = handle};
    return 0;
}

void cay_watch_set(struct cay_watch *watch, unsigned events)
{
    assert(watch->handle);
    if (watch->events == events)
        return;
    watch->events = events;
    if (events)
        start_poll(watch);
    else
        uv_poll_stop(&watch->handle->uv);
}

void cay_watch_close(struct cay_watch *watch)
{
    struct cay_watch_handle *handle = cay_take_ptr(watch->handle);
    if (!handle)
        return;
    watch->events = 0;
    handle->owner = NULL;
    uv_poll_stop(&handle->uv);
    uv_close((uv_handle_t *)&handle->uv, free_handle);
}

static void on_timer(uv_timer_t *uv)
{
    struct cay_timer *timer = CAY_CONTAINER_OF(uv, struct cay_timer_handle, uv)->owner;
    if (timer)
        timer->fired(timer);
}

void cay_timer_open(struct cay_timer *timer, struct cay_loop *loop,
                    void (*fired)(struct cay_timer *timer))
{
    struct cay_timer_handle *handle = cay_new(struct cay_timer_handle);
    int status = uv_timer_init(&loop->uv, &handle->uv);
    assert(status == 0);
    (void)status;
    handle->owner = timer;
    *timer = (struct cay_timer){.fired = fired, .handle = handle};
}

void cay_timer_start(struct cay_timer *timer, uint64_t delay_ms, uint64_t repeat_ms)
{
    assert(timer->handle);
    uv_timer_start(&timer->handle->uv, on_timer, delay_ms, repeat_ms);
}

void cay_timer_stop(struct cay_timer *timer)
{
    if (timer->handle)
        uv_timer_stop(&timer->handle->uv);
}

void cay_timer_close(struct cay_timer *timer)
{
    struct cay_timer_handle *handle = cay_take_ptr(timer->handle);
    if (!handle)
        return;
    handle->owner = NULL;
    uv_timer_stop(&handle->uv);
    uv_close((uv_handle_t *)&handle->uv, free_handle);
}

static void on_signal(uv_signal_t *uv, int number)
{
    struct cay_signal *signal = CAY_CONTAINER_OF(uv, struct cay_signal_handle, uv)->owner;
    if (signal)
        signal->caught(signal, number);
}

int cay_signal_open(struct cay_signal *signal, struct cay_loop *loop, int number,
                    void (*caught)(struct cay_signal *signal, int number))
{
    struct cay_signal_handle *handle = cay_new(struct cay_signal_handle);
    int status = uv_signal_init(&loop->uv, &handle->uv);
    if (status < 0) {
        free(handle);
        return status;
    }
    handle->owner = signal;
    *signal = (struct cay_signal){.caught = caught, .handle = handle};
    status = uv_signal_start(&handle->uv, on_signal, number);
    if (status < 0)
        cay_signal_close(signal);
    return status;
}

void cay_signal_close(struct cay_signal *signal)
{
    struct cay_signal_handle *handle = cay_take_ptr(signal->handle);
    if (!handle)
        return;
    handle->owner = NULL;
    uv_close((uv_handle_t *)&handle->uv, free_handle);
}
