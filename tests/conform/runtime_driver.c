/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conform/runtime_driver.h"

#include <poll.h>
#include <stdio.h>
#include <time.h>

enum { KEPT_BYTES_MAX = 64 << 20, RUN_TIMEOUT_MS = 30000 };

static const char *const default_env[] = {"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
                                          "HOME=/tmp", NULL};

int64_t driver_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct driver_call *find(struct driver *driver, uint64_t id)
{
    for (size_t i = 0; i < DRIVER_CALLS_MAX; i++) {
        if (driver->calls[i].id == id)
            return &driver->calls[i];
    }
    return NULL;
}

static void on_started(void *owner, uint64_t id, uint32_t pid)
{
    struct driver_call *call = find(owner, id);
    if (call) {
        call->started = true;
        call->pid = pid;
    }
}

static void on_output(void *owner, uint64_t id, const struct cay_frame_output *output)
{
    struct driver *driver = owner;
    struct driver_call *call = find(driver, id);
    if (!call)
        return;
    if (output->offset > call->next_offset)
        call->dropped_bytes += output->offset - call->next_offset;
    call->next_offset = output->offset + output->data.len;
    cay_buf_append_str(output->stream == CAY_STREAM_STDOUT ? &call->out : &call->err, output->data);
    cay_buf_append_str(&call->both, output->data);
    if (!call->holds && call->next_offset - call->acked >= call->window_bytes / 2) {
        call->acked = call->next_offset;
        (void)cay_link_ack(driver->link, id, call->acked, &driver->error);
    }
}

static void on_stdin_room(void *owner, uint64_t id, uint64_t taken_bytes)
{
    struct driver_call *call = find(owner, id);
    if (call)
        call->stdin_taken = taken_bytes;
}

static void on_exited(void *owner, uint64_t id, const struct cay_frame_exit *exit)
{
    struct driver_call *call = find(owner, id);
    if (call) {
        call->exit = *exit;
        call->exited = true;
    }
}

static void on_gone(void *owner, uint64_t id)
{
    struct driver_call *call = find(owner, id);
    if (call)
        call->gone = true;
}

static void on_piece(void *owner, uint64_t id, const struct cay_frame_piece *piece)
{
    struct driver_call *call = find(owner, id);
    if (!call)
        return;
    call->has_piece = true;
    call->piece_offset = piece->output.offset;
    cay_buf_append_str(&call->pieces, piece->output.data);
}

static void on_listed(void *owner, uint64_t, const struct cay_frame_call *,
                      const struct cay_frame_detail *)
{
    ((struct driver *)owner)->listed++;
}

static void on_list_ended(void *owner, uint32_t)
{
    ((struct driver *)owner)->list_ended = true;
}

static void on_procs(void *owner, uint64_t id, const struct cay_frame_procs *procs)
{
    struct driver_call *call = find(owner, id);
    if (call) {
        call->procs = *procs;
        call->has_procs = true;
    }
}

static void on_pong(void *owner, uint64_t value)
{
    ((struct driver *)owner)->pong = value;
}

static void on_refused(void *owner, uint64_t id, enum cay_frame_type, int error)
{
    struct driver_call *call = find(owner, id);
    if (call)
        call->refused = error;
}

static const struct cay_link_handlers handlers = {
    .started = on_started,
    .output = on_output,
    .stdin_room = on_stdin_room,
    .exited = on_exited,
    .gone = on_gone,
    .piece = on_piece,
    .listed = on_listed,
    .list_ended = on_list_ended,
    .procs = on_procs,
    .pong = on_pong,
    .refused = on_refused,
};

bool driver_open(struct driver *driver, struct cay_sandbox *sandbox)
{
    *driver = (struct driver){.next_id = 1};
    if (cay_link_open(sandbox, &handlers, driver, &driver->link, &driver->error))
        return true;
    fprintf(stderr, "link: %s\n", driver->error.text);
    return false;
}

void driver_close(struct driver *driver)
{
    cay_link_close(driver->link);
    for (size_t i = 0; i < DRIVER_CALLS_MAX; i++) {
        cay_buf_finish(&driver->calls[i].out);
        cay_buf_finish(&driver->calls[i].err);
        cay_buf_finish(&driver->calls[i].both);
        cay_buf_finish(&driver->calls[i].pieces);
    }
    *driver = (struct driver){};
}

/* Entries are used in turn: an ended call is overwritten after DRIVER_CALLS_MAX more. */
struct driver_call *driver_expect(struct driver *driver, uint64_t id)
{
    struct driver_call *call = &driver->calls[id % DRIVER_CALLS_MAX];
    cay_buf_finish(&call->out);
    cay_buf_finish(&call->err);
    cay_buf_finish(&call->both);
    cay_buf_finish(&call->pieces);
    *call = (struct driver_call){.id = id, .window_bytes = CAY_LINK_RING_BYTES};
    cay_buf_init(&call->out, KEPT_BYTES_MAX);
    cay_buf_init(&call->err, KEPT_BYTES_MAX);
    cay_buf_init(&call->both, KEPT_BYTES_MAX);
    cay_buf_init(&call->pieces, KEPT_BYTES_MAX);
    if (id >= driver->next_id)
        driver->next_id = id + 1;
    return call;
}

static uint32_t count_of(const char *const *list)
{
    uint32_t count = 0;
    while (list[count])
        count++;
    return count;
}

struct driver_call *driver_start(struct driver *driver, const struct driver_exec *exec)
{
    const char *shell[] = {"/bin/sh", "-c", exec->script, NULL};
    const char *const *args = exec->script ? shell : exec->args;
    const char *const *env = exec->env ? exec->env : default_env;
    struct driver_call *call = driver_expect(driver, exec->again ? exec->again : driver->next_id);
    struct cay_frame_exec frame = {
        .flags = exec->flags,
        .uid = exec->uid,
        .gid = exec->uid,
        .wall_ms = exec->wall_ms,
        .quiet_ms = exec->quiet_ms,
        .size = exec->size,
        .ring_bytes = exec->ring_bytes ? exec->ring_bytes : CAY_LINK_RING_BYTES,
        .cwd = exec->cwd ? exec->cwd : "/",
        .arg_count = count_of(args),
        .env_count = count_of(env),
        .args = (const char **)(uintptr_t)args,
        .env = (const char **)(uintptr_t)env,
    };
    frame.window_bytes = exec->detached ? 0 : frame.ring_bytes;
    call->window_bytes = frame.window_bytes;
    call->holds = exec->holds;
    if (!cay_link_exec(driver->link, call->id, &frame, &driver->error)) {
        fprintf(stderr, "exec: %s\n", driver->error.text);
        return NULL;
    }
    return call;
}

void driver_step(struct driver *driver, int timeout_ms)
{
    struct pollfd entry = {.fd = cay_link_fd(driver->link), .events = cay_link_wants(driver->link)};
    if (driver->dead || poll(&entry, 1, timeout_ms) <= 0)
        return;
    if (!cay_link_step(driver->link, &driver->error))
        driver->dead = true;
}

bool driver_until(struct driver *driver, const bool *flag, int timeout_ms)
{
    int64_t deadline_ms = driver_now_ms() + timeout_ms;
    while (!*flag && !driver->dead) {
        int64_t left_ms = deadline_ms - driver_now_ms();
        if (left_ms <= 0)
            break;
        driver_step(driver, (int)left_ms);
    }
    return *flag;
}

/* The end may come before the last of the output does. */
static bool wait_complete(struct driver *driver, struct driver_call *call)
{
    int64_t deadline_ms = driver_now_ms() + RUN_TIMEOUT_MS;
    while (!driver->dead && !call->refused && driver_now_ms() < deadline_ms) {
        if (call->exited && (!call->window_bytes || call->next_offset >= call->exit.end_offset))
            return true;
        driver_step(driver, 100);
    }
    return false;
}

struct driver_call *driver_run(struct driver *driver, const struct driver_exec *exec)
{
    struct driver_call *call = driver_start(driver, exec);
    if (!call || !wait_complete(driver, call)) {
        if (call)
            fprintf(stderr, "run: refused %d, dead %d: %s\n", call->refused, driver->dead,
                    driver->error.text);
        return NULL;
    }
    (void)cay_link_release(driver->link, call->id, &driver->error);
    return call;
}

const char *driver_text(struct cay_buf *buf)
{
    char *end = cay_buf_reserve(buf, 1);
    if (!end)
        return "";
    *end = '\0';
    return buf->data;
}
