/* SPDX-License-Identifier: Apache-2.0 */
#include "host/live/port_record.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/crash.h"

bool cay_port_record_put(struct cay_db *db, const struct cay_port_record *record,
                         struct cay_error *err)
{
    struct cay_db_query query;
    cay_db_begin(&query, db,
                 "INSERT INTO ports (id, session_id, process_id, bind_address, number, host_port,"
                 " created_ns) VALUES (?, ?, ?, ?, ?, ?, ?)");
    cay_db_bind_text(&query, cay_str(record->id));
    cay_db_bind_text(&query, cay_str(record->session_id));
    cay_db_bind_text(&query, cay_str(record->process_id));
    cay_db_bind_text(&query, cay_str(record->bind_address));
    cay_db_bind_int(&query, record->number);
    cay_db_bind_int(&query, record->host_port);
    cay_db_bind_int(&query, record->created_ns);
    return cay_db_end(&query, err) || cay_wrap(err, "record port %u", record->number);
}

bool cay_port_record_delete(struct cay_db *db, const char *id, struct cay_error *err)
{
    struct cay_db_query query;
    cay_db_begin(&query, db, "DELETE FROM ports WHERE id = ?");
    cay_db_bind_text(&query, cay_str(id));
    return cay_db_end(&query, err) || cay_wrap(err, "remove the record of a port");
}

static void copy_text(char *out, size_t size, struct cay_str text)
{
    snprintf(out, size, "%.*s", (int)text.len, text.len ? text.ptr : "");
}

bool cay_port_records_load(struct cay_db *db, cay_port_record_fn *visit, void *context,
                           struct cay_error *err)
{
    struct cay_db_query query;
    cay_db_begin(&query, db,
                 "SELECT id, session_id, process_id, bind_address, number, host_port, created_ns"
                 " FROM ports ORDER BY created_ns, id");
    while (cay_db_row(&query)) {
        struct cay_port_record record = {.number = (uint16_t)cay_db_int(&query, 4),
                                         .host_port = (uint16_t)cay_db_int(&query, 5),
                                         .created_ns = cay_db_int(&query, 6)};
        copy_text(record.id, sizeof(record.id), cay_db_text(&query, 0));
        copy_text(record.session_id, sizeof(record.session_id), cay_db_text(&query, 1));
        copy_text(record.process_id, sizeof(record.process_id), cay_db_text(&query, 2));
        copy_text(record.bind_address, sizeof(record.bind_address), cay_db_text(&query, 3));
        visit(context, &record);
    }
    return cay_db_end(&query, err) || cay_wrap(err, "read the records of ports");
}

/* --- in the background --- */

struct cay_port_write {
    struct cay_job job;
    struct cay_loop *loop;
    struct cay_db *db;
    struct cay_port_record record; /* its id alone when it is erased */
    cay_port_written_fn *done;     /* NULL: nobody waits */
    void *owner;
    struct cay_error err;
    bool is_erased;
    bool erases_next;
};

static void work(struct cay_job *job)
{
    struct cay_port_write *write = CAY_CONTAINER_OF(job, struct cay_port_write, job);
    if (write->is_erased) {
        (void)cay_port_record_delete(write->db, write->record.id, &write->err);
        CAY_CRASH_POINT("port.erased");
    } else {
        (void)cay_port_record_put(write->db, &write->record, &write->err);
        CAY_CRASH_POINT("port.recorded");
    }
}

static void worked(struct cay_job *job)
{
    struct cay_port_write *write = CAY_CONTAINER_OF(job, struct cay_port_write, job);
    if (write->erases_next)
        (void)cay_port_erase_start(write->loop, write->db, write->record.id, NULL, NULL);
    if (write->done)
        write->done(write->owner, write->err.reason ? &write->err : NULL);
    free(write);
}

static struct cay_port_write *start(struct cay_loop *loop, struct cay_db *db,
                                    const struct cay_port_record *record, bool is_erased,
                                    cay_port_written_fn *done, void *owner)
{
    struct cay_port_write *write = cay_new(struct cay_port_write);
    *write = (struct cay_port_write){.job = {.work = work, .done = worked},
                                     .loop = loop,
                                     .db = db,
                                     .record = *record,
                                     .done = done,
                                     .owner = owner,
                                     .is_erased = is_erased};
    if (cay_loop_try_submit(loop, &write->job))
        return write;
    free(write);
    return NULL;
}

struct cay_port_write *cay_port_write_start(struct cay_loop *loop, struct cay_db *db,
                                            const struct cay_port_record *record,
                                            cay_port_written_fn *done, void *owner)
{
    return start(loop, db, record, false, done, owner);
}

struct cay_port_write *cay_port_erase_start(struct cay_loop *loop, struct cay_db *db,
                                            const char *id, cay_port_written_fn *done, void *owner)
{
    struct cay_port_record record = {};
    snprintf(record.id, sizeof(record.id), "%s", id);
    return start(loop, db, &record, true, done, owner);
}

void cay_port_write_leave(struct cay_port_write *write, bool erases)
{
    write->done = NULL;
    write->erases_next = erases;
}
