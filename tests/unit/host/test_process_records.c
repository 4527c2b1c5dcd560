/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/db/db.h"
#include "host/process/record.h"
#include "io/loop.h"
#include "tests/unit/host/db_files.h"

/* Records of processes, written by workers that do several things at once. */

enum {
    ROUNDS = 300,
    AT_ONCE = 8,
};

struct fixture {
    struct cay_loop *loop;
    struct cay_db *db;
    struct cay_processes table;
    char path[64];
    unsigned holds;
};

static void hold(void *owner)
{
    struct fixture *self = owner;
    self->holds++;
}

static void let_go(void *owner)
{
    struct fixture *self = owner;
    if (--self->holds == 0)
        cay_loop_stop(self->loop);
}

static void describe(void *, const struct cay_process *, struct cay_arena *,
                     struct cay_v1_process *)
{
}

static const struct cay_process_ops ops = {.hold = hold, .let_go = let_go, .describe = describe};

/* Records of processes belong to one of a session. */
static void add_session(struct cay_db *db)
{
    struct cay_error err = {};
    struct cay_db_query query;
    cay_db_begin(&query, db,
                 "INSERT INTO sessions (id, owner, store_id, state, created_ns, uid_slot,"
                 " turn_count, branch_count, head, pending, generation, spec, sandbox)"
                 " VALUES ('session', '', '', 1, 1, 1, 0, 0, '', '', 1, x'', x'')");
    if (!cay_db_end(&query, &err))
        fail_msg("%s", err.text);
}

static int setup(void **state)
{
    struct fixture *self = cay_new(struct fixture);
    struct cay_error err = {};
    snprintf(self->path, sizeof(self->path), "/tmp/cay-test-XXXXXX");
    assert_non_null(mkdtemp(self->path));
    snprintf(self->path + strlen(self->path), 8, "/db");
    assert_int_equal(cay_loop_create(&self->loop), 0);
    assert_true(cay_db_open(self->path, &self->db, &err));
    add_session(self->db);
    cay_processes_init(&self->table, &ops, self, "session", self->loop, self->db);
    *state = self;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *self = *state;
    cay_processes_finish(&self->table);
    cay_loop_finish_jobs(self->loop);
    cay_db_close(self->db);
    cay_loop_destroy(self->loop);
    remove_database(self->path);
    *strrchr(self->path, '/') = '\0';
    assert_int_equal(rmdir(self->path), 0);
    free(self);
    return 0;
}

static bool count(void *context, struct cay_process_record *record, struct cay_error *)
{
    ++*(int *)context;
    cay_process_record_finish(record);
    return true;
}

static int count_records(struct fixture *self)
{
    struct cay_error err = {};
    int found = 0;
    assert_true(cay_process_records_load(self->db, count, &found, &err));
    return found;
}

static struct cay_process *new_process(struct fixture *self)
{
    struct cay_process *process = cay_process_new(&self->table, CAY_V1_PROCESS_ORIGIN_LAUNCHED);
    cay_process_write(process);
    return process;
}

static void what_is_forgotten_stays_so(void **state)
{
    struct fixture *self = *state;
    for (int i = 0; i < ROUNDS; i++) {
        for (int j = 0; j < AT_ONCE; j++)
            cay_process_forget(new_process(self));
        cay_loop_run(self->loop);
        assert_int_equal(count_records(self), 0);
    }
}

static void what_changed_while_it_was_written_is_written(void **state)
{
    struct fixture *self = *state;
    struct cay_process *process = new_process(self);
    process->state = CAY_V1_PROCESS_STATE_RUNNING;
    cay_process_write(process);
    assert_true(process->is_dirty);
    cay_loop_run(self->loop);
    assert_false(process->is_dirty);
    assert_null(process->writing);
    assert_int_equal(count_records(self), 1);
    cay_process_forget(process);
    cay_loop_run(self->loop);
    assert_int_equal(count_records(self), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_forgotten_stays_so, setup, teardown),
        cmocka_unit_test_setup_teardown(what_changed_while_it_was_written_is_written, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
