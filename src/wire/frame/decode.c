/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/frame/decode.h"

#include <errno.h>

#define DAEMON CAY_FRAME_FROM_DAEMON
#define INIT   CAY_FRAME_FROM_INIT

struct type_info {
    uint8_t side; /* 0: no such type */
    uint32_t len_min;
    uint32_t len_max;
    uint32_t since;
};

static const struct type_info types[256] = {
#define CAY_FRAME(name, number, who, min, max, since) [number] = {who, min, max, since},
#include "wire/frame/frames.def"
#undef CAY_FRAME
};

/* What is left of a payload. Reading past the end sets `failed`, which is asked once at the end. */
struct rest {
    const uint8_t *at;
    size_t len;
    bool failed;
};

static const uint8_t *take(struct rest *rest, size_t len)
{
    if (rest->failed || len > rest->len) {
        rest->failed = true;
        return NULL;
    }
    const uint8_t *data = rest->at;
    rest->at += len;
    rest->len -= len;
    return data;
}

static uint64_t take_number(struct rest *rest, size_t bytes)
{
    const uint8_t *data = take(rest, bytes);
    uint64_t value = 0;
    for (size_t i = 0; data && i < bytes; i++)
        value |= (uint64_t)data[i] << (8 * i);
    return value;
}

static uint8_t take_u8(struct rest *rest)
{
    return (uint8_t)take_number(rest, 1);
}

static uint32_t take_u32(struct rest *rest)
{
    return (uint32_t)take_number(rest, 4);
}

static uint64_t take_u64(struct rest *rest)
{
    return take_number(rest, 8);
}

static void take_zero(struct rest *rest, size_t bytes)
{
    if (take_number(rest, bytes) != 0)
        rest->failed = true;
}

static struct cay_str take_string(struct rest *rest, size_t len_max)
{
    size_t len = take_u32(rest);
    if (len > len_max)
        rest->failed = true;
    const char *text = (const char *)take(rest, len);
    const uint8_t *terminator = take(rest, 1);
    if (rest->failed || *terminator != 0 || memchr(text, 0, len)) {
        rest->failed = true;
        return (struct cay_str){};
    }
    return (struct cay_str){text, len};
}

static struct cay_frame_slots take_slots(struct rest *rest)
{
    struct cay_frame_slots slots = {.total = take_u32(rest)};
    slots.unused = take_u32(rest);
    slots.execs = take_u32(rest);
    if (slots.total > CAY_FRAME_SLOTS_MAX || slots.unused > slots.total)
        rest->failed = true;
    return slots;
}

static struct cay_frame_size take_size(struct rest *rest)
{
    struct cay_frame_size size = {.rows = (uint16_t)take_number(rest, 2)};
    size.columns = (uint16_t)take_number(rest, 2);
    return size;
}

static struct rest open_frame(const struct cay_frame *frame)
{
    return (struct rest){.at = frame->payload, .len = frame->len};
}

static bool close_frame(const struct rest *rest)
{
    return !rest->failed && rest->len == 0;
}

ssize_t cay_frame_next(const uint8_t *data, size_t len, enum cay_frame_side side,
                       struct cay_frame *out_frame)
{
    if (len < CAY_FRAME_HEADER_BYTES)
        return 0;
    struct rest rest = {.at = data, .len = CAY_FRAME_HEADER_BYTES};
    uint32_t payload_len = take_u32(&rest);
    uint8_t type = take_u8(&rest);
    take_zero(&rest, 3);
    uint64_t call = take_u64(&rest);
    const struct type_info *info = &types[type];
    if (rest.failed || info->side != side || info->since > CAY_FRAME_VERSION ||
        payload_len < info->len_min || payload_len > info->len_max)
        return -EPROTO;
    size_t size = CAY_FRAME_HEADER_BYTES + (size_t)payload_len;
    if (len < size)
        return 0;
    *out_frame = (struct cay_frame){.type = (enum cay_frame_type)type,
                                    .call = call,
                                    .payload = data + CAY_FRAME_HEADER_BYTES,
                                    .len = payload_len};
    return (ssize_t)size;
}

bool cay_frame_get_u64(const struct cay_frame *frame, uint64_t *out_value)
{
    struct rest rest = open_frame(frame);
    *out_value = take_u64(&rest);
    return close_frame(&rest);
}

bool cay_frame_get_u32(const struct cay_frame *frame, uint32_t *out_value)
{
    struct rest rest = open_frame(frame);
    *out_value = take_u32(&rest);
    return close_frame(&rest);
}

bool cay_frame_get_start(const struct cay_frame *frame, struct cay_frame_start *out_start)
{
    struct rest rest = open_frame(frame);
    uint32_t version = take_u32(&rest);
    *out_start = (struct cay_frame_start){.mode = take_u8(&rest)};
    uint8_t no_new_privs = take_u8(&rest);
    out_start->no_new_privs = no_new_privs == 1;
    uint8_t nesting = take_u8(&rest);
    out_start->nesting = nesting == 1;
    take_zero(&rest, 1);
    out_start->fds = take_u32(&rest);
    const uint8_t *token = take(&rest, CAY_FRAME_TOKEN_BYTES);
    if (token)
        memcpy(out_start->token, token, CAY_FRAME_TOKEN_BYTES);
    out_start->uid_base = take_u32(&rest);
    take_zero(&rest, 4);
    out_start->shm_bytes = take_u64(&rest);
    out_start->open_files = take_u64(&rest);
    take_zero(&rest, 8);
    out_start->hostname = take_string(&rest, CAY_FRAME_HOSTNAME_BYTES_MAX);
    return close_frame(&rest) && version >= CAY_FRAME_VERSION_MIN && version <= CAY_FRAME_VERSION &&
           no_new_privs <= 1 && nesting <= 1 && out_start->fds < 1u << CAY_FRAME_START_FDS_MAX &&
           (out_start->mode == CAY_FRAME_MODE_NAMESPACES ||
            out_start->mode == CAY_FRAME_MODE_PLAIN || out_start->mode == CAY_FRAME_MODE_GVISOR);
}

bool cay_frame_get_ready(const struct cay_frame *frame, struct cay_frame_ready *out_ready)
{
    struct rest rest = open_frame(frame);
    *out_ready = (struct cay_frame_ready){.stage = take_u32(&rest)};
    out_ready->error = take_u32(&rest);
    out_ready->version = rest.len ? take_u32(&rest) : 1; /* the first did not say so */
    return close_frame(&rest) && out_ready->stage < CAY_STAGES && out_ready->error < 4096;
}

bool cay_frame_get_hello(const struct cay_frame *frame, struct cay_frame_hello *out_hello)
{
    struct rest rest = open_frame(frame);
    *out_hello = (struct cay_frame_hello){.version = take_u32(&rest)};
    const uint8_t *token = take(&rest, CAY_FRAME_TOKEN_BYTES);
    if (token)
        memcpy(out_hello->token, token, CAY_FRAME_TOKEN_BYTES);
    out_hello->nonce = take_u64(&rest);
    return close_frame(&rest);
}

bool cay_frame_get_welcome(const struct cay_frame *frame, struct cay_frame_welcome *out_welcome)
{
    struct rest rest = open_frame(frame);
    *out_welcome = (struct cay_frame_welcome){.version = take_u32(&rest)};
    out_welcome->nonce = take_u64(&rest);
    out_welcome->call_max = take_u64(&rest);
    out_welcome->calls = take_u32(&rest);
    out_welcome->slots = take_slots(&rest);
    return close_frame(&rest);
}

bool cay_frame_get_slot(const struct cay_frame *frame, struct cay_frame_slot *out_slot)
{
    struct rest rest = open_frame(frame);
    bool is_room = frame->type == CAY_FRAME_ROOM;
    *out_slot = (struct cay_frame_slot){.is_room = is_room, .index = take_u32(&rest)};
    out_slot->fds = take_u8(&rest);
    uint32_t count = is_room ? CAY_FRAME_ROOMS_MAX : CAY_FRAME_SLOTS_MAX;
    int fds = is_room ? CAY_FRAME_ROOM_FDS : CAY_FRAME_SLOT_FDS;
    return close_frame(&rest) && out_slot->index < count && out_slot->fds < 1 << fds;
}

static bool take_strings(struct rest *rest, uint32_t count, const char **out_strings)
{
    for (uint32_t i = 0; i < count && !rest->failed; i++)
        out_strings[i] = take_string(rest, CAY_FRAME_SPAWN_BYTES_MAX).ptr;
    out_strings[count] = NULL;
    return !rest->failed;
}

bool cay_frame_get_exec(const struct cay_frame *frame, struct cay_frame_exec *in_out_exec)
{
    struct rest rest = open_frame(frame);
    struct cay_frame_exec exec = {.args = in_out_exec->args, .env = in_out_exec->env};
    bool is_plain = frame->type == CAY_FRAME_EXEC;
    uint32_t flags = is_plain ? CAY_EXEC_FLAGS_1 : CAY_EXEC_FLAGS;
    uint32_t env_max = is_plain ? CAY_FRAME_EXEC_ENV_MAX : CAY_FRAME_ENV_MAX;
    if (!is_plain) {
        exec.size = take_size(&rest);
        take_zero(&rest, 8);
    }
    exec.flags = take_u32(&rest);
    exec.uid = take_u32(&rest);
    exec.gid = take_u32(&rest);
    exec.group_count = take_u32(&rest);
    exec.wall_ms = take_u64(&rest);
    exec.quiet_ms = take_u64(&rest);
    exec.ring_bytes = take_u32(&rest);
    exec.window_bytes = take_u32(&rest);
    take_zero(&rest, 8);
    exec.arg_count = take_u32(&rest);
    exec.env_count = take_u32(&rest);
    if (rest.failed || exec.flags & ~flags || exec.group_count > CAY_FRAME_GROUPS_MAX ||
        exec.arg_count == 0 || exec.arg_count > CAY_FRAME_ARGS_MAX || exec.env_count > env_max ||
        exec.ring_bytes < CAY_FRAME_RING_BYTES_MIN || exec.ring_bytes > CAY_FRAME_RING_BYTES_MAX ||
        exec.ring_bytes & (exec.ring_bytes - 1) || exec.window_bytes > exec.ring_bytes ||
        exec.wall_ms > INT64_MAX / 2 || exec.quiet_ms > INT64_MAX / 2 || frame->call == 0)
        return false;
    for (uint32_t i = 0; i < exec.group_count; i++)
        exec.groups[i] = take_u32(&rest);
    struct cay_str cwd = take_string(&rest, CAY_FRAME_PATH_BYTES_MAX);
    exec.cwd = cwd.ptr;
    if (rest.failed || cwd.len == 0 || cwd.ptr[0] != '/')
        return false;
    if (!take_strings(&rest, exec.arg_count, exec.args) ||
        !take_strings(&rest, exec.env_count, exec.env) || !close_frame(&rest) || !exec.args[0][0])
        return false;
    *in_out_exec = exec;
    return true;
}

bool cay_frame_get_signal(const struct cay_frame *frame, struct cay_frame_signal *out_signal)
{
    struct rest rest = open_frame(frame);
    *out_signal = (struct cay_frame_signal){.signal = take_u32(&rest)};
    out_signal->target = take_u8(&rest);
    return close_frame(&rest) && out_signal->signal >= 1 && out_signal->signal <= 64 &&
           out_signal->target >= CAY_TARGET_PROCESS && out_signal->target <= CAY_TARGET_TREE;
}

bool cay_frame_get_attach(const struct cay_frame *frame, uint64_t *out_offset,
                          uint32_t *out_window_bytes)
{
    struct rest rest = open_frame(frame);
    *out_offset = take_u64(&rest);
    *out_window_bytes = take_u32(&rest);
    return close_frame(&rest) && *out_window_bytes <= CAY_FRAME_RING_BYTES_MAX;
}

bool cay_frame_get_started(const struct cay_frame *frame, struct cay_frame_started *out_started)
{
    struct rest rest = open_frame(frame);
    *out_started = (struct cay_frame_started){.pid = take_u32(&rest)};
    out_started->slot = take_u32(&rest);
    out_started->slots = take_slots(&rest);
    return close_frame(&rest);
}

/* The rest of the payload is output. */
static bool take_output(struct rest *rest, struct cay_frame_output *output)
{
    output->data = (struct cay_str){(const char *)rest->at, rest->len};
    uint64_t end = 0;
    return !rest->failed && output->stream >= CAY_STREAM_STDOUT &&
           output->stream <= CAY_STREAM_PTY &&
           !__builtin_add_overflow(output->offset, rest->len, &end);
}

bool cay_frame_get_output(const struct cay_frame *frame, struct cay_frame_output *out_output)
{
    struct rest rest = open_frame(frame);
    *out_output = (struct cay_frame_output){.stream = take_u8(&rest)};
    out_output->offset = take_u64(&rest);
    return take_output(&rest, out_output);
}

bool cay_frame_get_piece(const struct cay_frame *frame, struct cay_frame_piece *out_piece)
{
    struct rest rest = open_frame(frame);
    *out_piece = (struct cay_frame_piece){.output.stream = take_u8(&rest)};
    out_piece->output.offset = take_u64(&rest);
    out_piece->kept_offset = take_u64(&rest);
    return take_output(&rest, &out_piece->output) &&
           out_piece->kept_offset <= out_piece->output.offset;
}

bool cay_frame_get_who(const struct cay_frame *frame, struct cay_frame_who *out_who)
{
    struct rest rest = open_frame(frame);
    out_who->total = take_u32(&rest);
    out_who->count = take_u32(&rest);
    if (rest.failed || out_who->count > CAY_FRAME_WHO_MAX || out_who->count > out_who->total)
        return false;
    for (uint32_t i = 0; i < out_who->count; i++) {
        out_who->pids[i] = take_u32(&rest);
        out_who->commands[i] = take_string(&rest, CAY_FRAME_WHO_TEXT_BYTES_MAX);
    }
    return close_frame(&rest);
}

bool cay_frame_get_exit(const struct cay_frame *frame, struct cay_frame_exit *out_exit)
{
    struct rest rest = open_frame(frame);
    *out_exit = (struct cay_frame_exit){.cause = take_u8(&rest)};
    out_exit->signal = take_u8(&rest);
    out_exit->stage = take_u8(&rest);
    take_zero(&rest, 1);
    out_exit->code = take_u32(&rest);
    out_exit->end_offset = take_u64(&rest);
    out_exit->kept_offset = take_u64(&rest);
    out_exit->wall_usec = take_u64(&rest);
    out_exit->user_usec = take_u64(&rest);
    out_exit->system_usec = take_u64(&rest);
    out_exit->memory_peak_bytes = take_u64(&rest);
    out_exit->stdout_bytes = take_u64(&rest);
    out_exit->leftovers = take_u32(&rest);
    out_exit->oom_kills = take_u32(&rest);
    out_exit->slots = take_slots(&rest);
    return close_frame(&rest) && out_exit->cause >= CAY_CAUSE_EXITED &&
           out_exit->cause < CAY_CAUSES && out_exit->signal <= 64 && out_exit->stage < CAY_STAGES &&
           out_exit->kept_offset <= out_exit->end_offset &&
           out_exit->stdout_bytes <= out_exit->end_offset && out_exit->code < 4096;
}

bool cay_frame_get_call(const struct cay_frame *frame, struct cay_frame_call *out_entry)
{
    struct rest rest = open_frame(frame);
    *out_entry = (struct cay_frame_call){.state = take_u8(&rest)};
    take_zero(&rest, 3);
    out_entry->pid = take_u32(&rest);
    out_entry->slot = take_u32(&rest);
    out_entry->leftovers = take_u32(&rest);
    take_zero(&rest, 8);
    out_entry->kept_offset = take_u64(&rest);
    out_entry->end_offset = take_u64(&rest);
    out_entry->age_ms = take_u64(&rest);
    return close_frame(&rest) && out_entry->state >= CAY_CALL_RUNNING &&
           out_entry->state <= CAY_CALL_LEFT && out_entry->kept_offset <= out_entry->end_offset;
}

bool cay_frame_get_procs(const struct cay_frame *frame, struct cay_frame_procs *out_procs)
{
    struct rest rest = open_frame(frame);
    out_procs->total = take_u32(&rest);
    out_procs->count = 0;
    while (rest.len && out_procs->count < CAY_FRAME_PROCS_MAX && !rest.failed)
        out_procs->pids[out_procs->count++] = take_u32(&rest);
    return close_frame(&rest) && out_procs->total >= out_procs->count;
}

bool cay_frame_get_refused(const struct cay_frame *frame, struct cay_frame_refused *out_refused)
{
    struct rest rest = open_frame(frame);
    *out_refused = (struct cay_frame_refused){.type = take_u8(&rest)};
    out_refused->error = take_u32(&rest);
    return close_frame(&rest) && out_refused->error < 4096;
}

bool cay_frame_get_read(const struct cay_frame *frame, uint64_t *out_offset, uint32_t *out_len_max)
{
    struct rest rest = open_frame(frame);
    *out_offset = take_u64(&rest);
    *out_len_max = take_u32(&rest);
    return close_frame(&rest) && *out_len_max && *out_len_max <= CAY_FRAME_DATA_BYTES_MAX;
}

bool cay_frame_get_size(const struct cay_frame *frame, struct cay_frame_size *out_size)
{
    struct rest rest = open_frame(frame);
    *out_size = take_size(&rest);
    return close_frame(&rest);
}

bool cay_frame_get_detail(const struct cay_frame *frame, struct cay_frame_detail *out_detail)
{
    struct rest rest = open_frame(frame);
    *out_detail = (struct cay_frame_detail){.flags = take_u32(&rest)};
    out_detail->size = take_size(&rest);
    out_detail->stdin_total = take_u64(&rest);
    out_detail->stdin_queued = take_u32(&rest);
    uint32_t stdin_open = take_u32(&rest);
    out_detail->stdin_open = stdin_open == 1;
    out_detail->stdout_bytes = take_u64(&rest);
    return close_frame(&rest) && !(out_detail->flags & ~(uint32_t)CAY_EXEC_FLAGS) &&
           stdin_open <= 1 && out_detail->stdin_queued <= CAY_FRAME_STDIN_WINDOW_BYTES;
}

const char *cay_frame_stage_name(uint32_t stage)
{
    static const char *const names[CAY_STAGES] = {
        [CAY_STAGE_NONE] = "none",         [CAY_STAGE_SPEC] = "spec",
        [CAY_STAGE_CGROUP] = "cgroup",     [CAY_STAGE_ROOT] = "root",
        [CAY_STAGE_DEV] = "dev",           [CAY_STAGE_PROC] = "proc",
        [CAY_STAGE_PIVOT] = "pivot",       [CAY_STAGE_NETWORK] = "network",
        [CAY_STAGE_HOSTNAME] = "hostname", [CAY_STAGE_USERNS] = "userns",
        [CAY_STAGE_SECCOMP] = "seccomp",   [CAY_STAGE_CAPS] = "caps",
        [CAY_STAGE_LIMITS] = "limits",     [CAY_STAGE_STDIO] = "stdio",
        [CAY_STAGE_USER] = "user",         [CAY_STAGE_CWD] = "cwd",
        [CAY_STAGE_EXEC] = "exec",         [CAY_STAGE_FORK] = "fork",
        [CAY_STAGE_SYS] = "sys",
    };
    return stage < CAY_STAGES ? names[stage] : "unknown";
}
