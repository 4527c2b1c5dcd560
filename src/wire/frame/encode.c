/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/frame/encode.h"

/* A frame under construction. `failed` keeps it from being claimed. */
struct frame {
    struct cay_frame_writer *writer;
    size_t at;
    bool failed;
};

static void put(struct frame *frame, const void *data, size_t len)
{
    if (frame->failed || len > frame->writer->cap - frame->at) {
        frame->failed = true;
        return;
    }
    if (len)
        memcpy(frame->writer->data + frame->at, data, len);
    frame->at += len;
}

static void put_number(struct frame *frame, uint64_t value, size_t bytes)
{
    uint8_t data[8];
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(value >> (8 * i));
    put(frame, data, bytes);
}

static void put_string(struct frame *frame, const char *text, size_t len)
{
    put_number(frame, len, 4);
    put(frame, text, len);
    put_number(frame, 0, 1);
}

static void put_slots(struct frame *frame, const struct cay_frame_slots *slots)
{
    put_number(frame, slots->total, 4);
    put_number(frame, slots->unused, 4);
    put_number(frame, slots->execs, 4);
}

static struct frame begin(struct cay_frame_writer *writer, enum cay_frame_type type, uint64_t call)
{
    struct frame frame = {.writer = writer, .at = writer->len};
    put_number(&frame, 0, 4);
    put_number(&frame, type, 4); /* the type and three zero bytes */
    put_number(&frame, call, 8);
    return frame;
}

static bool end(struct frame *frame)
{
    if (frame->failed)
        return false;
    size_t len = frame->at - frame->writer->len - CAY_FRAME_HEADER_BYTES;
    struct frame header = {.writer = frame->writer, .at = frame->writer->len};
    put_number(&header, len, 4);
    frame->writer->len = frame->at;
    return true;
}

bool cay_frame_put_empty(struct cay_frame_writer *writer, enum cay_frame_type type, uint64_t call)
{
    struct frame frame = begin(writer, type, call);
    return end(&frame);
}

bool cay_frame_put_u64(struct cay_frame_writer *writer, enum cay_frame_type type, uint64_t call,
                       uint64_t value)
{
    struct frame frame = begin(writer, type, call);
    put_number(&frame, value, 8);
    return end(&frame);
}

bool cay_frame_put_u32(struct cay_frame_writer *writer, enum cay_frame_type type, uint64_t call,
                       uint32_t value)
{
    struct frame frame = begin(writer, type, call);
    put_number(&frame, value, 4);
    return end(&frame);
}

bool cay_frame_put_start(struct cay_frame_writer *writer, const struct cay_frame_start *start)
{
    struct frame frame = begin(writer, CAY_FRAME_START, 0);
    put_number(&frame, CAY_FRAME_VERSION_MIN, 4);
    put_number(&frame, start->mode, 1);
    put_number(&frame, start->no_new_privs, 1);
    put_number(&frame, start->nesting, 1);
    put_number(&frame, 0, 1);
    put_number(&frame, start->fds, 4);
    put(&frame, start->token, sizeof(start->token));
    put_number(&frame, start->uid_base, 4);
    put_number(&frame, 0, 4);
    put_number(&frame, start->shm_bytes, 8);
    put_number(&frame, start->open_files, 8);
    put_number(&frame, 0, 8);
    put_string(&frame, start->hostname.ptr, start->hostname.len);
    return end(&frame);
}

bool cay_frame_put_ready(struct cay_frame_writer *writer, const struct cay_frame_ready *ready)
{
    struct frame frame = begin(writer, CAY_FRAME_READY, 0);
    put_number(&frame, ready->stage, 4);
    put_number(&frame, ready->error, 4);
    if (CAY_FRAME_VERSION > 1)
        put_number(&frame, ready->version, 4);
    return end(&frame);
}

bool cay_frame_put_hello(struct cay_frame_writer *writer, const struct cay_frame_hello *hello)
{
    struct frame frame = begin(writer, CAY_FRAME_HELLO, 0);
    put_number(&frame, hello->version, 4);
    put(&frame, hello->token, sizeof(hello->token));
    put_number(&frame, hello->nonce, 8);
    return end(&frame);
}

bool cay_frame_put_welcome(struct cay_frame_writer *writer, const struct cay_frame_welcome *welcome)
{
    struct frame frame = begin(writer, CAY_FRAME_WELCOME, 0);
    put_number(&frame, welcome->version, 4);
    put_number(&frame, welcome->nonce, 8);
    put_number(&frame, welcome->call_max, 8);
    put_number(&frame, welcome->calls, 4);
    put_slots(&frame, &welcome->slots);
    return end(&frame);
}

bool cay_frame_put_slot(struct cay_frame_writer *writer, const struct cay_frame_slot *slot)
{
    struct frame frame = begin(writer, slot->is_room ? CAY_FRAME_ROOM : CAY_FRAME_SLOT, 0);
    put_number(&frame, slot->index, 4);
    put_number(&frame, slot->fds, 1);
    return end(&frame);
}

bool cay_frame_put_exec(struct cay_frame_writer *writer, uint64_t call,
                        const struct cay_frame_exec *exec)
{
    bool is_plain = cay_frame_exec_is_plain(exec);
    struct frame frame = begin(writer, is_plain ? CAY_FRAME_EXEC : CAY_FRAME_SPAWN, call);
    if (!is_plain) {
        put_number(&frame, exec->size.rows, 2);
        put_number(&frame, exec->size.columns, 2);
        put_number(&frame, 0, 8);
    }
    put_number(&frame, exec->flags, 4);
    put_number(&frame, exec->uid, 4);
    put_number(&frame, exec->gid, 4);
    put_number(&frame, exec->group_count, 4);
    put_number(&frame, exec->wall_ms, 8);
    put_number(&frame, exec->quiet_ms, 8);
    put_number(&frame, exec->ring_bytes, 4);
    put_number(&frame, exec->window_bytes, 4);
    put_number(&frame, 0, 8);
    put_number(&frame, exec->arg_count, 4);
    put_number(&frame, exec->env_count, 4);
    for (uint32_t i = 0; i < exec->group_count; i++)
        put_number(&frame, exec->groups[i], 4);
    put_string(&frame, exec->cwd, strlen(exec->cwd));
    for (uint32_t i = 0; i < exec->arg_count; i++)
        put_string(&frame, exec->args[i], strlen(exec->args[i]));
    for (uint32_t i = 0; i < exec->env_count; i++)
        put_string(&frame, exec->env[i], strlen(exec->env[i]));
    return end(&frame);
}

static size_t plain_size(const struct cay_frame_exec *exec)
{
    enum { FIXED_BYTES = CAY_FRAME_HEADER_BYTES + 56, STRING_BYTES = 5 };
    size_t size = FIXED_BYTES + 4 * (size_t)exec->group_count + STRING_BYTES + strlen(exec->cwd);
    for (uint32_t i = 0; i < exec->arg_count; i++)
        size += STRING_BYTES + strlen(exec->args[i]);
    for (uint32_t i = 0; i < exec->env_count; i++)
        size += STRING_BYTES + strlen(exec->env[i]);
    return size;
}

bool cay_frame_exec_is_plain(const struct cay_frame_exec *exec)
{
    return !(exec->flags & ~(uint32_t)CAY_EXEC_FLAGS_1) &&
           exec->env_count <= CAY_FRAME_EXEC_ENV_MAX &&
           plain_size(exec) <= CAY_FRAME_HEADER_BYTES + CAY_FRAME_EXEC_BYTES_MAX;
}

size_t cay_frame_exec_size(const struct cay_frame_exec *exec)
{
    enum { SPAWN_BYTES = 12 };
    return plain_size(exec) + (cay_frame_exec_is_plain(exec) ? 0 : SPAWN_BYTES);
}

bool cay_frame_put_stdin(struct cay_frame_writer *writer, uint64_t call, struct cay_str data)
{
    struct frame frame = begin(writer, CAY_FRAME_STDIN, call);
    put(&frame, data.ptr, data.len);
    return end(&frame);
}

bool cay_frame_put_signal(struct cay_frame_writer *writer, uint64_t call,
                          const struct cay_frame_signal *signal)
{
    struct frame frame = begin(writer, CAY_FRAME_SIGNAL, call);
    put_number(&frame, signal->signal, 4);
    put_number(&frame, signal->target, 1);
    return end(&frame);
}

bool cay_frame_put_attach(struct cay_frame_writer *writer, uint64_t call, uint64_t offset,
                          uint32_t window_bytes)
{
    struct frame frame = begin(writer, CAY_FRAME_ATTACH, call);
    put_number(&frame, offset, 8);
    put_number(&frame, window_bytes, 4);
    return end(&frame);
}

bool cay_frame_put_started(struct cay_frame_writer *writer, uint64_t call,
                           const struct cay_frame_started *started)
{
    struct frame frame = begin(writer, CAY_FRAME_STARTED, call);
    put_number(&frame, started->pid, 4);
    put_number(&frame, started->slot, 4);
    put_slots(&frame, &started->slots);
    return end(&frame);
}

bool cay_frame_put_output(struct cay_frame_writer *writer, uint64_t call,
                          const struct cay_frame_output *output)
{
    struct frame frame = begin(writer, CAY_FRAME_OUTPUT, call);
    put_number(&frame, output->stream, 1);
    put_number(&frame, output->offset, 8);
    put(&frame, output->data.ptr, output->data.len);
    return end(&frame);
}

bool cay_frame_put_piece(struct cay_frame_writer *writer, uint64_t call,
                         const struct cay_frame_piece *piece)
{
    struct frame frame = begin(writer, CAY_FRAME_PIECE, call);
    put_number(&frame, piece->output.stream, 1);
    put_number(&frame, piece->output.offset, 8);
    put_number(&frame, piece->kept_offset, 8);
    put(&frame, piece->output.data.ptr, piece->output.data.len);
    return end(&frame);
}

static bool put_people(struct cay_frame_writer *writer, enum cay_frame_type type, uint64_t call,
                       const struct cay_frame_who *who)
{
    struct frame frame = begin(writer, type, call);
    put_number(&frame, who->total, 4);
    put_number(&frame, who->count, 4);
    for (uint32_t i = 0; i < who->count; i++) {
        put_number(&frame, who->pids[i], 4);
        put_string(&frame, who->commands[i].ptr, who->commands[i].len);
    }
    return end(&frame);
}

bool cay_frame_put_who(struct cay_frame_writer *writer, uint64_t call,
                       const struct cay_frame_who *who)
{
    return put_people(writer, CAY_FRAME_WHO_IS, call, who);
}

bool cay_frame_put_killed(struct cay_frame_writer *writer, uint64_t call,
                          const struct cay_frame_who *who)
{
    return put_people(writer, CAY_FRAME_KILLED_ARE, call, who);
}

bool cay_frame_put_read(struct cay_frame_writer *writer, uint64_t call, uint64_t offset,
                        uint32_t len_max)
{
    struct frame frame = begin(writer, CAY_FRAME_READ, call);
    put_number(&frame, offset, 8);
    put_number(&frame, len_max, 4);
    return end(&frame);
}

bool cay_frame_put_size(struct cay_frame_writer *writer, uint64_t call,
                        const struct cay_frame_size *size)
{
    struct frame frame = begin(writer, CAY_FRAME_RESIZE, call);
    put_number(&frame, size->rows, 2);
    put_number(&frame, size->columns, 2);
    return end(&frame);
}

bool cay_frame_put_detail(struct cay_frame_writer *writer, uint64_t call,
                          const struct cay_frame_detail *detail)
{
    struct frame frame = begin(writer, CAY_FRAME_DETAIL, call);
    put_number(&frame, detail->flags, 4);
    put_number(&frame, detail->size.rows, 2);
    put_number(&frame, detail->size.columns, 2);
    put_number(&frame, detail->stdin_total, 8);
    put_number(&frame, detail->stdin_queued, 4);
    put_number(&frame, detail->stdin_open, 4);
    put_number(&frame, detail->stdout_bytes, 8);
    return end(&frame);
}

bool cay_frame_put_exit(struct cay_frame_writer *writer, uint64_t call,
                        const struct cay_frame_exit *exit)
{
    struct frame frame = begin(writer, CAY_FRAME_EXIT, call);
    put_number(&frame, exit->cause, 1);
    put_number(&frame, exit->signal, 1);
    put_number(&frame, exit->stage, 1);
    put_number(&frame, 0, 1);
    put_number(&frame, exit->code, 4);
    put_number(&frame, exit->end_offset, 8);
    put_number(&frame, exit->kept_offset, 8);
    put_number(&frame, exit->wall_usec, 8);
    put_number(&frame, exit->user_usec, 8);
    put_number(&frame, exit->system_usec, 8);
    put_number(&frame, exit->memory_peak_bytes, 8);
    put_number(&frame, exit->stdout_bytes, 8);
    put_number(&frame, exit->leftovers, 4);
    put_number(&frame, exit->oom_kills, 4);
    put_slots(&frame, &exit->slots);
    return end(&frame);
}

bool cay_frame_put_call(struct cay_frame_writer *writer, uint64_t call,
                        const struct cay_frame_call *entry)
{
    struct frame frame = begin(writer, CAY_FRAME_CALL, call);
    put_number(&frame, entry->state, 1);
    put_number(&frame, 0, 3);
    put_number(&frame, entry->pid, 4);
    put_number(&frame, entry->slot, 4);
    put_number(&frame, entry->leftovers, 4);
    put_number(&frame, 0, 8);
    put_number(&frame, entry->kept_offset, 8);
    put_number(&frame, entry->end_offset, 8);
    put_number(&frame, entry->age_ms, 8);
    return end(&frame);
}

bool cay_frame_put_procs(struct cay_frame_writer *writer, uint64_t call,
                         const struct cay_frame_procs *procs)
{
    struct frame frame = begin(writer, CAY_FRAME_PROCS_ARE, call);
    put_number(&frame, procs->total, 4);
    for (uint32_t i = 0; i < procs->count; i++)
        put_number(&frame, procs->pids[i], 4);
    return end(&frame);
}

bool cay_frame_put_refused(struct cay_frame_writer *writer, uint64_t call,
                           const struct cay_frame_refused *refused)
{
    struct frame frame = begin(writer, CAY_FRAME_REFUSED, call);
    put_number(&frame, refused->type, 1);
    put_number(&frame, refused->error, 4);
    return end(&frame);
}
