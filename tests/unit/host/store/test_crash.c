/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Dies at every crash point of the store, several times over, and looks at what a new daemon finds:
 * nothing acknowledged is lost, nothing half done is visible, every call can be repeated, and once
 * all is destroyed nothing is left. A point that the story never passes fails the test.
 */

#include "tests/conform/store_tree.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/crash.h"
#include "host/store/dir_list.h"
#include "host/store/overlay/overlay_internal.h"

enum {
    DUMP_BYTES = 32 * 1024,
    OCCURRENCES = 6, /* the n-th time a point is passed */
    POINTS_MAX = 64,
};

/* What the story's process tells before it dies. */
struct notes {
    int done; /* steps acknowledged */
    int passed[POINTS_MAX];
    char live[DUMP_BYTES];         /* the session's tree before the step at hand */
    char snapshots[3][DUMP_BYTES]; /* of each snapshot when it was acknowledged */
};

static struct notes *notes;
static const struct cay_crash_point *points;
static size_t points_count;
static const struct cay_crash_point *die_at;
static int die_occurrence;

static const char *kind;
static const char *prefix; /* of the points that this kind passes */
static char directory[TREE_DIRECTORY_SIZE];
static char session_id[CAY_STORE_ID_SIZE], fork_id[CAY_STORE_ID_SIZE];
static char snapshot_ids[3][CAY_STORE_ID_SIZE];

static void hook(const struct cay_crash_point *point)
{
    if (++notes->passed[point - points] == die_occurrence && point == die_at)
        kill(getpid(), SIGKILL);
}

static void must(bool ok, const struct cay_error *err, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "%s: %s\n", what, err->text);
    _exit(3);
}

static void note_tree(int root_fd, char *out)
{
    char *dump = tree_dump(root_fd, TREE_ID_BASE);
    if (strlen(dump) >= DUMP_BYTES)
        _exit(4);
    memcpy(out, dump, strlen(dump) + 1);
    free(dump);
}

static int take(struct cay_store *store, int at, int root_fd, enum cay_store_activity activity)
{
    struct cay_error err = {};
    struct cay_store_snapshot_request request = {.session_id = session_id,
                                                 .snapshot_id = snapshot_ids[at],
                                                 .activity = activity,
                                                 .owner = &tree_owner};
    struct cay_store_point point;
    note_tree(root_fd, notes->live);
    must(cay_store_snapshot(store, &request, &point, &err), &err, "snapshot");
    memcpy(notes->snapshots[at], notes->live, DUMP_BYTES);
    notes->done++;
    if (point.root_fd < 0)
        return root_fd;
    close(root_fd);
    return point.root_fd;
}

static void import(struct cay_store *store, const char *name)
{
    struct cay_error err = {};
    struct cay_store_base_draft draft;
    must(cay_store_base_begin(store, &draft, &err), &err, "begin base");
    tree_fill_base(draft.root_fd);
    must(cay_store_base_commit(store, &draft, name, &err), &err, "commit base");
}

/* A base made of a snapshot: passes what an import does, and more. */
static void publish(struct cay_store *store, const char *snapshot_id, const char *name)
{
    struct cay_error err = {};
    struct cay_store_base_draft draft;
    const struct cay_store_ref ref = {.snapshot = snapshot_id};
    must(cay_store_base_begin_from(store, &ref, &draft, &err), &err, "begin base");
    must(cay_store_base_commit(store, &draft, name, &err), &err, "commit base");
}

static void tell_story(void)
{
    struct cay_error err = {};
    struct cay_store *store = NULL;
    struct cay_store_config config = {kind, directory};
    struct cay_store_source base = {.base = "base"};
    struct cay_store_point point;
    int root_fd = -1;
    must(cay_store_open(&config, &store, &err), &err, "open");
    cay_crash_hook = hook;
    must(cay_store_create(store, session_id, &base, &err), &err, "create");
    notes->done++; /* 1 */
    must(cay_store_mount(store, session_id, &tree_owner, &root_fd, &err), &err, "mount");
    tree_change(root_fd, 0, TREE_ID_BASE);
    root_fd = take(store, 0, root_fd, CAY_STORE_QUIET); /* 2 */
    tree_change(root_fd, 1, TREE_ID_BASE);
    root_fd = take(store, 1, root_fd, CAY_STORE_FROZEN); /* 3 */
    tree_change(root_fd, 2, TREE_ID_BASE);
    root_fd = take(store, 2, root_fd, CAY_STORE_FROZEN); /* 4 */
    if (cay_store_caps(store) & CAY_STORE_KERNEL_QUOTA)
        must(cay_store_set_quota(store, session_id, 1 << 30, &err), &err, "set quota");
    note_tree(root_fd, notes->live);
    must(cay_store_rollback(store, session_id, snapshot_ids[1], &tree_owner, &point, &err), &err,
         "rollback");
    close(root_fd);
    root_fd = point.root_fd;
    notes->done++; /* 5 */
    bool more = true;
    while (more) /* with spares and flat forms made */
        must(cay_store_collect(store, 100, &more, &err), &err, "collect");
    tree_change(root_fd, 2, TREE_ID_BASE);
    note_tree(root_fd, notes->live);
    struct cay_store_fork_request request = {session_id, fork_id, CAY_STORE_QUIET, &tree_owner};
    must(cay_store_fork(store, &request, &point, &err), &err, "fork");
    if (point.root_fd >= 0) {
        close(root_fd);
        root_fd = point.root_fd;
    }
    notes->done++; /* 6 */
    publish(store, snapshot_ids[1], "second");
    notes->done++; /* 7 */
    must(cay_store_delete_snapshot(store, snapshot_ids[2], &err), &err, "delete snapshot");
    notes->done++; /* 8 */
    must(cay_store_destroy(store, fork_id, &err), &err, "destroy");
    notes->done++; /* 9 */
    must(cay_store_base_remove(store, "second", &err), &err, "remove base");
    notes->done++; /* 10 */
    more = true;
    while (more)
        must(cay_store_collect(store, 7, &more, &err), &err, "collect");
    cay_crash_hook = NULL;
    close(root_fd);
    cay_store_close(store);
    _exit(0);
}

struct found {
    bool session, forked, second, snapshots[3];
    int items;
};

static bool find_item(void *ctx, const struct cay_store_item *item)
{
    struct found *found = ctx;
    found->items++;
    found->session |= !strcmp(item->name, session_id);
    found->forked |= !strcmp(item->name, fork_id);
    found->second |= !strcmp(item->name, "second");
    for (size_t i = 0; i < 3; i++)
        found->snapshots[i] |= !strcmp(item->name, snapshot_ids[i]);
    return true;
}

static char *dump_from(struct cay_store *store, struct cay_store_source source)
{
    char id[CAY_STORE_ID_SIZE];
    struct cay_error err = {};
    int fd = -1;
    cay_store_new_id(id);
    must(cay_store_create(store, id, &source, &err), &err, "create to look");
    must(cay_store_mount(store, id, &tree_owner, &fd, &err), &err, "mount to look");
    char *dump = tree_dump(fd, TREE_ID_BASE);
    close(fd);
    must(cay_store_destroy(store, id, &err), &err, "destroy what was looked at");
    return dump;
}

static void check_session(struct cay_store *store)
{
    struct cay_error err = {};
    int fd = -1;
    assert_true(cay_store_mount(store, session_id, &tree_owner, &fd, &err));
    char *dump = tree_dump(fd, TREE_ID_BASE);
    close(fd);
    bool rolled_back = notes->done >= 4 && !strcmp(dump, notes->snapshots[1]);
    if (notes->live[0] && strcmp(dump, notes->live) && !rolled_back)
        assert_string_equal(dump, notes->live);
    free(dump);
}

static void check_fork(struct cay_store *store)
{
    struct cay_error err = {};
    int fd = -1;
    assert_true(cay_store_mount(store, fork_id, &tree_owner, &fd, &err));
    char *dump = tree_dump(fd, TREE_ID_BASE);
    close(fd);
    assert_string_equal(dump, notes->live);
    free(dump);
}

static void write_more(struct cay_store *store)
{
    struct cay_error err = {};
    int fd = -1;
    assert_true(cay_store_mount(store, session_id, &tree_owner, &fd, &err));
    tree_enter(TREE_ID_BASE);
    tree_write(fd, "after-the-crash", "more");
    tree_append(fd, "etc/hosts", "more");
    tree_leave();
    close(fd);
}

static void check_snapshots(struct cay_store *store, const struct found *found)
{
    for (int i = 0; i < 3; i++) {
        bool acknowledged = notes->done >= i + 2 && !(i == 2 && notes->done >= 7);
        if (acknowledged)
            assert_true(found->snapshots[i]);
        if (!found->snapshots[i])
            continue;
        char *dump = dump_from(store, (struct cay_store_source){.snapshot = snapshot_ids[i]});
        /* One that was done but not acknowledged is what the session was. */
        assert_string_equal(dump, acknowledged || notes->snapshots[i][0] ? notes->snapshots[i]
                                                                         : notes->live);
        free(dump);
    }
    if (found->snapshots[2] && notes->done >= 8)
        fail_msg("a deleted snapshot came back");
}

static void expect_empty(const char *name)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct cay_dir_list names = {};
    assert_return_code(cay_dir_list_read(&names, fd), 0);
    assert_int_equal(names.count, 0);
    cay_dir_list_finish(&names);
    close(fd);
}

static void destroy_all(struct cay_store *store)
{
    struct cay_error err = {};
    bool more = true;
    assert_true(cay_store_destroy(store, session_id, &err));
    assert_true(cay_store_destroy(store, fork_id, &err));
    for (size_t i = 0; i < 3; i++)
        assert_true(cay_store_delete_snapshot(store, snapshot_ids[i], &err));
    if (!cay_store_base_remove(store, "second", &err))
        assert_int_equal(err.reason, CAY_R_BASE_NOT_FOUND);
    assert_true(cay_store_base_remove(store, "base", &err));
    while (more)
        assert_true(cay_store_collect(store, 100, &more, &err));
    static const char *const dirs[] = {"s", "p", "b", "a", "t", "l"};
    for (size_t i = 0; i < CAY_COUNT(dirs) - !strcmp(prefix, "trees."); i++)
        expect_empty(dirs[i]);
}

static void check_what_is_left(void)
{
    struct cay_error err = {};
    struct cay_store *store = NULL;
    struct cay_store_config config = {kind, directory};
    assert_true(cay_store_open(&config, &store, &err));
    struct found found = {};
    assert_true(cay_store_list(store, find_item, &found, &err));
    if (notes->done >= 1) {
        assert_true(found.session);
        check_session(store);
    }
    check_snapshots(store, &found);
    if (notes->done >= 6 && notes->done < 8)
        assert_true(found.forked);
    if (notes->done >= 9)
        assert_false(found.forked);
    if (notes->done >= 7 && notes->done < 9)
        assert_true(found.second);
    if (notes->done >= 10)
        assert_false(found.second);
    if (found.forked)
        check_fork(store);
    if (found.second) {
        char *dump = dump_from(store, (struct cay_store_source){.base = "second"});
        assert_string_equal(dump, notes->snapshots[1]);
        free(dump);
    }
    /* What the session does from now on reaches no snapshot. */
    if (found.session) {
        write_more(store);
        check_snapshots(store, &found);
    }
    /* What was cut short can be done again under the same id. */
    struct cay_store_source base = {.base = "base"};
    assert_true(cay_store_create(store, session_id, &base, &err));
    struct cay_store_snapshot_request request = {
        .session_id = session_id, .snapshot_id = snapshot_ids[0], .activity = CAY_STORE_QUIET};
    struct cay_store_point point;
    assert_true(cay_store_snapshot(store, &request, &point, &err));
    assert_true(cay_store_rollback(store, session_id, snapshot_ids[0], NULL, &point, &err));
    destroy_all(store);
    cay_store_close(store);
}

static void make_world(void)
{
    struct cay_error err = {};
    struct cay_store *store = NULL;
    struct cay_store_config config = {kind, directory};
    memset(notes, 0, sizeof(*notes));
    assert_true(cay_store_open(&config, &store, &err));
    import(store, "base");
    cay_store_close(store);
    cay_store_new_id(session_id);
    cay_store_new_id(fork_id);
    for (size_t i = 0; i < 3; i++)
        cay_store_new_id(snapshot_ids[i]);
}

/* Returns whether it died where it should. */
static bool run(const struct cay_crash_point *point, int occurrence)
{
    die_at = point;
    die_occurrence = occurrence;
    make_world();
    pid_t pid = fork();
    assert_return_code(pid, errno);
    if (pid == 0)
        tell_story();
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    bool died = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (!died)
        assert_int_equal(status, 0);
    check_what_is_left();
    return died;
}

static void dying_anywhere_loses_nothing_and_leaves_nothing(void **)
{
    points = cay_crash_points(&points_count);
    assert_in_range(points_count, 10, POINTS_MAX);
    for (size_t i = 0; i < points_count; i++) {
        int occurrence = 1;
        if (strncmp(points[i].name, prefix, strlen(prefix)))
            continue;
        while (occurrence <= OCCURRENCES && run(&points[i], occurrence))
            occurrence++;
        if (occurrence == 1)
            fail_msg("the story never passes '%s'", points[i].name);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dying_anywhere_loses_nothing_and_leaves_nothing),
    };
    if (geteuid() != 0) {
        print_message("skipped: the stores need root\n");
        return 77;
    }
    kind = argc > 1 ? argv[1] : "overlay";
    ov_flatten_depth = 3; /* else the story is not deep enough */
    prefix = strcmp(kind, "overlay") ? "trees." : "store.";
    tree_make_directory(directory);
    notes = mmap(NULL, sizeof(*notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (notes == MAP_FAILED)
        return 1;
    int rc = cmocka_run_group_tests_name(kind, tests, NULL, NULL);
    tree_remove_directory(directory);
    return rc;
}
