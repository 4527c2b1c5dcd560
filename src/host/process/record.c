/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/record.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "host/db/db.h"
#include "host/process/release.h"

enum { NOUN_BYTES_MAX = 4 * 1024 * 1024 };

void cay_process_record_take(struct cay_process_record *out_record,
                             const struct cay_process *process)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, NOUN_BYTES_MAX);
    *out_record = (struct cay_process_record){
        .call = process->call,
        .created_ns = process->started_ns,
        .is_leftover = process->is_leftover,
        .kills_on_disconnect = process->kills_on_disconnect,
        .is_plain = process->is_plain,
    };
    memcpy(out_record->id, process->id, sizeof(process->id));
    snprintf(out_record->session_id, sizeof(out_record->session_id), "%s",
             process->table->session_id);
    cay_buf_init(&out_record->process, NOUN_BYTES_MAX);
    cay_buf_init(&out_record->spec, NOUN_BYTES_MAX);
    struct cay_v1_process *noun = cay_process_message(process, &arena);
    if (noun)
        noun->ports = (struct cay_v1_exposed_port_array){}; /* they end with the daemon */
    if (noun)
        (void)cay_pb_encode(&cay_v1_process_desc, noun, &out_record->process);
    if (process->spec)
        (void)cay_pb_encode(&cay_v1_process_spec_desc, process->spec, &out_record->spec);
}

void cay_process_record_finish(struct cay_process_record *record)
{
    cay_buf_finish(&record->process);
    cay_buf_finish(&record->spec);
}

bool cay_process_record_put(struct cay_db *db, const struct cay_process_record *record,
                            struct cay_error *err)
{
    struct cay_db_query query;
    cay_db_begin(&query, db,
                 "INSERT INTO processes (id, session_id, call, created_ns, is_leftover,"
                 " kills_on_disconnect, is_plain, process, spec)"
                 " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
                 " ON CONFLICT (id) DO UPDATE SET process = excluded.process,"
                 " is_plain = excluded.is_plain");
    cay_db_bind_text(&query, cay_str(record->id));
    cay_db_bind_text(&query, cay_str(record->session_id));
    cay_db_bind_int(&query, (int64_t)record->call);
    cay_db_bind_int(&query, record->created_ns);
    cay_db_bind_int(&query, record->is_leftover);
    cay_db_bind_int(&query, record->kills_on_disconnect);
    cay_db_bind_int(&query, record->is_plain);
    cay_db_bind_blob(&query, cay_buf_str(&record->process));
    cay_db_bind_blob(&query, cay_buf_str(&record->spec));
    return cay_db_end(&query, err) || cay_wrap(err, "record process '%s'", record->id);
}

bool cay_process_record_delete(struct cay_db *db, const char *id, struct cay_error *err)
{
    struct cay_db_query query;
    cay_db_begin(&query, db, "DELETE FROM processes WHERE id = ?");
    cay_db_bind_text(&query, cay_str(id));
    return cay_db_end(&query, err) || cay_wrap(err, "remove the record of process '%s'", id);
}

bool cay_process_records_load(struct cay_db *db, cay_process_record_fn *visit, void *context,
                              struct cay_error *err)
{
    struct cay_db_query query;
    bool is_good = true;
    cay_db_begin(&query, db,
                 "SELECT id, session_id, call, created_ns, is_leftover, kills_on_disconnect,"
                 " is_plain, process, spec FROM processes ORDER BY created_ns, id");
    while (is_good && cay_db_row(&query)) {
        struct cay_process_record record = {
            .call = (uint64_t)cay_db_int(&query, 2),
            .created_ns = cay_db_int(&query, 3),
            .is_leftover = cay_db_int(&query, 4) != 0,
            .kills_on_disconnect = cay_db_int(&query, 5) != 0,
            .is_plain = cay_db_int(&query, 6) != 0,
        };
        struct cay_str id = cay_db_text(&query, 0);
        struct cay_str session_id = cay_db_text(&query, 1);
        snprintf(record.id, sizeof(record.id), "%.*s", (int)id.len, id.len ? id.ptr : "");
        snprintf(record.session_id, sizeof(record.session_id), "%.*s", (int)session_id.len,
                 session_id.len ? session_id.ptr : "");
        cay_buf_init(&record.process, NOUN_BYTES_MAX);
        cay_buf_init(&record.spec, NOUN_BYTES_MAX);
        cay_buf_append_str(&record.process, cay_db_blob(&query, 7));
        cay_buf_append_str(&record.spec, cay_db_blob(&query, 8));
        is_good = visit(context, &record, err);
    }
    struct cay_error end_err = {};
    bool is_read = cay_db_end(&query, &end_err);
    if (is_good && !is_read)
        *err = end_err;
    return is_good && is_read;
}

static int64_t to_ns(const struct google_protobuf_timestamp *time)
{
    return time ? time->seconds * CAY_NS_PER_SEC + time->nanos : 0;
}

static void take_noun(struct cay_process *process, const struct cay_v1_process *noun)
{
    process->state = noun->state;
    process->started_ns = to_ns(noun->started_at);
    process->ended_ns = to_ns(noun->ended_at);
    process->pid = noun->pid;
    process->stdin_open = noun->stdin_open;
    process->output_start = (uint64_t)noun->output_start;
    process->output_end = (uint64_t)noun->output_end;
    process->restart_count = noun->restart_count;
    process->result = noun->result;
    if (noun->pty) {
        process->flags |= CAY_EXEC_PTY;
        process->size = (struct cay_frame_size){.rows = (uint16_t)noun->pty->rows,
                                                .columns = (uint16_t)noun->pty->cols};
    }
    process->table->ended_count += cay_process_is_over(process);
}

bool cay_process_restore(struct cay_processes *table, const struct cay_process_record *record,
                         struct cay_error *err)
{
    struct cay_process *process = cay_process_new(table, CAY_V1_PROCESS_ORIGIN_LAUNCHED);
    memcpy(process->id, record->id, sizeof(process->id));
    process->call = record->call;
    process->is_leftover = record->is_leftover;
    process->kills_on_disconnect = record->kills_on_disconnect;
    process->is_plain = record->is_plain;
    process->is_recorded = true;
    /* Decoded strings point into the bytes, so these are the process's own. */
    struct cay_str noun = {cay_arena_copy(&process->arena, cay_buf_str(&record->process)),
                           record->process.len};
    struct cay_str spec = {cay_arena_copy(&process->arena, cay_buf_str(&record->spec)),
                           record->spec.len};
    if (record->spec.len)
        process->spec = cay_arena_new(&process->arena, struct cay_v1_process_spec);
    bool is_good = noun.ptr && spec.ptr && (!record->spec.len || process->spec) &&
                   cay_pb_decode(&cay_v1_process_desc, noun, &process->arena, process->noun) == 0 &&
                   (!process->spec || cay_pb_decode(&cay_v1_process_spec_desc, spec,
                                                    &process->arena, process->spec) == 0);
    if (!is_good) {
        process->is_recorded = false; /* it stays for who can make sense of it */
        cay_process_forget(process);
        return cay_fail(err, CAY_R_DATA_LOSS, "the record of process '%s' is damaged", record->id);
    }
    take_noun(process, process->noun);
    /* That it was started, the daemon before us told. */
    process->told_state =
        cay_process_is_over(process) ? CAY_V1_PROCESS_STATE_EXITED : CAY_V1_PROCESS_STATE_RUNNING;
    return true;
}

struct cay_process_write {
    struct cay_job job;
    struct cay_processes *table;
    struct cay_db *db;
    struct cay_process_record record;
    bool is_erased;
    bool is_erased_next; /* the loop's: workers would do both in any order */
};

static void write_work(struct cay_job *job)
{
    struct cay_process_write *self = CAY_CONTAINER_OF(job, struct cay_process_write, job);
    struct cay_error err = {};
    bool is_done = self->is_erased ? cay_process_record_delete(self->db, self->record.id, &err)
                                   : cay_process_record_put(self->db, &self->record, &err);
    if (!is_done)
        cay_log(CAY_WARN, "process.record_failed", CAY_S("process", self->record.id),
                CAY_ERR(&err));
}

/* Its end is on disk: init need not remember it for the next daemon. */
static void release(struct cay_process *process)
{
    if (process->releases)
        cay_process_release_call(process->table, process->call);
    process->releases = false;
}

static bool submit(struct cay_process_write *self);

static void end(struct cay_process_write *self)
{
    struct cay_processes *table = self->table;
    cay_process_record_finish(&self->record);
    free(self);
    table->ops->let_go(table->owner);
}

static void write_done(struct cay_job *job)
{
    struct cay_process_write *self = CAY_CONTAINER_OF(job, struct cay_process_write, job);
    if (self->is_erased_next) {
        self->is_erased = true;
        self->is_erased_next = false;
        submit(self);
        return;
    }
    struct cay_process *process =
        self->is_erased ? NULL : cay_processes_find(self->table, cay_str(self->record.id));
    if (process) {
        process->writing = NULL;
        if (process->is_dirty)
            cay_process_write(process);
        else if (cay_process_is_over(process))
            release(process);
    }
    end(self);
}

/* False when it is done already: the daemon ends. */
static bool submit(struct cay_process_write *self)
{
    if (cay_loop_try_submit(self->table->loop, &self->job))
        return true;
    write_work(&self->job);
    end(self);
    return false;
}

static struct cay_process_write *new_write(struct cay_processes *table)
{
    struct cay_process_write *self = cay_new(struct cay_process_write);
    self->table = table;
    self->db = table->db;
    self->job.work = write_work;
    self->job.done = write_done;
    table->ops->hold(table->owner);
    return self;
}

void cay_process_write(struct cay_process *process)
{
    process->is_dirty = process->writing != NULL;
    if (process->writing || process->table->is_closing)
        return;
    struct cay_process_write *self = new_write(process->table);
    cay_process_record_take(&self->record, process);
    process->is_recorded = true;
    process->writing = submit(self) ? self : NULL;
}

void cay_process_erase(const struct cay_process *process)
{
    if (process->table->is_closing)
        return;
    if (process->writing) {
        process->writing->is_erased_next = true;
        return;
    }
    struct cay_process_write *self = new_write(process->table);
    memcpy(self->record.id, process->id, sizeof(process->id));
    self->is_erased = true;
    (void)submit(self);
}
