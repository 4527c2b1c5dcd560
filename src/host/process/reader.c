/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/reader.h"

#include <assert.h>

enum { PIECE_BYTES = CAY_FRAME_DATA_BYTES_MAX };

/* Where the output ends for good; UINT64_MAX while more may come. */
static uint64_t end_of(const struct cay_process *process)
{
    return cay_process_is_over(process) ? process->output_end : UINT64_MAX;
}

/* What others went on to write after its end is not its output. */
static uint64_t output_end_of(const struct cay_process *process)
{
    return process->is_exiting ? process->exit.end_offset : end_of(process);
}

/* What comes by itself must be taken: whoever is full has the next pieces held back instead. */
static bool takes(const struct cay_reader *reader)
{
    return !reader->is_full || reader->is_callers;
}

/* Everybody once, whoever comes or goes meanwhile: callbacks may end any call. Who was visited goes
 * to the back. */
static struct cay_reader *next_reader(struct cay_process *process)
{
    struct cay_reader *reader =
        CAY_LIST_ITEM(cay_list_first(&process->readers), struct cay_reader, in_process);
    if (!reader || reader->walk == process->walk)
        return NULL;
    cay_list_remove(&reader->in_process);
    cay_list_push_back(&process->readers, &reader->in_process);
    reader->walk = process->walk;
    return reader;
}

/* What cannot come any more is told as lost. */
static void tell_losses(struct cay_process *process)
{
    struct cay_reader *reader;
    process->walk++;
    while (!process->has_output && (reader = next_reader(process))) {
        uint64_t end = CAY_MIN(end_of(process), reader->limit);
        if (!takes(reader) || end == UINT64_MAX || reader->offset >= end)
            continue;
        const struct cay_frame_output nothing = {.stream = CAY_STREAM_STDOUT, .offset = end};
        uint64_t gap = end - reader->offset;
        reader->offset = end;
        reader->dropped_bytes += gap;
        reader->output(reader, &nothing, gap);
    }
}

/* Ends those that have everything. A reader without room is told of the end when it has some. */
static void end_readers(struct cay_process *process)
{
    struct cay_reader *reader;
    process->walk++;
    while ((reader = next_reader(process))) {
        uint64_t end = CAY_MIN(end_of(process), reader->limit);
        if (!takes(reader) || reader->offset < end)
            continue;
        cay_list_remove(&reader->in_process);
        reader->ended(reader);
    }
}

static uint64_t taken_by(struct cay_reader *reader)
{
    uint64_t unsent = reader->unsent ? reader->unsent(reader) : 0;
    /* Half a message is none. */
    uint64_t lost = unsent ? CAY_MAX(unsent + PIECE_BYTES, unsent) : 0;
    return reader->offset - CAY_MIN(reader->offset, lost);
}

static const struct cay_reader *reader_of_caller(const struct cay_process *process)
{
    cay_list_for_each (struct cay_reader, reader, &process->readers, in_process) {
        if (reader->is_callers)
            return reader;
    }
    return NULL;
}

/* Init goes on with what it sends by itself when the caller has taken it. Once nobody takes it, no
 * writer may wait for that. */
static void acknowledge_pushed(struct cay_process *process)
{
    struct cay_processes *table = process->table;
    struct cay_error ignored = {};
    const struct cay_reader *reader = reader_of_caller(process);
    uint64_t step = process->window_bytes / 4;
    if (!process->is_pushed || (reader && reader->is_full) ||
        (reader && reader->offset - process->acked_offset < step))
        return;
    if (reader) {
        process->acked_offset = reader->offset;
        (void)cay_link_ack(table->link, process->call, reader->offset, &ignored);
    } else {
        process->is_pushed = false;
        if (cay_process_is_over(process) && !process->exit.leftovers)
            return; /* nobody writes any more, and init may have forgotten it */
        (void)cay_link_detach(table->link, process->call, &ignored);
    }
    table->ops->link_used(table->owner);
}

/* A writer that blocks goes on when the slowest has taken the oldest. */
static void acknowledge(struct cay_process *process)
{
    struct cay_error ignored = {};
    uint64_t offset = UINT64_MAX;
    /* For whoever comes back, nothing may be dropped. */
    if (!(process->flags & CAY_EXEC_BLOCK) || process->is_orphan)
        return;
    if (cay_list_empty(&process->readers)) {
        if (process->flags & CAY_EXEC_FOLLOW && !process->is_unread) {
            (void)cay_link_ack(process->table->link, process->call, UINT64_MAX, &ignored);
            process->table->ops->link_used(process->table->owner);
            process->is_unread = true;
        }
        return;
    }
    cay_list_for_each (struct cay_reader, reader, &process->readers, in_process)
        offset = CAY_MIN(offset, taken_by(reader));
    if (offset <= process->acked_offset && !process->is_unread)
        return;
    process->is_unread = false;
    process->acked_offset = offset;
    (void)cay_link_ack(process->table->link, process->call, offset, &ignored);
}

static struct cay_reader *furthest_behind(const struct cay_process *process)
{
    struct cay_reader *found = NULL;
    cay_list_for_each (struct cay_reader, reader, &process->readers, in_process) {
        bool is_fed = reader->is_callers && process->is_pushed;
        if (!reader->is_full && !is_fed && (!found || reader->offset < found->offset))
            found = reader;
    }
    return found;
}

/* An old init must be told to let its writer go on. */
static void ask_no_more(struct cay_process *process)
{
    struct cay_error ignored = {};
    if (!process->is_attached || !process->table->link)
        return;
    process->is_attached = process->is_reading = false;
    (void)cay_link_detach(process->table->link, process->call, &ignored);
    process->table->ops->link_used(process->table->owner);
}

/* One read of a call at a time: true when that of the other process of the call comes first. */
static bool is_peer_first(const struct cay_process *process, uint64_t offset)
{
    struct cay_process *peer =
        cay_processes_of_call(process->table, process->call, !process->is_leftover);
    if (!peer || !peer->is_reading)
        return false;
    if (peer->read_offset <= offset)
        return true; /* its answer comes to us, too */
    peer->is_reading = false;
    return false;
}

static void ask(struct cay_process *process)
{
    struct cay_processes *table = process->table;
    struct cay_error ignored = {};
    const struct cay_reader *reader = furthest_behind(process);
    bool is_old = table->link && cay_link_version(table->link) < 2;
    if (!reader || !table->link || !process->has_output || reader->offset >= end_of(process)) {
        ask_no_more(process);
        return;
    }
    if (is_old && process->is_pushed)
        return; /* it can do one or the other: what is pushed comes to all */
    /* A piece for somebody further ahead may wait for output that is long in coming. An old init
     * does not tell what it dropped: its answer must be to what was asked. */
    if (process->is_reading && (is_old || reader->offset >= process->read_offset))
        return;
    if (is_peer_first(process, reader->offset))
        return;
    process->is_reading = true;
    process->is_attached = is_old;
    process->read_offset = reader->offset;
    (void)cay_link_read(table->link, process->call, reader->offset, PIECE_BYTES, &ignored);
    table->ops->link_used(table->owner);
}

void cay_readers_pump(struct cay_process *process)
{
    if (process->busy)
        return; /* whoever is at work goes on with it */
    process->busy++;
    bool had_output;
    do { /* a caller that has everything may take the rest from the others */
        had_output = process->has_output;
        tell_losses(process);
        end_readers(process);
    } while (had_output && !process->has_output);
    if (process->table->link) {
        acknowledge_pushed(process);
        acknowledge(process);
    }
    if (!process->is_gone)
        ask(process);
    process->busy--;
    if (process->is_gone)
        cay_process_forget(process);
}

static void give(struct cay_reader *reader, const struct cay_frame_piece *piece, uint64_t end)
{
    struct cay_frame_output output = piece->output;
    uint64_t gap = 0;
    if (reader->offset < CAY_MIN(piece->kept_offset, end))
        gap = CAY_MIN(piece->kept_offset, end) - reader->offset;
    uint64_t from = reader->offset + gap;
    uint64_t until = CAY_MIN(output.offset + output.data.len, end);
    bool is_here = from >= output.offset && from < until;
    if (!is_here && !gap)
        return;
    reader->dropped_bytes += gap;
    reader->offset = is_here ? until : from;
    output.data = is_here ? (struct cay_str){output.data.ptr + (from - output.offset), until - from}
                          : (struct cay_str){};
    output.offset = from;
    reader->output(reader, &output, gap);
}

void cay_readers_piece(struct cay_process *process, const struct cay_frame_piece *piece)
{
    process->output_start = CAY_MAX(process->output_start, piece->kept_offset);
    if (!cay_process_is_over(process))
        process->output_end =
            CAY_MAX(process->output_end, piece->output.offset + piece->output.data.len);
    struct cay_reader *reader;
    process->busy++;
    process->walk++;
    while ((reader = next_reader(process))) {
        if (takes(reader))
            give(reader, piece, CAY_MIN(output_end_of(process), reader->limit));
    }
    process->busy--;
    cay_readers_pump(process);
}

void cay_reader_open(struct cay_reader *reader, struct cay_process *process, uint64_t offset,
                     uint64_t limit)
{
    assert(reader->output && reader->ended);
    reader->process = process;
    reader->walk = 0;
    reader->offset = offset;
    reader->limit = limit;
    cay_list_push_back(&process->readers, &reader->in_process);
    cay_readers_pump(process);
}

void cay_reader_close(struct cay_reader *reader)
{
    if (!cay_list_linked(&reader->in_process))
        return;
    cay_list_remove(&reader->in_process);
    cay_readers_pump(reader->process);
}

void cay_reader_go_on(struct cay_reader *reader)
{
    bool is_linked = cay_list_linked(&reader->in_process);
    /* More was sent on its way: a writer may wait for that. */
    if (!reader->is_full && !(is_linked && reader->process->flags & CAY_EXEC_BLOCK))
        return;
    reader->is_full = false;
    if (is_linked)
        cay_readers_pump(reader->process);
}
