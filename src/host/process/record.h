/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Processes in the database. A record is a copy taken on the loop thread; put and delete run on
 * workers.
 */

#include "base/buf.h"
#include "base/id.h"
#include "host/process/process.h"

struct cay_process_record {
    char id[CAY_PROCESS_ID_SIZE];
    char session_id[CAY_ID_SIZE];
    uint64_t call;
    int64_t created_ns;
    bool is_leftover;
    bool kills_on_disconnect;
    bool is_plain;
    struct cay_buf process; /* cay.v1.Process */
    struct cay_buf spec;    /* cay.v1.ProcessSpec; empty: it is not started again */
};

void cay_process_record_take(struct cay_process_record *out_record,
                             const struct cay_process *process);
void cay_process_record_finish(struct cay_process_record *record);
[[nodiscard]] bool cay_process_record_put(struct cay_db *db,
                                          const struct cay_process_record *record,
                                          struct cay_error *err);
[[nodiscard]] bool cay_process_record_delete(struct cay_db *db, const char *id,
                                             struct cay_error *err);

/* Before anything is served: every record of every session, oldest first. The record is the
 * callee's to keep or finish. */
typedef bool cay_process_record_fn(void *context, struct cay_process_record *record,
                                   struct cay_error *err);
[[nodiscard]] bool cay_process_records_load(struct cay_db *db, cay_process_record_fn *visit,
                                            void *context, struct cay_error *err);
/* The process of a record, in the table as it was. */
[[nodiscard]] bool cay_process_restore(struct cay_processes *table,
                                       const struct cay_process_record *record,
                                       struct cay_error *err);

/* Writes down what changed, in the background; one write of a process at a time. */
void cay_process_write(struct cay_process *process);
void cay_process_erase(const struct cay_process *process);
