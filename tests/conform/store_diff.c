/* SPDX-License-Identifier: Apache-2.0 */

/* Diffs, over every store: against a comparison of the whole trees, and against what was done. */

#include "tests/conform/store_tree.h"
#include "tests/unit/test.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/store/diff_patch.h"
#include "host/store/diff_walk.h"

static const char *kind;

struct world {
    struct cay_store *store;
    char directory[TREE_DIRECTORY_SIZE];
    uint32_t id_base;
    struct cay_error err;
};

#define MUST(world, call)                                      \
    do {                                                       \
        if (!(call)) {                                         \
            print_error("%s: %s\n", #call, (world)->err.text); \
            fail();                                            \
        }                                                      \
    } while (0)

static int setup(void **state)
{
    struct world *world = cay_new(struct world);
    tree_make_directory(world->directory);
    struct cay_store_config config = {kind, world->directory};
    MUST(world, cay_store_open(&config, &world->store, &world->err));
    if (cay_store_caps(world->store) & CAY_STORE_ID_MAPPED)
        world->id_base = TREE_ID_BASE;
    struct cay_store_base_draft draft;
    MUST(world, cay_store_base_begin(world->store, &draft, &world->err));
    tree_fill_base(draft.root_fd);
    MUST(world, cay_store_base_commit(world->store, &draft, "base", &world->err));
    *state = world;
    return 0;
}

static int teardown(void **state)
{
    struct world *world = *state;
    tree_empty_store(world->store);
    cay_store_close(world->store);
    tree_remove_directory(world->directory);
    free(world);
    return 0;
}

static const char letters[] = "?AMDTX";

/* One line per change; the hint of a rename is not part of it. */
static bool note(void *ctx, const struct cay_diff_entry *entry)
{
    cay_buf_printf(ctx, "%c %s %o>%o\n", letters[entry->kind], entry->path,
                   entry->before.dir_fd >= 0 ? entry->before.st.st_mode : 0,
                   entry->after.dir_fd >= 0 ? entry->after.st.st_mode : 0);
    return true;
}

static char *finish(struct cay_buf *out)
{
    cay_buf_append_byte(out, '\0');
    assert_false(out->failed);
    return out->data;
}

static char *diff(struct world *world, struct cay_store_ref from, struct cay_store_ref to,
                  bool expand, struct cay_diff_stats *out_stats)
{
    struct cay_buf out;
    cay_buf_init(&out, 1 << 20);
    struct cay_diff_request request = {
        .from = from, .to = to, .expand_deleted = expand, .visit = note, .ctx = &out};
    MUST(world, cay_store_diff(world->store, &request, out_stats, &world->err));
    return finish(&out);
}

struct session {
    char id[CAY_STORE_ID_SIZE];
    int root_fd;
};

static struct session open_session(struct world *world, struct cay_store_source source)
{
    struct session session = {.root_fd = -1};
    cay_store_new_id(session.id);
    MUST(world, cay_store_create(world->store, session.id, &source, &world->err));
    MUST(world,
         cay_store_mount(world->store, session.id, &tree_owner, &session.root_fd, &world->err));
    return session;
}

static void take(struct world *world, struct session *session, enum cay_store_activity activity,
                 char out_id[static CAY_STORE_ID_SIZE])
{
    cay_store_new_id(out_id);
    struct cay_store_snapshot_request request = {session->id, out_id, activity, &tree_owner, false};
    struct cay_store_point point;
    MUST(world, cay_store_snapshot(world->store, &request, &point, &world->err));
    if (point.root_fd >= 0) {
        close(session->root_fd);
        session->root_fd = point.root_fd;
    }
}

/* The truth: both trees as a process sees them, each as one layer. */
static char *diff_seen(struct world *world, int from_fd, int to_fd, bool expand)
{
    struct cay_diff_layer from = {1, from_fd};
    struct cay_diff_layer to = {2, to_fd};
    struct cay_diff_stack from_stack = {&from, 1};
    struct cay_diff_stack to_stack = {&to, 1};
    struct cay_buf out;
    cay_buf_init(&out, 1 << 20);
    struct cay_diff_request request = {.expand_deleted = expand, .visit = note, .ctx = &out};
    struct cay_diff_stats stats;
    MUST(world, cay_diff_walk(&from_stack, &to_stack, &request, &stats, &world->err));
    return finish(&out);
}

static void any_two_points_compare_like_their_trees(void **state)
{
    struct world *world = *state;
    if (!tree_has_snapshots(world->store))
        return;
    struct session session = open_session(world, (struct cay_store_source){.base = "base"});
    struct session seen[TREE_STEPS + 1];
    char ids[TREE_STEPS][CAY_STORE_ID_SIZE];
    seen[0] = open_session(world, (struct cay_store_source){.base = "base"});
    for (int i = 0; i < TREE_STEPS; i++) {
        tree_change(session.root_fd, i, world->id_base);
        take(world, &session, i % 3 == 1 ? CAY_STORE_FROZEN : CAY_STORE_QUIET, ids[i]);
        seen[i + 1] = open_session(world, (struct cay_store_source){.snapshot = ids[i]});
    }
    for (int from = 0; from <= TREE_STEPS; from++) {
        for (int to = 0; to <= TREE_STEPS; to++) {
            struct cay_store_ref from_ref = {.base = from ? NULL : "base",
                                             .snapshot = from ? ids[from - 1] : NULL};
            struct cay_store_ref to_ref = {.base = to ? NULL : "base",
                                           .snapshot = to ? ids[to - 1] : NULL};
            struct cay_diff_stats stats;
            for (int expand = 0; expand < 2; expand++) {
                char *want = diff_seen(world, seen[from].root_fd, seen[to].root_fd, expand != 0);
                char *got = diff(world, from_ref, to_ref, expand != 0, &stats);
                assert_string_equal(got, want);
                if (from != to)
                    assert_true(stats.changes > 0);
                free(want);
                free(got);
            }
        }
    }
    for (int i = 0; i <= TREE_STEPS; i++)
        close(seen[i].root_fd);
    close(session.root_fd);
}

static void changes_are_told_by_their_kind(void **state)
{
    struct world *world = *state;
    if (!tree_has_snapshots(world->store))
        return;
    struct session session = open_session(world, (struct cay_store_source){.base = "base"});
    char id[CAY_STORE_ID_SIZE];
    take(world, &session, CAY_STORE_QUIET, id);
    tree_enter(world->id_base);
    tree_write(session.root_fd, "workspace/added", "1");
    tree_append(session.root_fd, "etc/hosts", "more");
    assert_return_code(unlinkat(session.root_fd, "etc/passwd", 0), errno);
    assert_return_code(fchmodat(session.root_fd, "usr/lib/file-01", 0700, 0), errno);
    assert_return_code(unlinkat(session.root_fd, "becomes-dir", 0), errno);
    tree_mkdir(session.root_fd, "becomes-dir", 0755);
    /* Touched, and written with what it held: no change. */
    tree_write(session.root_fd, "workspace/src/deep/a", "a");
    tree_leave();
    struct cay_diff_stats stats;
    char *got = diff(world, (struct cay_store_ref){.snapshot = id},
                     (struct cay_store_ref){.session = session.id}, false, &stats);
    assert_string_equal(got, "T becomes-dir 100644>40755\n"
                             "M etc/hosts 100644>100644\n"
                             "D etc/passwd 100644>0\n"
                             "X usr/lib/file-01 100644>100700\n"
                             "A workspace/added 0>100644\n");
    free(got);
    assert_int_equal(stats.changes, 5);
    close(session.root_fd);
}

static bool stop_at_once(void *ctx, const struct cay_diff_entry *)
{
    ++*(int *)ctx;
    return false;
}

static void a_caller_can_stop(void **state)
{
    struct world *world = *state;
    struct session session = open_session(world, (struct cay_store_source){.base = "base"});
    tree_change(session.root_fd, 0, world->id_base);
    int calls = 0;
    struct cay_diff_request request = {.from = {.base = "base"},
                                       .to = {.session = session.id},
                                       .visit = stop_at_once,
                                       .ctx = &calls};
    struct cay_diff_stats stats;
    MUST(world, cay_store_diff(world->store, &request, &stats, &world->err));
    assert_int_equal(calls, 1);
    close(session.root_fd);
}

static bool find_hint(void *ctx, const struct cay_diff_entry *entry)
{
    if (entry->renamed_from)
        cay_buf_printf(ctx, "%s<%s\n", entry->path, entry->renamed_from);
    return true;
}

static void renamed_directories_say_where_they_were(void **state)
{
    struct world *world = *state;
    if (!(cay_store_caps(world->store) & CAY_STORE_FAST_DIFF)) {
        print_message("skipped: %s keeps no trace of a rename\n", kind);
        skip();
    }
    struct session session = open_session(world, (struct cay_store_source){.base = "base"});
    tree_enter(world->id_base);
    assert_return_code(renameat(session.root_fd, "workspace/src", session.root_fd, "tmp/moved"),
                       errno);
    assert_return_code(
        renameat(session.root_fd, "workspace/old", session.root_fd, "workspace/older"), errno);
    tree_leave();
    struct cay_buf out;
    cay_buf_init(&out, 4096);
    struct cay_diff_request request = {
        .from = {.base = "base"}, .to = {.session = session.id}, .visit = find_hint, .ctx = &out};
    struct cay_diff_stats stats;
    MUST(world, cay_store_diff(world->store, &request, &stats, &world->err));
    char *text = finish(&out);
    assert_string_equal(text, "tmp/moved<workspace/src\nworkspace/older<workspace/old\n");
    free(text);
    close(session.root_fd);
}

struct patching {
    struct cay_buf out;
    struct cay_error err;
};

static bool add_patch(void *ctx, const struct cay_diff_entry *entry)
{
    struct patching *patching = ctx;
    return cay_diff_patch(entry, CAY_PATCH_CONTEXT, &patching->out, &patching->err);
}

static void text_changes_become_patches(void **state)
{
    struct world *world = *state;
    struct session session = open_session(world, (struct cay_store_source){.base = "base"});
    tree_enter(world->id_base);
    tree_append(session.root_fd, "etc/hosts", "10.0.0.1 x\n");
    tree_write(session.root_fd, "workspace/new file\t", "one\ntwo");
    assert_return_code(unlinkat(session.root_fd, "workspace/old/x", 0), errno);
    assert_return_code(fchmodat(session.root_fd, "workspace/src/main.c", 0755, 0), errno);
    int fd = openat(session.root_fd, "workspace/zero", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(write(fd, "\0\1", 2), 2);
    close(fd);
    tree_leave();
    struct patching patching = {};
    cay_buf_init(&patching.out, 1 << 20);
    struct cay_diff_request request = {.from = {.base = "base"},
                                       .to = {.session = session.id},
                                       .visit = add_patch,
                                       .ctx = &patching};
    struct cay_diff_stats stats;
    MUST(world, cay_store_diff(world->store, &request, &stats, &world->err));
    char *text = finish(&patching.out);
    assert_string_equal(text, "diff --git a/etc/hosts b/etc/hosts\n"
                              "--- a/etc/hosts\n+++ b/etc/hosts\n"
                              "@@ -1 +1,2 @@\n 127.0.0.1 localhost\n+10.0.0.1 x\n"
                              "diff --git \"a/workspace/new file\\011\" "
                              "\"b/workspace/new file\\011\"\n"
                              "new file mode 100644\n"
                              "--- /dev/null\n+++ \"b/workspace/new file\\011\"\t\n"
                              "@@ -0,0 +1,2 @@\n+one\n+two\n\\ No newline at end of file\n"
                              "diff --git a/workspace/old/x b/workspace/old/x\n"
                              "deleted file mode 100644\n"
                              "--- a/workspace/old/x\n+++ /dev/null\n"
                              "@@ -1 +0,0 @@\n-x\n\\ No newline at end of file\n"
                              "diff --git a/workspace/src/main.c b/workspace/src/main.c\n"
                              "old mode 100644\nnew mode 100755\n"
                              "diff --git a/workspace/zero b/workspace/zero\n"
                              "new file mode 100644\n"
                              "Binary files /dev/null and b/workspace/zero differ\n");
    free(text);
    close(session.root_fd);
}

static void unchanged_files_are_not_visited(void **state)
{
    struct world *world = *state;
    if (!(cay_store_caps(world->store) & CAY_STORE_FAST_DIFF)) {
        print_message("skipped: %s looks at every name\n", kind);
        skip();
    }
    struct cay_store_base_draft draft;
    MUST(world, cay_store_base_begin(world->store, &draft, &world->err));
    tree_mkdir(draft.root_fd, "many", 0755);
    for (int i = 0; i < 5000; i++) {
        char path[32];
        snprintf(path, sizeof(path), "many/%04d", i);
        tree_write(draft.root_fd, path, "x");
    }
    MUST(world, cay_store_base_commit(world->store, &draft, "many", &world->err));
    struct session session = open_session(world, (struct cay_store_source){.base = "many"});
    char id[CAY_STORE_ID_SIZE];
    take(world, &session, CAY_STORE_QUIET, id);
    tree_enter(world->id_base);
    for (int i = 0; i < 5000; i += 1000) {
        char path[32];
        snprintf(path, sizeof(path), "many/%04d", i);
        tree_append(session.root_fd, path, "y");
    }
    tree_leave();
    struct cay_diff_stats stats;
    char *got = diff(world, (struct cay_store_ref){.snapshot = id},
                     (struct cay_store_ref){.session = session.id}, false, &stats);
    assert_int_equal(stats.changes, 5);
    assert_int_equal(stats.entries_visited, 6); /* the five and their directory */
    free(got);
    close(session.root_fd);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_two_points_compare_like_their_trees, setup, teardown),
        cmocka_unit_test_setup_teardown(changes_are_told_by_their_kind, setup, teardown),
        cmocka_unit_test_setup_teardown(a_caller_can_stop, setup, teardown),
        cmocka_unit_test_setup_teardown(renamed_directories_say_where_they_were, setup, teardown),
        cmocka_unit_test_setup_teardown(text_changes_become_patches, setup, teardown),
        cmocka_unit_test_setup_teardown(unchanged_files_are_not_visited, setup, teardown),
    };
    if (geteuid() != 0) {
        print_message("skipped: the stores need root\n");
        return 77;
    }
    assert(argc == 2);
    kind = argv[1];
    return cmocka_run_group_tests_name(kind, tests, NULL, NULL);
}
