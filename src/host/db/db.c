/* SPDX-License-Identifier: Apache-2.0 */
#include "host/db/db.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "host/db/reserve.h"

enum {
    STATEMENTS_MAX = 32,
    INCREMENTAL = 2, /* what PRAGMA auto_vacuum answers */
    VACUUM_ROOM_BYTES = 64 << 20,
    /* Free pages that stay: what is written next needs no room on a disk that is full by then. */
    FREE_PAGES_KEPT = 256,
    STEP_PAGES = 64, /* of one transaction */
    SHRINK_STEPS = 16,
};

struct statement {
    sqlite3_stmt *prepared; /* NULL: free */
    bool is_in_use;
};

struct cay_db {
    sqlite3 *sqlite;
    int reserve_fd; /* see reserve.h */
    pthread_mutex_t lock;
    bool is_durable;                             /* the transaction under way */
    struct statement statements[STATEMENTS_MAX]; /* to prepare one costs more than to run it */
};

/* Applied in order, each once; PRAGMA user_version counts them. Never edit one that was released.
 */
static const char *const migrations[] = {
    "CREATE TABLE keys ("
    "  id TEXT PRIMARY KEY,"
    "  digest BLOB NOT NULL UNIQUE," /* SHA-256 of the secret, which itself is nowhere */
    "  prefix TEXT NOT NULL,"
    "  owner TEXT NOT NULL,"
    "  role INTEGER NOT NULL,"
    "  name TEXT NOT NULL,"
    "  e2b INTEGER NOT NULL,"
    "  created_ns INTEGER NOT NULL,"
    "  expires_ns INTEGER NOT NULL,"
    "  last_used_ns INTEGER NOT NULL,"
    "  revoked_ns INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;",

    "CREATE TABLE sessions ("
    "  id TEXT PRIMARY KEY,"
    "  owner TEXT NOT NULL,"
    "  store_id TEXT NOT NULL UNIQUE,"
    "  state INTEGER NOT NULL,"
    "  created_ns INTEGER NOT NULL,"
    "  uid_slot INTEGER NOT NULL UNIQUE,"
    "  turn_count INTEGER NOT NULL,"
    "  branch_count INTEGER NOT NULL,"
    "  head TEXT NOT NULL,"
    "  pending TEXT NOT NULL," /* snapshot a rollback is on its way to */
    "  generation INTEGER NOT NULL,"
    "  spec BLOB NOT NULL,"   /* cay.v1.Session */
    "  sandbox BLOB NOT NULL" /* how the runtime finds its sandbox again */
    ") STRICT;"
    "CREATE TABLE snapshots ("
    "  session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,"
    "  name TEXT NOT NULL,"
    "  store_id TEXT NOT NULL UNIQUE,"
    "  is_pending INTEGER NOT NULL,"
    "  created_ns INTEGER NOT NULL,"
    "  spec BLOB NOT NULL," /* cay.v1.Snapshot */
    "  PRIMARY KEY (session_id, name)"
    ") STRICT;",

    /* What a client called a turn, so that it is not taken twice. */
    "ALTER TABLE snapshots ADD COLUMN request_id TEXT NOT NULL DEFAULT '';",

    /* cay.v1.RestorePathsRequest under way. */
    "ALTER TABLE sessions ADD COLUMN restore BLOB NOT NULL DEFAULT x'';",

    "CREATE TABLE bases ("
    "  name TEXT PRIMARY KEY,"
    "  state INTEGER NOT NULL," /* enum cay_base_record_state */
    "  spec BLOB NOT NULL"      /* cay.v1.Base */
    ") STRICT, WITHOUT ROWID;",

    "CREATE TABLE processes ("
    "  id TEXT PRIMARY KEY,"
    "  session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,"
    "  call INTEGER NOT NULL," /* its number in the sandbox's init */
    "  created_ns INTEGER NOT NULL,"
    "  is_leftover INTEGER NOT NULL,"
    "  kills_on_disconnect INTEGER NOT NULL,"
    "  is_plain INTEGER NOT NULL," /* its caller gets its output, none is kept */
    "  process BLOB NOT NULL,"     /* cay.v1.Process */
    "  spec BLOB NOT NULL"         /* cay.v1.ProcessSpec, when it may be started again */
    ") STRICT;"
    "CREATE INDEX processes_of_session ON processes (session_id);",

    "CREATE TABLE ports ("
    "  id TEXT PRIMARY KEY,"
    "  session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,"
    "  process_id TEXT NOT NULL," /* empty: none */
    "  bind_address TEXT NOT NULL,"
    "  number INTEGER NOT NULL," /* inside */
    "  host_port INTEGER NOT NULL,"
    "  created_ns INTEGER NOT NULL"
    ") STRICT;"
    "CREATE INDEX ports_of_session ON ports (session_id);",

    "CREATE TABLE quotas ("
    "  owner TEXT NOT NULL,"
    "  name TEXT NOT NULL," /* a field of cay.v1.QuotaLimits */
    "  value INTEGER NOT NULL,"
    "  PRIMARY KEY (owner, name)"
    ") STRICT, WITHOUT ROWID;",

    /* cay.v1.Snapshot with what a client said of it and nothing else, which nobody keeps in memory.
     * NULL: older than this; it is in `spec`. */
    "ALTER TABLE snapshots ADD COLUMN words BLOB;",

    "ALTER TABLE keys ADD COLUMN may_vouch INTEGER NOT NULL DEFAULT 0;",

    "CREATE TABLE secrets ("
    "  owner TEXT NOT NULL,"
    "  name TEXT NOT NULL,"
    "  sealed BLOB NOT NULL," /* host/secrets/seal.h */
    "  created_ns INTEGER NOT NULL,"
    "  changed_ns INTEGER NOT NULL,"
    "  last_used_ns INTEGER NOT NULL,"
    "  PRIMARY KEY (owner, name)"
    ") STRICT, WITHOUT ROWID;",

    /* When the tokens of a session were revoked last; 0: never. */
    "ALTER TABLE sessions ADD COLUMN tokens_revoked_ns INTEGER NOT NULL DEFAULT 0;",
};

int cay_db_schema_version(void)
{
    return (int)CAY_COUNT(migrations);
}

static enum cay_reason reason_of(int status)
{
    static const struct {
        int status;
        enum cay_reason reason;
    } known[] = {
        {SQLITE_FULL, CAY_R_NO_SPACE},        {SQLITE_IOERR, CAY_R_DISK_FAILED},
        {SQLITE_READONLY, CAY_R_DISK_FAILED}, {SQLITE_CANTOPEN, CAY_R_DISK_FAILED},
        {SQLITE_CORRUPT, CAY_R_DATA_LOSS},    {SQLITE_NOTADB, CAY_R_DATA_LOSS},
    };
    for (size_t i = 0; i < CAY_COUNT(known); i++) {
        if (known[i].status == status)
            return known[i].reason;
    }
    return CAY_R_INTERNAL;
}

static bool fail(struct cay_db *db, struct cay_error *err, int status, const char *what)
{
    /* The low byte is the class of the error; the rest details it. */
    enum cay_reason reason = reason_of(status & 0xFF);
    return cay_fail(err, reason, "%s: %s", what,
                    db->sqlite ? sqlite3_errmsg(db->sqlite) : sqlite3_errstr(status));
}

static bool run(struct cay_db *db, const char *sql, struct cay_error *err)
{
    int status = sqlite3_exec(db->sqlite, sql, NULL, NULL, NULL);
    return status == SQLITE_OK || fail(db, err, status, "database");
}

static bool read_number(struct cay_db *db, const char *sql, int64_t *out_number,
                        struct cay_error *err)
{
    struct cay_db_query query;
    cay_db_begin(&query, db, sql);
    if (cay_db_row(&query))
        *out_number = cay_db_int(&query, 0);
    return cay_db_end(&query, err);
}

static bool migrate(struct cay_db *db, bool may_begin, struct cay_error *err)
{
    int64_t stamped = 0;
    int newest = cay_db_schema_version();
    if (!read_number(db, "PRAGMA user_version", &stamped, err))
        return false;
    int version = (int)stamped;
    if (version < 0)
        return cay_fail(err, CAY_R_DATA_LOSS, "the database has schema %d, which no cayd writes",
                        version);
    if (version > newest)
        return cay_fail(err, CAY_R_FAILED_PRECONDITION,
                        "the database has schema %d, which a newer cayd wrote; this one knows %d: "
                        "start the newer one, or restore a backup",
                        version, newest);
    if (version == 0 && !may_begin)
        return cay_fail(err, CAY_R_DATA_LOSS, "the database is empty");
    for (; version < newest; version++) {
        char stamp[48];
        snprintf(stamp, sizeof(stamp), "PRAGMA user_version = %d", version + 1);
        bool applied = run(db, "BEGIN IMMEDIATE", err) && run(db, migrations[version], err) &&
                       run(db, stamp, err) && run(db, "COMMIT", err);
        if (!applied) {
            (void)sqlite3_exec(db->sqlite, "ROLLBACK", NULL, NULL, NULL);
            return cay_wrap(err, "bring the database to schema %d", version + 1);
        }
    }
    return true;
}

/* So that the file can become smaller. One that was begun without is written anew, once, in one
 * transaction; where there is no room for that, it stays as it is until the next start. */
static void make_shrinkable(struct cay_db *db, const char *path)
{
    struct cay_error ignored = {};
    struct stat info;
    struct statvfs disk;
    int64_t mode = 0;
    if (!read_number(db, "PRAGMA auto_vacuum", &mode, &ignored) || mode == INCREMENTAL)
        return;
    (void)run(db, "PRAGMA wal_checkpoint(TRUNCATE)", &ignored); /* of one that was cut short */
    /* A copy beside it, and all of it in the log. */
    if (stat(path, &info) < 0 || statvfs(path, &disk) < 0 ||
        (uint64_t)disk.f_bavail * disk.f_frsize < (uint64_t)info.st_size * 2 + VACUUM_ROOM_BYTES)
        return;
    (void)(run(db, "PRAGMA auto_vacuum = INCREMENTAL", &ignored) && run(db, "VACUUM", &ignored));
    (void)run(db, "PRAGMA wal_checkpoint(TRUNCATE)", &ignored);
}

/*
 * SQLite maps a file beside the log into memory, as an index. Where every write goes to a new
 * place, a store to that memory needs room on the disk, and there is no error that it could get: a
 * full disk ends the process (SIGBUS). There the index is in ordinary memory, which it can be for
 * one process alone: nobody else reads the database meanwhile.
 */
static bool needs_room_for_index(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) == 0 && fs.f_type == BTRFS_SUPER_MAGIC;
}

static bool open_file(struct cay_db *db, const char *path, bool may_begin, struct cay_error *err)
{
    /* SQLite would create it with the umask's mode; it also gives its WAL the mode of the file.
     * Closed before SQLite opens it: to close any descriptor of a file is to lose all locks on it,
     * and another program that reads the database would then take its log away. */
    int fd = open(path, O_RDWR | (may_begin ? O_CREAT : 0) | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return cay_fail_errno(err, may_begin ? CAY_R_INTERNAL : CAY_R_DATA_LOSS, -errno,
                              "open database '%s'", path);
    cay_db_reserve_file(fd);
    const char *locking = needs_room_for_index(fd) ? "PRAGMA locking_mode = EXCLUSIVE"
                                                   : "PRAGMA locking_mode = NORMAL";
    close(fd);
    int status =
        sqlite3_open_v2(path, &db->sqlite,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, NULL);
    if (status != SQLITE_OK)
        return fail(db, err, status, "open database");
    sqlite3_extended_result_codes(db->sqlite, 1);
    sqlite3_busy_timeout(db->sqlite, 5000);
    /* The second takes effect while there is nothing in the file yet. */
    bool is_open = run(db, locking, err) && run(db, "PRAGMA auto_vacuum = INCREMENTAL", err) &&
                   run(db, "PRAGMA journal_mode = WAL", err) &&
                   run(db, "PRAGMA synchronous = NORMAL", err) &&
                   run(db, "PRAGMA foreign_keys = ON", err) && migrate(db, may_begin, err);
    if (!is_open)
        return false;
    make_shrinkable(db, path);
    db->reserve_fd = cay_db_reserve_log(path);
    return true;
}

static void close_file(struct cay_db *db)
{
    for (size_t i = 0; i < STATEMENTS_MAX; i++) {
        if (!db->statements[i].is_in_use)
            sqlite3_finalize(db->statements[i].prepared);
    }
    int status = sqlite3_close(cay_take_ptr(db->sqlite));
    assert(status == SQLITE_OK); /* a query was left open */
    (void)status;
    memset(db->statements, 0, sizeof(db->statements));
}

static bool open_db(const char *path, bool may_begin, struct cay_db **out_db, struct cay_error *err)
{
    struct cay_db *db = cay_new(struct cay_db);
    db->reserve_fd = -1;
    pthread_mutexattr_t recursive; /* a transaction holds the lock around its statements */
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&db->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    bool is_open = open_file(db, path, may_begin, err);
    if (!is_open && cay_db_reserve_spend(path)) {
        close_file(db);
        is_open = open_file(db, path, may_begin, err);
    }
    if (!is_open) {
        cay_db_close(db);
        return cay_wrap(err, "'%s'", path);
    }
    *out_db = db;
    return true;
}

bool cay_db_open(const char *path, struct cay_db **out_db, struct cay_error *err)
{
    return open_db(path, true, out_db, err);
}

bool cay_db_open_old(const char *path, struct cay_db **out_db, struct cay_error *err)
{
    return open_db(path, false, out_db, err);
}

void cay_db_close(struct cay_db *db)
{
    if (!db)
        return;
    close_file(db);
    cay_cleanup_close(&db->reserve_fd);
    pthread_mutex_destroy(&db->lock);
    free(db);
}

bool cay_db_transaction_begin(struct cay_db *db, struct cay_error *err)
{
    pthread_mutex_lock(&db->lock);
    if (run(db, "BEGIN IMMEDIATE", err))
        return true;
    pthread_mutex_unlock(&db->lock);
    return false;
}

static void end_durable(struct cay_db *db)
{
    if (db->is_durable)
        (void)sqlite3_exec(db->sqlite, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
    db->is_durable = false;
}

bool cay_db_transaction_begin_durable(struct cay_db *db, struct cay_error *err)
{
    pthread_mutex_lock(&db->lock);
    db->is_durable = true;
    if (run(db, "PRAGMA synchronous = FULL", err) && run(db, "BEGIN IMMEDIATE", err))
        return true;
    end_durable(db);
    pthread_mutex_unlock(&db->lock);
    return false;
}

bool cay_db_transaction_end(struct cay_db *db, bool is_good, struct cay_error *err)
{
    is_good = is_good && run(db, "COMMIT", err);
    if (!is_good)
        (void)sqlite3_exec(db->sqlite, "ROLLBACK", NULL, NULL, NULL);
    end_durable(db);
    pthread_mutex_unlock(&db->lock);
    return is_good;
}

bool cay_db_shrink(struct cay_db *db, bool *out_has_more, struct cay_error *err)
{
    char step[48];
    snprintf(step, sizeof(step), "PRAGMA incremental_vacuum(%d)", STEP_PAGES);
    int64_t before = 0;
    int64_t count = 0;
    *out_has_more = false;
    if (!read_number(db, "PRAGMA freelist_count", &before, err))
        return false;
    count = before;
    for (int i = 0; i < SHRINK_STEPS && count >= FREE_PAGES_KEPT + STEP_PAGES; i++) {
        int64_t last = count;
        pthread_mutex_lock(&db->lock);
        bool is_good = run(db, step, err);
        pthread_mutex_unlock(&db->lock);
        if (!is_good || !read_number(db, "PRAGMA freelist_count", &count, err))
            return false;
        if (count >= last)
            return true; /* it is one of those that cannot */
    }
    *out_has_more = count >= FREE_PAGES_KEPT + STEP_PAGES;
    if (*out_has_more || count == before)
        return true;
    /* The file ends where the log says once that is written back. */
    pthread_mutex_lock(&db->lock);
    bool is_good = run(db, "PRAGMA wal_checkpoint(PASSIVE)", err);
    pthread_mutex_unlock(&db->lock);
    return is_good;
}

/* A statement of that text that nobody uses, or a place for one, or NULL when there is neither. */
static struct statement *find_statement(struct cay_db *db, const char *sql)
{
    for (size_t i = 0; i < STATEMENTS_MAX; i++) {
        struct statement *statement = &db->statements[i];
        if (!statement->prepared)
            return statement; /* they fill up from the front */
        if (!statement->is_in_use && strcmp(sqlite3_sql(statement->prepared), sql) == 0)
            return statement;
    }
    return NULL;
}

void cay_db_begin(struct cay_db_query *query, struct cay_db *db, const char *sql)
{
    pthread_mutex_lock(&db->lock);
    *query = (struct cay_db_query){.db = db};
    struct statement *kept = find_statement(db, sql);
    if (kept && kept->prepared)
        query->statement = kept->prepared;
    else
        query->status = sqlite3_prepare_v3(
            db->sqlite, sql, -1, kept ? SQLITE_PREPARE_PERSISTENT : 0, &query->statement, NULL);
    if (kept && query->statement)
        *kept = (struct statement){.prepared = query->statement, .is_in_use = true};
}

static void release(struct cay_db *db, sqlite3_stmt *prepared)
{
    for (size_t i = 0; i < STATEMENTS_MAX; i++) {
        if (db->statements[i].prepared != prepared)
            continue;
        sqlite3_reset(prepared);
        sqlite3_clear_bindings(prepared);
        db->statements[i].is_in_use = false;
        return;
    }
    sqlite3_finalize(prepared);
}

void cay_db_bind_int(struct cay_db_query *query, int64_t value)
{
    if (query->status == SQLITE_OK)
        query->status = sqlite3_bind_int64(query->statement, ++query->bound, value);
}

void cay_db_bind_text(struct cay_db_query *query, struct cay_str text)
{
    if (query->status == SQLITE_OK)
        query->status =
            sqlite3_bind_text64(query->statement, ++query->bound, text.ptr ? text.ptr : "",
                                text.len, SQLITE_TRANSIENT, SQLITE_UTF8);
}

void cay_db_bind_blob(struct cay_db_query *query, struct cay_str bytes)
{
    if (query->status == SQLITE_OK)
        query->status =
            sqlite3_bind_blob64(query->statement, ++query->bound, bytes.ptr ? bytes.ptr : "",
                                bytes.len, SQLITE_TRANSIENT);
}

void cay_db_bind_null(struct cay_db_query *query)
{
    if (query->status == SQLITE_OK)
        query->status = sqlite3_bind_null(query->statement, ++query->bound);
}

bool cay_db_row(struct cay_db_query *query)
{
    if (query->status != SQLITE_OK && query->status != SQLITE_ROW)
        return false;
    query->status = sqlite3_step(query->statement);
    return query->status == SQLITE_ROW;
}

int64_t cay_db_int(struct cay_db_query *query, int column)
{
    return sqlite3_column_int64(query->statement, column);
}

struct cay_str cay_db_text(struct cay_db_query *query, int column)
{
    const char *text = (const char *)sqlite3_column_text(query->statement, column);
    return (struct cay_str){text, (size_t)sqlite3_column_bytes(query->statement, column)};
}

struct cay_str cay_db_blob(struct cay_db_query *query, int column)
{
    const char *bytes = sqlite3_column_blob(query->statement, column);
    return (struct cay_str){bytes, (size_t)sqlite3_column_bytes(query->statement, column)};
}

bool cay_db_end(struct cay_db_query *query, struct cay_error *err)
{
    struct cay_db *db = query->db;
    while (cay_db_row(query))
        ;
    bool is_done = query->status == SQLITE_DONE;
    if (!is_done)
        fail(db, err, query->status, "database");
    if (query->statement)
        release(db, cay_take_ptr(query->statement));
    pthread_mutex_unlock(&db->lock);
    return is_done;
}
