/* SPDX-License-Identifier: Apache-2.0 */
#include "host/runtime/fake/fake.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "wire/frame/decode.h"
#include "wire/frame/encode.h"

enum { CALLS_MAX = 32, ARGS_KEPT = 64 };

struct call {
    uint64_t id; /* 0: free */
    bool ended;
    bool reads_stdin;
    uint64_t offset;
    uint64_t stdin_taken;
    int64_t ends_ms; /* a sleep; 0: not asleep */
    int64_t wall_ms; /* deadline; 0: none */
    struct cay_frame_exit exit;
};

struct server {
    int fd;
    bool alive;
    uint32_t execs;
    size_t in_len;
    struct call calls[CALLS_MAX];
    uint8_t in[CAY_FRAME_BYTES_MAX];
    uint8_t out[CAY_FRAME_DATA_BYTES_MAX * 2];
};

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void transmit(struct server *server, const struct cay_frame_writer *writer)
{
    for (size_t at = 0; at < writer->len && server->alive;) {
        ssize_t sent = send(server->fd, writer->data + at, writer->len - at, MSG_NOSIGNAL);
        if (sent <= 0)
            server->alive = false;
        else
            at += (size_t)sent;
    }
}

static struct cay_frame_writer begin(struct server *server)
{
    return (struct cay_frame_writer){.data = server->out, .cap = sizeof(server->out)};
}

static void refuse(struct server *server, const struct cay_frame *frame, uint32_t error)
{
    struct cay_frame_refused refused = {.type = (uint8_t)frame->type, .error = error};
    struct cay_frame_writer writer = begin(server);
    if (cay_frame_put_refused(&writer, frame->call, &refused))
        transmit(server, &writer);
}

static void print(struct server *server, struct call *call, uint8_t stream, struct cay_str text)
{
    struct cay_frame_output output = {.stream = stream, .offset = call->offset, .data = text};
    struct cay_frame_writer writer = begin(server);
    if (!text.len || !cay_frame_put_output(&writer, call->id, &output))
        return;
    call->offset += text.len;
    call->exit.stdout_bytes += stream == CAY_STREAM_STDOUT ? text.len : 0;
    transmit(server, &writer);
}

static void tell_exit(struct server *server, struct call *call)
{
    call->exit.end_offset = call->offset;
    call->exit.slots.execs = server->execs;
    struct cay_frame_writer writer = begin(server);
    if (cay_frame_put_exit(&writer, call->id, &call->exit))
        transmit(server, &writer);
}

static void finish(struct server *server, struct call *call, uint8_t cause, uint32_t code)
{
    call->ended = true;
    call->ends_ms = call->wall_ms = 0;
    call->reads_stdin = false;
    call->exit.cause = cause;
    if (cause == CAY_CAUSE_EXITED || cause == CAY_CAUSE_FAILED)
        call->exit.code = code;
    else
        call->exit.signal = (uint8_t)code;
    if (cause == CAY_CAUSE_FAILED)
        call->exit.stage = CAY_STAGE_EXEC;
    tell_exit(server, call);
}

static struct call *find(struct server *server, uint64_t id)
{
    for (size_t i = 0; i < CALLS_MAX; i++) {
        if (server->calls[i].id == id)
            return &server->calls[i];
    }
    return NULL;
}

static void print_words(struct server *server, struct call *call, uint8_t stream,
                        const struct cay_frame_exec *exec)
{
    for (uint32_t i = 1; i < exec->arg_count; i++) {
        print(server, call, stream, cay_str(exec->args[i]));
        print(server, call, stream, i + 1 < exec->arg_count ? CAY_STR(" ") : CAY_STR(""));
    }
    print(server, call, stream, CAY_STR("\n"));
}

static uint64_t number_of(const struct cay_frame_exec *exec)
{
    uint64_t number = 0;
    if (exec->arg_count > 1)
        (void)cay_str_to_u64(cay_str(exec->args[1]), 1000000, &number);
    return number;
}

static void run(struct server *server, struct call *call, const struct cay_frame_exec *exec)
{
    struct cay_str name = cay_str(exec->args[0]);
    if (exec->wall_ms)
        call->wall_ms = now_ms() + (int64_t)exec->wall_ms;
    if (cay_str_is(name, "true"))
        finish(server, call, CAY_CAUSE_EXITED, 0);
    else if (cay_str_is(name, "false"))
        finish(server, call, CAY_CAUSE_EXITED, 1);
    else if (cay_str_is(name, "exit"))
        finish(server, call, CAY_CAUSE_EXITED, (uint32_t)number_of(exec) & 0xff);
    else if (cay_str_is(name, "echo") || cay_str_is(name, "warn")) {
        bool warns = cay_str_is(name, "warn");
        print_words(server, call, warns ? CAY_STREAM_STDERR : CAY_STREAM_STDOUT, exec);
        finish(server, call, CAY_CAUSE_EXITED, 0);
    } else if (cay_str_is(name, "sleep"))
        call->ends_ms = now_ms() + (int64_t)number_of(exec) * 1000;
    else if (cay_str_is(name, "cat") && exec->flags & CAY_EXEC_STDIN)
        call->reads_stdin = true;
    else if (cay_str_is(name, "cat"))
        finish(server, call, CAY_CAUSE_EXITED, 0);
    else
        finish(server, call, CAY_CAUSE_FAILED, ENOENT);
}

static void do_exec(struct server *server, const struct cay_frame *frame)
{
    static thread_local const char *args[CAY_FRAME_ARGS_MAX + 1];
    static thread_local const char *env[CAY_FRAME_ENV_MAX + 1];
    struct cay_frame_exec exec = {.args = args, .env = env};
    server->execs++;
    if (!cay_frame_get_exec(frame, &exec)) {
        refuse(server, frame, EINVAL);
        return;
    }
    struct call *call = find(server, frame->call);
    if (call) {
        refuse(server, frame, EEXIST);
        return;
    }
    call = find(server, 0);
    if (!call) {
        refuse(server, frame, EAGAIN);
        return;
    }
    *call = (struct call){.id = frame->call};
    if (exec.flags & CAY_EXEC_TELL_START) {
        struct cay_frame_started started = {.pid = 2, .slots = {.execs = server->execs}};
        struct cay_frame_writer writer = begin(server);
        if (cay_frame_put_started(&writer, call->id, &started))
            transmit(server, &writer);
    }
    run(server, call, &exec);
}

static void do_stdin(struct server *server, struct call *call, const struct cay_frame *frame)
{
    struct cay_str data = {(const char *)frame->payload, frame->len};
    if (call->reads_stdin)
        print(server, call, CAY_STREAM_STDOUT, data);
    call->stdin_taken += data.len;
    struct cay_frame_writer writer = begin(server);
    if (cay_frame_put_u64(&writer, CAY_FRAME_STDIN_ROOM, call->id, call->stdin_taken))
        transmit(server, &writer);
}

static void do_signal(struct server *server, struct call *call, const struct cay_frame *frame)
{
    struct cay_frame_signal signal;
    if (!cay_frame_get_signal(frame, &signal) || call->ended) {
        refuse(server, frame, ESRCH);
        return;
    }
    finish(server, call, CAY_CAUSE_KILLED, signal.signal);
}

static void do_call(struct server *server, const struct cay_frame *frame)
{
    struct call *call = frame->call ? find(server, frame->call) : NULL;
    if (!call) {
        refuse(server, frame, ESRCH);
        return;
    }
    struct cay_frame_writer writer = begin(server);
    switch ((int)frame->type) {
    case CAY_FRAME_STDIN: do_stdin(server, call, frame); break;
    case CAY_FRAME_STDIN_CLOSE:
        if (call->reads_stdin)
            finish(server, call, CAY_CAUSE_EXITED, 0);
        break;
    case CAY_FRAME_SIGNAL: do_signal(server, call, frame); break;
    case CAY_FRAME_ATTACH:
        if (call->ended)
            tell_exit(server, call);
        break;
    case CAY_FRAME_RELEASE:
        if (call->ended)
            *call = (struct call){};
        else
            refuse(server, frame, EBUSY);
        break;
    case CAY_FRAME_PROCS: {
        static const struct cay_frame_procs none = {};
        if (cay_frame_put_procs(&writer, call->id, &none))
            transmit(server, &writer);
        break;
    }
    default: break;
    }
}

static void do_list(struct server *server)
{
    struct cay_frame_writer writer = begin(server);
    uint32_t count = 0;
    for (size_t i = 0; i < CALLS_MAX; i++) {
        const struct call *call = &server->calls[i];
        if (!call->id)
            continue;
        struct cay_frame_call entry = {.state = call->ended ? CAY_CALL_EXITED : CAY_CALL_RUNNING,
                                       .pid = call->ended ? 0 : 2,
                                       .end_offset = call->offset};
        count += cay_frame_put_call(&writer, call->id, &entry);
    }
    if (cay_frame_put_u32(&writer, CAY_FRAME_LISTED, 0, count))
        transmit(server, &writer);
}

static void act(struct server *server, const struct cay_frame *frame)
{
    struct cay_frame_writer writer = begin(server);
    uint64_t value = 0;
    switch ((int)frame->type) {
    case CAY_FRAME_EXEC: do_exec(server, frame); break;
    case CAY_FRAME_LIST: do_list(server); break;
    case CAY_FRAME_PING:
        if (cay_frame_get_u64(frame, &value) &&
            cay_frame_put_u64(&writer, CAY_FRAME_PONG, 0, value))
            transmit(server, &writer);
        break;
    case CAY_FRAME_SHUTDOWN: server->alive = false; break;
    case CAY_FRAME_SKIP_CLOCK:
    case CAY_FRAME_SLOT: break;
    default: do_call(server, frame); break;
    }
}

static void wake(struct server *server)
{
    int64_t now = now_ms();
    for (size_t i = 0; i < CALLS_MAX; i++) {
        struct call *call = &server->calls[i];
        if (call->wall_ms && now >= call->wall_ms)
            finish(server, call, CAY_CAUSE_WALL, SIGKILL);
        else if (call->ends_ms && now >= call->ends_ms)
            finish(server, call, CAY_CAUSE_EXITED, 0);
    }
}

static int timeout_ms(const struct server *server)
{
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < CALLS_MAX; i++) {
        const struct call *call = &server->calls[i];
        first = call->wall_ms ? CAY_MIN(first, call->wall_ms) : first;
        first = call->ends_ms ? CAY_MIN(first, call->ends_ms) : first;
    }
    return first == INT64_MAX ? -1 : (int)CAY_MAX(first - now_ms(), (int64_t)0);
}

static void receive(struct server *server)
{
    ssize_t got =
        recv(server->fd, server->in + server->in_len, sizeof(server->in) - server->in_len, 0);
    if (got <= 0) {
        server->alive = false;
        return;
    }
    server->in_len += (size_t)got;
    size_t at = 0;
    while (server->alive) {
        struct cay_frame frame;
        ssize_t size =
            cay_frame_next(server->in + at, server->in_len - at, CAY_FRAME_FROM_DAEMON, &frame);
        if (size <= 0) {
            server->alive = size == 0;
            break;
        }
        act(server, &frame);
        at += (size_t)size;
    }
    server->in_len -= at;
    memmove(server->in, server->in + at, server->in_len);
}

void cay_fake_serve(int fd)
{
    struct server *server = cay_new(struct server);
    server->fd = fd;
    server->alive = true;
    while (server->alive) {
        struct pollfd entry = {.fd = fd, .events = POLLIN};
        if (poll(&entry, 1, timeout_ms(server)) > 0)
            receive(server);
        wake(server);
    }
    shutdown(fd, SHUT_RDWR);
    free(server);
}
