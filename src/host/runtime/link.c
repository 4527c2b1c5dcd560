/* SPDX-License-Identifier: Apache-2.0 */
#include "host/runtime/link.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/id.h"
#include "host/runtime/carrier.h"
#include "host/runtime/runtime_ops.h"
#include "host/runtime/socket.h"
#include "wire/frame/decode.h"
#include "wire/frame/encode.h"

enum {
    IN_BYTES = 2 * (CAY_FRAME_HEADER_BYTES + CAY_FRAME_DATA_BYTES_MAX + 64),
    OUT_KEEP_BYTES = 4096,
    READS_PER_STEP = 16, /* then others have their turn */
    KILLED_MAX = 16,     /* lists that wait for who asks */
    WELCOME_BYTES = CAY_FRAME_HEADER_BYTES + 36,
};

/* Who was killed with a call. */
struct killed {
    uint64_t call;
    struct cay_frame_who who;
    char texts[CAY_FRAME_WHO_MAX][CAY_FRAME_WHO_TEXT_BYTES_MAX];
};

struct cay_link {
    struct cay_sandbox *sandbox;
    struct cay_link_handlers handlers;
    void *owner;
    struct cay_carrier carrier;
    bool welcomed;
    uint32_t lists;  /* asked for and not ended */
    bool wants_list; /* once the version is known */
    bool has_entry;  /* a CALL waits for its DETAIL */
    uint64_t entry_call;
    struct cay_frame_call entry;
    uint32_t version; /* 0: not known yet */
    uint64_t nonce;
    uint64_t call_max;
    uint64_t answered; /* the latest PING */
    /* A slot must be free for every EXEC we send. Init reports as of so many EXEC frames seen. */
    bool has_slots;
    uint32_t slots_sent;
    uint32_t execs_sent;
    struct cay_frame_slots slots;        /* latest report */
    uint64_t rooms[CAY_FRAME_ROOMS_MAX]; /* calls in groups with limits; 0: free */
    struct killed *killed[KILLED_MAX];   /* of the calls that ended last */
    uint32_t killed_next;
    struct cay_buf out;
    size_t in_len;
    uint8_t *in; /* IN_BYTES while something of it waits: most links are silent */
};

static bool dead(struct cay_error *err, int result)
{
    return cay_fail_errno(err, CAY_R_UNAVAILABLE, result, "the sandbox's init");
}

/* Room for a frame of at most size bytes at the end of what is to be sent. */
static bool begin(struct cay_link *link, size_t size, struct cay_frame_writer *out_writer,
                  struct cay_error *err)
{
    char *room = cay_buf_reserve(&link->out, size);
    if (!room) {
        link->out.failed = false; /* what is in it is whole */
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "the sandbox does not read its requests");
    }
    *out_writer = (struct cay_frame_writer){.data = (uint8_t *)room, .cap = size};
    return true;
}

/* Sends as much as goes now; the rest waits for the descriptor. */
static bool flush(struct cay_link *link, struct cay_error *err)
{
    while (link->out.len) {
        ssize_t sent = cay_carrier_send(&link->carrier, link->out.data, link->out.len);
        if (sent == -EAGAIN)
            return true;
        if (sent < 0)
            return dead(err, (int)sent);
        cay_buf_consume(&link->out, (size_t)sent);
    }
    cay_buf_clear(&link->out, OUT_KEEP_BYTES);
    return true;
}

static bool end(struct cay_link *link, const struct cay_frame_writer *writer, bool written,
                struct cay_error *err)
{
    assert(written);
    cay_buf_grew(&link->out, writer->len);
    return flush(link, err);
}

static bool send_hello(struct cay_link *link, const uint8_t *token, struct cay_error *err)
{
    struct cay_frame_hello hello = {.version = CAY_FRAME_VERSION_MIN, .nonce = link->nonce};
    memcpy(hello.token, token, sizeof(hello.token));
    struct cay_frame_writer writer;
    return begin(link, 64, &writer, err) &&
           end(link, &writer, cay_frame_put_hello(&writer, &hello), err);
}

bool cay_link_open(struct cay_sandbox *sandbox, const struct cay_link_handlers *handlers,
                   void *owner, struct cay_link **out_link, struct cay_error *err)
{
    struct cay_connection connection = {.fd = -1, .out_fd = -1};
    if (!sandbox->runtime->ops->connect(sandbox, &connection, err))
        return cay_wrap(err, "link sandbox '%s'", sandbox->id);
    struct cay_carrier carrier;
    int result = cay_carrier_open(&carrier, connection.fd, connection.out_fd, connection.is_first);
    if (result < 0)
        return dead(err, result);
    struct cay_link *link = cay_new(struct cay_link);
    link->sandbox = sandbox;
    link->handlers = *handlers;
    link->owner = owner;
    link->carrier = carrier;
    link->welcomed = connection.is_first;
    link->version = connection.is_first ? connection.version : 0;
    link->has_slots = sandbox->runtime->ops->open_slot != NULL;
    /* Init, which is hostile, learns nothing from it: no address, no count. */
    cay_random_bytes(&link->nonce, sizeof(link->nonce));
    cay_buf_init(&link->out, CAY_LINK_OUT_BYTES_MAX);
    if (!connection.is_first && !send_hello(link, connection.token, err)) {
        cay_link_close(link);
        return false;
    }
    *out_link = link;
    return true;
}

void cay_link_close(struct cay_link *link)
{
    if (!link)
        return;
    cay_carrier_close(&link->carrier);
    for (size_t i = 0; i < KILLED_MAX; i++)
        free(link->killed[i]);
    cay_buf_finish(&link->out);
    free(link->in);
    free(link);
}

int cay_link_fd(const struct cay_link *link)
{
    return cay_carrier_fd(&link->carrier);
}

short cay_link_wants(struct cay_link *link)
{
    return cay_carrier_wants(&link->carrier, link->out.len);
}

uint64_t cay_link_answered(const struct cay_link *link)
{
    return link->answered;
}

uint32_t cay_link_version(const struct cay_link *link)
{
    return link->version;
}

uint32_t cay_link_stdin_window(const struct cay_link *link)
{
    return link->version > 1 ? CAY_FRAME_STDIN_WINDOW_BYTES : CAY_FRAME_STDIN_WINDOW_BYTES_1;
}

uint64_t cay_link_call_max(const struct cay_link *link)
{
    return link->call_max;
}

#define TELL(link, name, ...)                                                \
    do {                                                                     \
        if ((link)->handlers.name)                                           \
            (link)->handlers.name((link)->owner __VA_OPT__(, ) __VA_ARGS__); \
    } while (0)

/* Init counts what we sent; it cannot have seen more. */
static bool take_slots(struct cay_link *link, const struct cay_frame_slots *slots)
{
    if (slots->total > link->slots_sent || slots->execs > link->execs_sent)
        return false;
    link->slots = *slots;
    return true;
}

static void leave_room(struct cay_link *link, uint64_t call)
{
    for (size_t i = 0; i < CAY_FRAME_ROOMS_MAX; i++) {
        if (link->rooms[i] == call)
            link->rooms[i] = 0;
    }
}

static bool take_welcome(struct cay_link *link, const struct cay_frame *frame)
{
    struct cay_frame_welcome welcome;
    if (link->welcomed || !cay_frame_get_welcome(frame, &welcome) ||
        welcome.version < CAY_FRAME_VERSION_MIN || welcome.version > CAY_FRAME_VERSION ||
        welcome.nonce != link->nonce)
        return false;
    link->welcomed = true;
    link->version = welcome.version;
    link->call_max = CAY_MAX(link->call_max, welcome.call_max);
    link->slots_sent = CAY_MAX(link->slots_sent, welcome.slots.total);
    struct cay_error ignored = {};
    if (link->wants_list)
        (void)cay_link_list(link, &ignored); /* a link that broke shows at the next step */
    return take_slots(link, &welcome.slots);
}

static bool take_exit(struct cay_link *link, const struct cay_frame *frame)
{
    struct cay_frame_exit exit;
    if (!cay_frame_get_exit(frame, &exit) || !take_slots(link, &exit.slots))
        return false;
    if (!exit.leftovers)
        leave_room(link, frame->call);
    TELL(link, exited, frame->call, &exit);
    return true;
}

static bool take_started(struct cay_link *link, const struct cay_frame *frame)
{
    struct cay_frame_started started;
    if (!cay_frame_get_started(frame, &started) || !take_slots(link, &started.slots))
        return false;
    TELL(link, started, frame->call, started.pid);
    return true;
}

static bool take_output(struct cay_link *link, const struct cay_frame *frame)
{
    struct cay_frame_output output;
    if (!cay_frame_get_output(frame, &output))
        return false;
    TELL(link, output, frame->call, &output);
    return true;
}

static bool take_entry(struct cay_link *link, const struct cay_frame *frame)
{
    if (!link->lists || link->has_entry || !cay_frame_get_call(frame, &link->entry))
        return false;
    uint32_t room = link->entry.slot - CAY_FRAME_SLOTS_MAX;
    if (room < CAY_FRAME_ROOMS_MAX)
        link->rooms[room] = frame->call;
    link->has_entry = link->version > 1;
    link->entry_call = frame->call;
    if (!link->has_entry)
        TELL(link, listed, frame->call, &link->entry, NULL);
    return true;
}

static bool take_detail(struct cay_link *link, const struct cay_frame *frame)
{
    struct cay_frame_detail detail;
    if (!link->has_entry || frame->call != link->entry_call ||
        !cay_frame_get_detail(frame, &detail))
        return false;
    link->has_entry = false;
    TELL(link, listed, frame->call, &link->entry, &detail);
    return true;
}

static bool take_piece(struct cay_link *link, const struct cay_frame *frame)
{
    struct cay_frame_piece piece;
    if (!cay_frame_get_piece(frame, &piece))
        return false;
    TELL(link, piece, frame->call, &piece);
    return true;
}

static bool take_who(struct cay_link *link, const struct cay_frame *frame)
{
    struct cay_frame_who who;
    if (!cay_frame_get_who(frame, &who))
        return false;
    TELL(link, who, frame->call, &who);
    return true;
}

static bool take_killed(struct cay_link *link, const struct cay_frame *frame)
{
    struct killed *killed = link->killed[link->killed_next];
    if (!killed)
        killed = link->killed[link->killed_next] = cay_new(struct killed);
    link->killed_next = (link->killed_next + 1) % KILLED_MAX;
    killed->call = frame->call;
    if (!cay_frame_get_who(frame, &killed->who)) {
        killed->call = 0;
        return false;
    }
    for (uint32_t i = 0; i < killed->who.count; i++) { /* the frame's bytes go */
        struct cay_str *command = &killed->who.commands[i];
        command->len = CAY_MIN(command->len, sizeof(killed->texts[i]));
        if (command->len)
            memcpy(killed->texts[i], command->ptr, command->len);
        command->ptr = killed->texts[i];
    }
    return true;
}

const struct cay_frame_who *cay_link_killed(const struct cay_link *link, uint64_t call)
{
    for (size_t i = 0; i < KILLED_MAX; i++) {
        if (link->killed[i] && link->killed[i]->call == call)
            return &link->killed[i]->who;
    }
    return NULL;
}

static bool take_procs(struct cay_link *link, const struct cay_frame *frame)
{
    struct cay_frame_procs procs;
    if (!cay_frame_get_procs(frame, &procs))
        return false;
    TELL(link, procs, frame->call, &procs);
    if (link->version < 2) {
        struct cay_frame_who who = {.total = procs.total,
                                    .count = CAY_MIN(procs.count, (uint32_t)CAY_FRAME_WHO_MAX)};
        memcpy(who.pids, procs.pids, who.count * sizeof(who.pids[0]));
        TELL(link, who, frame->call, &who);
    }
    return true;
}

static bool take_refused(struct cay_link *link, const struct cay_frame *frame)
{
    struct cay_frame_refused refused;
    if (!cay_frame_get_refused(frame, &refused))
        return false;
    if (refused.type == CAY_FRAME_SPAWN)
        leave_room(link, frame->call);
    TELL(link, refused, frame->call, (enum cay_frame_type)refused.type, (int)refused.error);
    return true;
}

static bool take(struct cay_link *link, const struct cay_frame *frame)
{
    uint64_t number = 0;
    uint32_t count = 0;
    if (!link->welcomed)
        return frame->type == CAY_FRAME_WELCOME && take_welcome(link, frame);
    switch ((int)frame->type) {
    case CAY_FRAME_OUTPUT: return take_output(link, frame);
    case CAY_FRAME_EXIT: return take_exit(link, frame);
    case CAY_FRAME_STARTED: return take_started(link, frame);
    case CAY_FRAME_CALL: return take_entry(link, frame);
    case CAY_FRAME_DETAIL: return take_detail(link, frame);
    case CAY_FRAME_PIECE: return take_piece(link, frame);
    case CAY_FRAME_WHO_IS: return take_who(link, frame);
    case CAY_FRAME_PROCS_ARE: return take_procs(link, frame);
    case CAY_FRAME_KILLED_ARE: return take_killed(link, frame);
    case CAY_FRAME_REFUSED: return take_refused(link, frame);
    case CAY_FRAME_STDIN_ROOM:
        if (!cay_frame_get_u64(frame, &number))
            return false;
        TELL(link, stdin_room, frame->call, number);
        return true;
    case CAY_FRAME_GONE:
        if (!cay_frame_get_u64(frame, &number))
            return false;
        leave_room(link, frame->call);
        TELL(link, gone, frame->call);
        return true;
    case CAY_FRAME_PONG:
        if (!cay_frame_get_u64(frame, &number))
            return false;
        link->answered = number;
        TELL(link, pong, number);
        return true;
    case CAY_FRAME_LISTED:
        if (link->has_entry || !link->lists || !cay_frame_get_u32(frame, &count))
            return false;
        link->lists--;
        TELL(link, list_ended, count);
        return true;
    default: return false;
    }
}

/* In a pipe, what init told an earlier daemon comes first, from the middle of a frame maybe. The
 * answer to our own HELLO is known by its nonce, which nobody else has seen. */
static size_t skip_foreign(const struct cay_link *link)
{
    size_t at = 0;
    for (; link->in_len - at >= WELCOME_BYTES; at++) {
        struct cay_frame frame;
        struct cay_frame_welcome welcome;
        if (cay_frame_next(link->in + at, WELCOME_BYTES, CAY_FRAME_FROM_INIT, &frame) ==
                WELCOME_BYTES &&
            frame.type == CAY_FRAME_WELCOME && cay_frame_get_welcome(&frame, &welcome) &&
            welcome.nonce == link->nonce)
            break;
    }
    return at;
}

static bool consume(struct cay_link *link, struct cay_error *err)
{
    size_t at = !link->welcomed && link->carrier.out_fd >= 0 ? skip_foreign(link) : 0;
    for (;;) {
        if (!link->welcomed && link->carrier.out_fd >= 0 && link->in_len - at < WELCOME_BYTES)
            break;
        struct cay_frame frame;
        ssize_t size =
            cay_frame_next(link->in + at, link->in_len - at, CAY_FRAME_FROM_INIT, &frame);
        if (size == 0)
            break;
        if (size < 0 || !take(link, &frame))
            return cay_fail(err, CAY_R_RUNTIME_FAILED, "the sandbox's init broke the protocol");
        at += (size_t)size;
    }
    link->in_len -= at;
    if (at && link->in_len)
        memmove(link->in, link->in + at, link->in_len);
    return true;
}

static bool receive(struct cay_link *link, struct cay_error *err)
{
    for (int i = 0; i < READS_PER_STEP; i++) {
        size_t room = IN_BYTES - link->in_len;
        ssize_t got = cay_carrier_receive(&link->carrier, link->in + link->in_len, room);
        if (got == -EAGAIN)
            return true;
        if (got <= 0)
            return dead(err, got < 0 ? (int)got : -EPIPE);
        link->in_len += (size_t)got;
        if (!consume(link, err))
            return false;
        if ((size_t)got < room)
            return true;
    }
    return true;
}

bool cay_link_step(struct cay_link *link, struct cay_error *err)
{
    if (!flush(link, err))
        return false;
    if (!link->in)
        link->in = cay_realloc_array(NULL, IN_BYTES, 1); /* not zeroed */
    bool is_good = receive(link, err);
    if (!link->in_len)
        free(cay_take_ptr(link->in));
    return is_good;
}

/* What has descriptors is sent past the buffer: so the buffer must be empty. */
static bool is_flushed(struct cay_link *link, struct cay_error *err)
{
    if (!flush(link, err))
        return false;
    return !link->out.len ||
           cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "the sandbox does not read its requests");
}

/* One more control group, so that the next EXEC finds a free one. */
static bool send_slot(struct cay_link *link, struct cay_error *err)
{
    if (link->slots_sent >= CAY_FRAME_SLOTS_MAX)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "%d commands run in the sandbox; end some of them", CAY_FRAME_SLOTS_MAX);
    if (!is_flushed(link, err))
        return false;
    struct cay_cgroup_slot slot;
    int result = link->sandbox->runtime->ops->open_slot(link->sandbox, link->slots_sent, &slot);
    if (result == -EOPNOTSUPP) {
        link->has_slots = false;
        return true;
    }
    if (result < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, result, "make a control group");
    result = cay_socket_send_slot(link->carrier.fd, false, link->slots_sent, &slot);
    cay_cgroup_close_slot(&slot);
    if (result < 0)
        return dead(err, result);
    link->slots_sent++;
    return true;
}

/* A control group with limits, for this call alone. */
static bool send_room(struct cay_link *link, uint64_t call, const struct cay_frame_exec *exec,
                      struct cay_error *err)
{
    const struct cay_runtime_ops *ops = link->sandbox->runtime->ops;
    const struct cay_cgroup_limits limits = {
        .memory_bytes = exec->memory_bytes, .pids = exec->pids, .cpu_millis = exec->cpu_millis};
    struct cay_cgroup_slot room;
    int result = ops->open_room ? -EBUSY : -EOPNOTSUPP;
    if (!is_flushed(link, err))
        return false;
    uint32_t index = 0;
    for (uint32_t i = 0; i < CAY_FRAME_ROOMS_MAX && result == -EBUSY; i++) {
        index = i;
        if (!link->rooms[i])
            result = ops->open_room(link->sandbox, i, &limits, &room);
    }
    if (result == -EBUSY)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "%d commands with limits of their own run in the sandbox; end some of them",
                        CAY_FRAME_ROOMS_MAX);
    if (result == -EOPNOTSUPP)
        return cay_fail(err, CAY_R_NOT_SUPPORTED,
                        "policy.limits: this host cannot limit single commands in that way");
    if (result < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, result, "make a control group");
    result = cay_socket_send_slot(link->carrier.fd, true, index, &room);
    cay_cgroup_close_slot(&room);
    if (result < 0)
        return dead(err, result);
    link->rooms[index] = call;
    return true;
}

/* Free ones of the latest report, and those sent since, less commands sent since. */
static bool ensure_slot(struct cay_link *link, struct cay_error *err)
{
    int64_t unused = (int64_t)link->slots.unused + (link->slots_sent - link->slots.total) -
                     (int64_t)(link->execs_sent - link->slots.execs);
    return !link->has_slots || unused > 0 || send_slot(link, err);
}

bool cay_link_exec(struct cay_link *link, uint64_t call, const struct cay_frame_exec *exec,
                   struct cay_error *err)
{
    size_t size = cay_frame_exec_size(exec);
    if (size > CAY_FRAME_BYTES_MAX || exec->arg_count == 0 ||
        exec->arg_count > CAY_FRAME_ARGS_MAX || exec->env_count > CAY_FRAME_ENV_MAX ||
        exec->group_count > CAY_FRAME_GROUPS_MAX || call == 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "the command's arguments and environment are too long");
    bool has_room = exec->flags & CAY_EXEC_ROOM;
    if ((link->version < 2 && !cay_frame_exec_is_plain(exec)) || (link->version < 3 && has_room))
        return cay_fail(err, CAY_R_NOT_SUPPORTED,
                        "the sandbox was started by an older cayd and cannot do that; it can once "
                        "nothing runs in it and it was started anew");
    struct cay_frame_writer writer;
    bool has_group = has_room ? send_room(link, call, exec, err) : ensure_slot(link, err);
    if (!has_group || !begin(link, size, &writer, err))
        return false;
    link->execs_sent++;
    link->call_max = CAY_MAX(link->call_max, call);
    return end(link, &writer, cay_frame_put_exec(&writer, call, exec), err);
}

bool cay_link_stdin(struct cay_link *link, uint64_t call, struct cay_str data,
                    struct cay_error *err)
{
    while (data.len) {
        struct cay_str part = {data.ptr, CAY_MIN(data.len, (size_t)CAY_FRAME_DATA_BYTES_MAX)};
        struct cay_frame_writer writer;
        if (!begin(link, CAY_FRAME_HEADER_BYTES + part.len, &writer, err) ||
            !end(link, &writer, cay_frame_put_stdin(&writer, call, part), err))
            return false;
        data.ptr += part.len;
        data.len -= part.len;
    }
    return true;
}

static bool send_empty(struct cay_link *link, enum cay_frame_type type, uint64_t call,
                       struct cay_error *err)
{
    struct cay_frame_writer writer;
    return begin(link, CAY_FRAME_HEADER_BYTES, &writer, err) &&
           end(link, &writer, cay_frame_put_empty(&writer, type, call), err);
}

static bool send_u64(struct cay_link *link, enum cay_frame_type type, uint64_t call, uint64_t value,
                     struct cay_error *err)
{
    struct cay_frame_writer writer;
    return begin(link, CAY_FRAME_HEADER_BYTES + 8, &writer, err) &&
           end(link, &writer, cay_frame_put_u64(&writer, type, call, value), err);
}

bool cay_link_close_stdin(struct cay_link *link, uint64_t call, struct cay_error *err)
{
    return send_empty(link, CAY_FRAME_STDIN_CLOSE, call, err);
}

bool cay_link_signal(struct cay_link *link, uint64_t call, int signal, enum cay_frame_target target,
                     struct cay_error *err)
{
    if (signal < 1 || signal > 64)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "there is no signal %d", signal);
    struct cay_frame_signal request = {.signal = (uint32_t)signal, .target = (uint8_t)target};
    struct cay_frame_writer writer;
    return begin(link, 64, &writer, err) &&
           end(link, &writer, cay_frame_put_signal(&writer, call, &request), err);
}

bool cay_link_ack(struct cay_link *link, uint64_t call, uint64_t offset, struct cay_error *err)
{
    return send_u64(link, CAY_FRAME_ACK, call, offset, err);
}

bool cay_link_attach(struct cay_link *link, uint64_t call, uint64_t offset, uint32_t window_bytes,
                     struct cay_error *err)
{
    struct cay_frame_writer writer;
    return begin(link, 64, &writer, err) &&
           end(link, &writer, cay_frame_put_attach(&writer, call, offset, window_bytes), err);
}

bool cay_link_read(struct cay_link *link, uint64_t call, uint64_t offset, uint32_t len_max,
                   struct cay_error *err)
{
    struct cay_frame_writer writer;
    if (link->version < 2)
        return cay_link_attach(link, call, offset, len_max, err);
    return begin(link, 64, &writer, err) &&
           end(link, &writer, cay_frame_put_read(&writer, call, offset, len_max), err);
}

bool cay_link_resize(struct cay_link *link, uint64_t call, const struct cay_frame_size *size,
                     struct cay_error *err)
{
    struct cay_frame_writer writer;
    return begin(link, 64, &writer, err) &&
           end(link, &writer, cay_frame_put_size(&writer, call, size), err);
}

bool cay_link_detach(struct cay_link *link, uint64_t call, struct cay_error *err)
{
    return send_empty(link, CAY_FRAME_DETACH, call, err);
}

bool cay_link_release(struct cay_link *link, uint64_t call, struct cay_error *err)
{
    return send_empty(link, CAY_FRAME_RELEASE, call, err);
}

bool cay_link_list(struct cay_link *link, struct cay_error *err)
{
    if (!link->version) {
        link->wants_list = true;
        return true;
    }
    link->lists++;
    return send_empty(link, link->version > 1 ? CAY_FRAME_SURVEY : CAY_FRAME_LIST, 0, err);
}

bool cay_link_list_procs(struct cay_link *link, uint64_t call, struct cay_error *err)
{
    return send_empty(link, CAY_FRAME_PROCS, call, err);
}

bool cay_link_who(struct cay_link *link, uint64_t call, struct cay_error *err)
{
    return send_empty(link, link->version > 1 ? CAY_FRAME_WHO : CAY_FRAME_PROCS, call, err);
}

bool cay_link_ping(struct cay_link *link, uint64_t value, struct cay_error *err)
{
    return send_u64(link, CAY_FRAME_PING, 0, value, err);
}

bool cay_link_skip_clock(struct cay_link *link, uint64_t ms, struct cay_error *err)
{
    return send_u64(link, CAY_FRAME_SKIP_CLOCK, 0, ms, err);
}
