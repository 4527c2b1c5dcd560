/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/db/db.h"
#include "tests/unit/host/db_files.h"

struct fixture {
    char dir[64];
    char path[96];
};

static int setup(void **state)
{
    struct fixture *self = cay_new(struct fixture);
    snprintf(self->dir, sizeof(self->dir), "/tmp/cay-test-XXXXXX");
    assert_non_null(mkdtemp(self->dir));
    snprintf(self->path, sizeof(self->path), "%s/cay.db", self->dir);
    *state = self;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *self = *state;
    remove_database(self->path);
    assert_int_equal(rmdir(self->dir), 0);
    free(self);
    return 0;
}

static struct cay_db *open_db(const struct fixture *self)
{
    struct cay_db *db = NULL;
    struct cay_error err = {};
    if (!cay_db_open(self->path, &db, &err))
        fail_msg("%s", err.text);
    return db;
}

static bool run(struct cay_db *db, const char *sql, struct cay_error *err)
{
    struct cay_db_query query;
    cay_db_begin(&query, db, sql);
    return cay_db_end(&query, err);
}

static int64_t number(struct cay_db *db, const char *sql)
{
    struct cay_db_query query;
    struct cay_error err = {};
    int64_t value = -1;
    cay_db_begin(&query, db, sql);
    if (cay_db_row(&query))
        value = cay_db_int(&query, 0);
    assert_true(cay_db_end(&query, &err));
    return value;
}

static void a_new_file_is_private_and_up_to_date(void **state)
{
    struct fixture *self = *state;
    umask(0);
    struct cay_db *db = open_db(self);
    struct stat info;
    assert_int_equal(stat(self->path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(number(db, "PRAGMA user_version"), cay_db_schema_version());
    struct cay_db_query query;
    struct cay_error err = {};
    cay_db_begin(&query, db, "PRAGMA journal_mode");
    assert_true(cay_db_row(&query));
    assert_true(cay_str_is(cay_db_text(&query, 0), "wal"));
    assert_true(cay_db_end(&query, &err));
    cay_db_close(db);
    umask(022);
}

static void what_was_written_is_there_after_a_reopen(void **state)
{
    struct fixture *self = *state;
    struct cay_error err = {};
    struct cay_db *db = open_db(self);
    assert_true(run(db, "CREATE TABLE t (n INTEGER, s TEXT, b BLOB) STRICT", &err));
    struct cay_db_query query;
    cay_db_begin(&query, db, "INSERT INTO t VALUES (?, ?, ?)");
    cay_db_bind_int(&query, INT64_MIN);
    cay_db_bind_text(&query, (struct cay_str){});
    cay_db_bind_blob(&query, CAY_STR("a\0b"));
    assert_true(cay_db_end(&query, &err));
    cay_db_close(db);
    db = open_db(self);
    cay_db_begin(&query, db, "SELECT n, s, b FROM t");
    assert_true(cay_db_row(&query));
    assert_true(cay_db_int(&query, 0) == INT64_MIN);
    assert_int_equal(cay_db_text(&query, 1).len, 0);
    assert_true(cay_str_equal(cay_db_blob(&query, 2), CAY_STR("a\0b")));
    assert_false(cay_db_row(&query));
    assert_true(cay_db_end(&query, &err));
    cay_db_close(db);
}

static void failures_are_told_at_the_end_and_unlock(void **state)
{
    struct fixture *self = *state;
    struct cay_db *db = open_db(self);
    struct cay_error err = {};
    struct cay_db_query query;
    cay_db_begin(&query, db, "SELECT a FROM nowhere WHERE x = ?");
    cay_db_bind_int(&query, 1);
    assert_false(cay_db_row(&query));
    assert_false(cay_db_end(&query, &err));
    assert_non_null(strstr(err.text, "nowhere"));
    cay_db_begin(&query, db, "SELECT 1 WHERE 1 = ?");
    cay_db_bind_int(&query, 1);
    cay_db_bind_int(&query, 2); /* one too many */
    assert_false(cay_db_row(&query));
    assert_false(cay_db_end(&query, &err));
    assert_int_equal(number(db, "SELECT 7"), 7);
    cay_db_close(db);
}

static void a_query_may_be_ended_in_the_middle(void **state)
{
    struct fixture *self = *state;
    struct cay_db *db = open_db(self);
    struct cay_error err = {};
    struct cay_db_query query;
    cay_db_begin(&query, db, "SELECT 1 UNION SELECT 2 UNION SELECT 3");
    assert_true(cay_db_row(&query));
    assert_true(cay_db_end(&query, &err));
    cay_db_close(db);
}

static void set_version(const struct fixture *self, const char *version)
{
    char sql[64];
    sqlite3 *sqlite = NULL;
    snprintf(sql, sizeof(sql), "PRAGMA user_version = %s", version);
    assert_int_equal(sqlite3_open(self->path, &sqlite), SQLITE_OK);
    assert_int_equal(sqlite3_exec(sqlite, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(sqlite);
}

static void a_newer_schema_is_refused_and_left_alone(void **state)
{
    struct fixture *self = *state;
    struct cay_error err = {};
    struct cay_db *db = open_db(self);
    cay_db_close(db);
    set_version(self, "99");
    db = NULL;
    assert_false(cay_db_open(self->path, &db, &err));
    assert_null(db);
    assert_int_equal(err.reason, CAY_R_FAILED_PRECONDITION);
    assert_non_null(strstr(err.text, "newer cayd"));
    assert_non_null(strstr(err.text, "99"));
    char version[16];
    snprintf(version, sizeof(version), "%d", cay_db_schema_version());
    set_version(self, version);
    cay_db_close(open_db(self));
}

static void a_version_that_makes_no_sense_is_refused(void **state)
{
    struct fixture *self = *state;
    struct cay_error err = {};
    struct cay_db *db = open_db(self);
    cay_db_close(db);
    set_version(self, "-7");
    assert_false(cay_db_open(self->path, &db, &err));
    assert_int_equal(err.reason, CAY_R_DATA_LOSS);
    assert_non_null(strstr(err.text, "schema -7"));
}

static void a_migration_that_fails_changes_nothing(void **state)
{
    struct fixture *self = *state;
    struct cay_error err = {};
    sqlite3 *sqlite = NULL;
    assert_int_equal(sqlite3_open(self->path, &sqlite), SQLITE_OK);
    assert_int_equal(sqlite3_exec(sqlite, "CREATE TABLE keys (mine)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(sqlite);
    struct cay_db *db = NULL;
    assert_false(cay_db_open(self->path, &db, &err));
    assert_non_null(strstr(err.text, "bring the database to schema 1"));
    assert_int_equal(sqlite3_open(self->path, &sqlite), SQLITE_OK);
    assert_int_equal(sqlite3_exec(sqlite, "SELECT mine FROM keys", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(sqlite);
}

static void put(const struct fixture *self, off_t at, const char *bytes, size_t len)
{
    cay_autoclose int fd = open(self->path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(pwrite(fd, bytes, len, at), len);
}

static void a_damaged_file_gets_a_sentence(void **state)
{
    struct fixture *self = *state;
    struct cay_error err = {};
    struct cay_db *db = NULL;
    static const char junk[8192] = "this is not a database at all";
    put(self, 0, junk, sizeof(junk));
    assert_false(cay_db_open(self->path, &db, &err));
    assert_non_null(strstr(err.text, self->path));
    assert_non_null(strstr(err.text, "not a database"));
    remove_database(self->path);
    cay_db_close(open_db(self));
    put(self, 100, junk, 3000);
    memset(&err, 0, sizeof(err));
    assert_false(cay_db_open(self->path, &db, &err));
    assert_true(strlen(err.text) > 20);
}

static void a_link_or_a_directory_is_not_opened(void **state)
{
    struct fixture *self = *state;
    struct cay_error err = {};
    struct cay_db *db = NULL;
    assert_int_equal(symlink("/dev/null", self->path), 0);
    assert_false(cay_db_open(self->path, &db, &err));
    unlink(self->path);
    assert_false(cay_db_open(self->dir, &db, &err));
    assert_false(cay_db_open("/nonexistent/cay.db", &db, &err));
    assert_non_null(strstr(err.text, "/nonexistent/cay.db"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static int64_t ask(struct cay_db *db, const char *sql)
{
    struct cay_db_query query;
    struct cay_error err = {};
    cay_db_begin(&query, db, sql);
    int64_t value = cay_db_row(&query) ? cay_db_int(&query, 0) : -1;
    assert_true(cay_db_end(&query, &err));
    return value;
}

enum { FILLED_BYTES = 20'000'000 };

static void fill(struct cay_db *db)
{
    struct cay_error err = {};
    assert_true(run(db, "CREATE TABLE t (a BLOB)", &err));
    for (int i = 0; i < FILLED_BYTES / 50'000; i++)
        assert_true(run(db, "INSERT INTO t VALUES (randomblob(50000))", &err));
}

static off_t size_of(const struct fixture *self)
{
    struct stat info;
    assert_int_equal(stat(self->path, &info), 0);
    return info.st_size;
}

/* Returns how often it had to be asked. */
static int shrink(struct cay_db *db)
{
    struct cay_error err = {};
    bool has_more = true;
    int steps = 0;
    while (has_more) {
        if (!cay_db_shrink(db, &has_more, &err))
            fail_msg("%s", err.text);
        steps++;
        assert_true(steps < 1000);
    }
    return steps;
}

static void what_was_deleted_is_given_back(void **state)
{
    struct fixture *self = *state;
    struct cay_db *db = open_db(self);
    struct cay_error err = {};
    fill(db);
    assert_int_equal(shrink(db), 1); /* there is nothing to give back */
    assert_true(size_of(self) > FILLED_BYTES * 3 / 4);
    assert_true(run(db, "DELETE FROM t WHERE rowid % 10 != 0", &err));
    assert_true(shrink(db) > 3); /* in pieces */
    assert_true(size_of(self) < FILLED_BYTES / 4);
    assert_int_equal(number(db, "SELECT count(*) FROM t"), FILLED_BYTES / 50'000 / 10);
    assert_true(number(db, "PRAGMA freelist_count") > 0); /* some stay, for a disk that is full */
    cay_db_close(db);
}

static void an_older_file_learns_to_shrink(void **state)
{
    struct fixture *self = *state;
    struct cay_db *db = open_db(self);
    fill(db);
    cay_db_close(db);
    sqlite3 *old = NULL;
    assert_int_equal(sqlite3_open(self->path, &old), SQLITE_OK);
    assert_int_equal(sqlite3_exec(old, "PRAGMA auto_vacuum = NONE; VACUUM", NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(old);
    db = open_db(self);
    struct cay_error err = {};
    assert_int_equal(number(db, "PRAGMA auto_vacuum"), 2);
    assert_int_equal(number(db, "SELECT count(*) FROM t"), FILLED_BYTES / 50'000);
    assert_true(run(db, "DELETE FROM t", &err));
    shrink(db);
    assert_true(size_of(self) < FILLED_BYTES / 4);
    cay_db_close(db);
}

static void only_a_durable_transaction_waits_for_the_disk(void **state)
{
    enum { NORMAL = 1, FULL = 2 };
    struct cay_db *db = open_db(*state);
    struct cay_error err = {};
    assert_true(cay_db_transaction_begin(db, &err));
    assert_int_equal(ask(db, "PRAGMA synchronous"), NORMAL);
    assert_true(cay_db_transaction_end(db, true, &err));
    for (int is_good = 0; is_good <= 1; is_good++) {
        assert_true(cay_db_transaction_begin_durable(db, &err));
        assert_int_equal(ask(db, "PRAGMA synchronous"), FULL);
        assert_true(run(db, "CREATE TABLE t (a)", &err));
        assert_int_equal(cay_db_transaction_end(db, is_good, &err), is_good);
        assert_int_equal(ask(db, "PRAGMA synchronous"), NORMAL);
    }
    cay_db_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_new_file_is_private_and_up_to_date),
        CASE(what_was_written_is_there_after_a_reopen),
        CASE(failures_are_told_at_the_end_and_unlock),
        CASE(a_query_may_be_ended_in_the_middle),
        CASE(a_newer_schema_is_refused_and_left_alone),
        CASE(a_version_that_makes_no_sense_is_refused),
        CASE(a_migration_that_fails_changes_nothing),
        CASE(a_damaged_file_gets_a_sentence),
        CASE(a_link_or_a_directory_is_not_opened),
        CASE(what_was_deleted_is_given_back),
        CASE(an_older_file_learns_to_shrink),
        cmocka_unit_test_setup_teardown(only_a_durable_transaction_waits_for_the_disk, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
