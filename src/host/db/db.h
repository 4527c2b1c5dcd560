/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The daemon's records, in one SQLite file: write-ahead log, so that a crash of the daemon loses
 * nothing that was committed. The schema is a list of migrations; opening brings an old file up to
 * date in one transaction and refuses one from a newer daemon.
 *
 * Statements block on the disk: they run on workers. Any thread may use the handle; one statement
 * runs at a time.
 */

#include "base/error.h"

struct sqlite3_stmt;
struct cay_db;

/* Creates the file (mode 0600) if need be. */
[[nodiscard]] bool cay_db_open(const char *path, struct cay_db **out_db, struct cay_error *err);
/* One that has records. DATA_LOSS when it is not there, or nothing is in it; none is begun. */
[[nodiscard]] bool cay_db_open_old(const char *path, struct cay_db **out_db, struct cay_error *err);
void cay_db_close(struct cay_db *db);

/* Gives back what was deleted, a piece at a time: the file becomes smaller. On a worker, when
 * something may have been. */
[[nodiscard]] bool cay_db_shrink(struct cay_db *db, bool *out_has_more, struct cay_error *err);

/* How many migrations this build knows. */
[[nodiscard]] int cay_db_schema_version(void);

/* All statements until the end, by this thread, happen together or not at all: committed when
 * `is_good`, rolled back otherwise. Other threads wait. Returns is_good, or false when the commit
 * failed. */
[[nodiscard]] bool cay_db_transaction_begin(struct cay_db *db, struct cay_error *err);
/* The same; with the commit, and all before it, on the disk when the end returns. */
[[nodiscard]] bool cay_db_transaction_begin_durable(struct cay_db *db, struct cay_error *err);
[[nodiscard]] bool cay_db_transaction_end(struct cay_db *db, bool is_good, struct cay_error *err);

/*
 * One statement with its parameters and results, for the duration of a lock:
 *
 *     struct cay_db_query query;
 *     cay_db_begin(&query, db, "SELECT id, owner FROM keys WHERE role = ?");
 *     cay_db_bind_int(&query, role);
 *     while (cay_db_row(&query))
 *         use(cay_db_text(&query, 0), cay_db_text(&query, 1));
 *     return cay_db_end(&query, err);
 *
 * A failure anywhere makes the rest do nothing and is told by cay_db_end.
 */
struct cay_db_query {
    struct cay_db *db;
    struct sqlite3_stmt *statement;
    int status;
    int bound;
};

void cay_db_begin(struct cay_db_query *query, struct cay_db *db, const char *sql);
void cay_db_bind_int(struct cay_db_query *query, int64_t value);
void cay_db_bind_text(struct cay_db_query *query, struct cay_str text);  /* copied */
void cay_db_bind_blob(struct cay_db_query *query, struct cay_str bytes); /* copied */
void cay_db_bind_null(struct cay_db_query *query);
[[nodiscard]] bool cay_db_row(struct cay_db_query *query);
[[nodiscard]] int64_t cay_db_int(struct cay_db_query *query, int column);
/* Valid until the next row. */
[[nodiscard]] struct cay_str cay_db_text(struct cay_db_query *query, int column);
[[nodiscard]] struct cay_str cay_db_blob(struct cay_db_query *query, int column);
/* Runs a statement without rows to its end, frees it and unlocks. */
[[nodiscard]] bool cay_db_end(struct cay_db_query *query, struct cay_error *err);
