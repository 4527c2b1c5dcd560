/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Exposed ports in the database, so that the next daemon exposes them again where they were. Every
 * exposure has an id of its own: what is written of one and removed of another never meets.
 */

#include "base/id.h"
#include "host/db/db.h"
#include "host/process/process.h"
#include "io/loop.h"

enum { CAY_PORT_ID_SIZE = sizeof("x-") + CAY_ID_RANDOM_CHARS };

struct cay_port_record {
    char id[CAY_PORT_ID_SIZE];
    char session_id[CAY_ID_SIZE];
    char process_id[CAY_PROCESS_ID_SIZE]; /* empty: none */
    char bind_address[64];
    uint16_t number; /* inside */
    uint16_t host_port;
    int64_t created_ns;
};

/* On workers. */
[[nodiscard]] bool cay_port_record_put(struct cay_db *db, const struct cay_port_record *record,
                                       struct cay_error *err);
[[nodiscard]] bool cay_port_record_delete(struct cay_db *db, const char *id, struct cay_error *err);

/* Before anything is served, oldest first. */
typedef void cay_port_record_fn(void *context, const struct cay_port_record *record);
[[nodiscard]] bool cay_port_records_load(struct cay_db *db, cay_port_record_fn *visit,
                                         void *context, struct cay_error *err);

/* In the background. `done` may be NULL; it is not called after a cancel. */
typedef void cay_port_written_fn(void *owner, const struct cay_error *err);
struct cay_port_write;

/* NULL when the daemon ends: then `done` is not called. */
struct cay_port_write *cay_port_write_start(struct cay_loop *loop, struct cay_db *db,
                                            const struct cay_port_record *record,
                                            cay_port_written_fn *done, void *owner);
struct cay_port_write *cay_port_erase_start(struct cay_loop *loop, struct cay_db *db,
                                            const char *id, cay_port_written_fn *done, void *owner);
/* Nobody waits for it any more. Erases what is being written, if wanted. */
void cay_port_write_leave(struct cay_port_write *write, bool erases);
