/* SPDX-License-Identifier: Apache-2.0 */

/* What every store promises of bases: names, aliases, replacement, and points that become one. */

#include "tests/conform/store_world.h"

#include <stdlib.h>
#include <unistd.h>

#include "host/store/diff.h"

static bool skip_entry(void *, const struct cay_diff_entry *)
{
    return true;
}

/* A store's own name for a base with a colon or a slash is nothing that users know. */
static void names_are_told_as_they_were_given(struct world *world)
{
    struct cay_error err = {};
    world_add_base(world, "named" CAY_STORE_FOR_COLON "1");
    assert_false(cay_store_base_alias(world->store, "named" CAY_STORE_FOR_COLON "1", "base", &err));
    assert_int_equal(err.reason, CAY_R_BASE_EXISTS);
    assert_non_null(strstr(err.text, "'named:1'"));
    assert_false(
        cay_store_base_alias(world->store, "other", "not" CAY_STORE_FOR_SLASH "there", &err));
    assert_non_null(strstr(err.text, "'not/there'"));
    MUST(world, cay_store_base_remove(world->store, "named" CAY_STORE_FOR_COLON "1", &world->err));
}

static void bases_have_names_and_aliases(void **state)
{
    struct world *world = *state;
    struct cay_error err = {};
    char name[CAY_STORE_NAME_SIZE];
    names_are_told_as_they_were_given(world);
    world_add_base(world, "second");
    MUST(world, cay_store_base_alias(world->store, "latest", "base", &world->err));
    MUST(world, cay_store_base_resolve(world->store, "latest", name, &world->err));
    assert_string_equal(name, "base");
    MUST(world, cay_store_base_alias(world->store, "latest", "second", &world->err));
    MUST(world, cay_store_base_resolve(world->store, "latest", name, &world->err));
    assert_string_equal(name, "second");
    assert_false(cay_store_base_alias(world->store, "base", "second", &err));
    assert_int_equal(err.reason, CAY_R_BASE_EXISTS);
    assert_false(cay_store_base_alias(world->store, "x", "latest", &err));
    assert_int_equal(err.reason, CAY_R_BASE_NOT_FOUND);
    struct cay_store_base_draft draft;
    MUST(world, cay_store_base_begin(world->store, &draft, &world->err));
    assert_false(cay_store_base_commit(world->store, &draft, "base", &err));
    assert_int_equal(err.reason, CAY_R_BASE_EXISTS);
    assert_int_equal(draft.root_fd, -1);
    struct session session = world_session(world, (struct cay_store_source){.base = "latest"});
    MUST(world, cay_store_base_remove(world->store, "second", &world->err));
    assert_false(cay_store_base_resolve(world->store, "latest", name, &err));
    assert_int_equal(err.reason, CAY_R_BASE_NOT_FOUND);
    assert_int_equal(world_count(world, CAY_STORE_ITEM_BASE), 1);
    assert_int_equal(world_count(world, CAY_STORE_ITEM_ALIAS), 0);
    /* Who stands on it keeps it. */
    world_collect(world);
    tree_change(session.root_fd, 0, world->id_base);
    struct cay_diff_stats stats;
    const struct cay_diff_request request = {
        .from = {.origin = session.id}, .to = {.session = session.id}, .visit = skip_entry};
    MUST(world, cay_store_diff(world->store, &request, &stats, &world->err));
    assert_int_not_equal(stats.changes, 0);
    world_end(world, &session);
}

static void publish(struct world *world, const struct cay_store_ref *ref, const char *name)
{
    struct cay_store_base_draft draft;
    MUST(world, cay_store_base_begin_from(world->store, ref, &draft, &world->err));
    MUST(world, cay_store_base_commit(world->store, &draft, name, &world->err));
}

static void must_show(struct world *world, const char *base, const char *dump)
{
    struct session session = world_session(world, (struct cay_store_source){.base = base});
    char *seen = tree_dump(session.root_fd, world->id_base);
    assert_string_equal(seen, dump);
    /* What is made on it is compared with it, not with what it came from. */
    struct cay_diff_stats stats;
    const struct cay_diff_request request = {
        .from = {.origin = session.id}, .to = {.session = session.id}, .visit = skip_entry};
    MUST(world, cay_store_diff(world->store, &request, &stats, &world->err));
    assert_int_equal(stats.changes, 0);
    free(seen);
    world_end(world, &session);
}

static void a_point_becomes_a_base(void **state)
{
    struct world *world = *state;
    struct session session = world_from_base(world);
    struct cay_error err = {};
    char id[CAY_STORE_ID_SIZE];
    char name[CAY_STORE_NAME_SIZE];
    char *at_point = NULL;
    bool has_snapshots = cay_store_caps(world->store) & CAY_STORE_SNAPSHOTS;
    for (unsigned i = 0; i < 3; i++) {
        tree_change(session.root_fd, i, world->id_base);
        if (i == 2 || !has_snapshots)
            continue;
        free(at_point);
        at_point = tree_dump(session.root_fd, world->id_base);
        (void)world_take(world, &session, i ? CAY_STORE_FROZEN : CAY_STORE_QUIET, id);
    }
    char *at_end = tree_dump(session.root_fd, world->id_base);
    if (has_snapshots) {
        publish(world, &(struct cay_store_ref){.snapshot = id}, "of-snapshot");
        must_show(world, "of-snapshot", at_point);
        MUST(world, cay_store_delete_snapshot(world->store, id, &world->err));
    }
    close(cay_take_fd(session.root_fd));
    publish(world, &(struct cay_store_ref){.session = session.id}, "of-session");
    MUST(world, cay_store_destroy(world->store, session.id, &world->err));
    world_collect(world);
    must_show(world, "of-session", at_end);
    struct cay_store_base_draft draft;
    assert_false(cay_store_base_begin_from(
        world->store, &(struct cay_store_ref){.session = session.id}, &draft, &err));
    assert_int_equal(err.reason, CAY_R_SESSION_NOT_FOUND);
    assert_int_equal(draft.root_fd, -1);
    if (has_snapshots) {
        /* Each stands for itself: one goes, the other stays. */
        MUST(world, cay_store_base_remove(world->store, "of-session", &world->err));
        world_collect(world);
        must_show(world, "of-snapshot", at_point);
        MUST(world, cay_store_base_resolve(world->store, "of-snapshot", name, &world->err));
    }
    free(at_point);
    free(at_end);
}

static void replace_base(struct world *world, const char *name, const char *text,
                         char out_id[static CAY_STORE_ID_SIZE])
{
    struct cay_store_base_draft draft;
    MUST(world, cay_store_base_begin(world->store, &draft, &world->err));
    tree_write(draft.root_fd, "version", text);
    memcpy(out_id, draft.id, CAY_STORE_ID_SIZE);
    MUST(world, cay_store_base_replace(world->store, &draft, name, &world->err));
}

static void expect_text(struct world *world, int root_fd, const char *path, const char *text)
{
    tree_enter(world->id_base);
    cay_autofree char *found = tree_read(root_fd, path);
    tree_leave();
    assert_non_null(found);
    assert_string_equal(found, text);
}

static bool count_entry(void *ctx, const struct cay_diff_entry *)
{
    ++*(int *)ctx;
    return true;
}

static int changes_since_origin(struct world *world, const struct session *session)
{
    int count = 0;
    struct cay_diff_stats stats;
    struct cay_diff_request request = {.from = {.origin = session->id},
                                       .to = {.session = session->id},
                                       .visit = count_entry,
                                       .ctx = &count};
    MUST(world, cay_store_diff(world->store, &request, &stats, &world->err));
    return count;
}

static void start_again(struct world *world, struct session *sessions, size_t count)
{
    if (!(cay_store_caps(world->store) & CAY_STORE_PERSISTENT))
        return;
    for (size_t i = 0; i < count; i++)
        close(sessions[i].root_fd);
    cay_store_close(world->store);
    struct cay_store_config config = {world_kind, world->directory};
    MUST(world, cay_store_open(&config, &world->store, &world->err));
    for (size_t i = 0; i < count; i++)
        MUST(world, cay_store_mount(world->store, sessions[i].id, &tree_owner, &sessions[i].root_fd,
                                    &world->err));
}

/* Sessions keep what they stand on, whatever its name is used for. */
static void a_base_takes_the_place_of_another(void **state)
{
    struct world *world = *state;
    struct session sessions[3];
    char ids[2][CAY_STORE_ID_SIZE];
    char id[CAY_STORE_ID_SIZE];
    struct cay_error err = {};
    MUST(world, cay_store_base_alias(world->store, "latest", "base", &world->err));
    sessions[0] = world_from_base(world);
    replace_base(world, "base", "1", ids[0]);
    sessions[1] = world_session(world, (struct cay_store_source){.base = "latest"});
    MUST(world, cay_store_base_id(world->store, "base", id, &world->err));
    assert_string_equal(id, ids[0]);
    /* An alias makes way, too. */
    replace_base(world, "latest", "2", ids[1]);
    sessions[2] = world_session(world, (struct cay_store_source){.base = "latest"});
    MUST(world, cay_store_base_remove(world->store, "base", &world->err));
    assert_false(cay_store_base_id(world->store, "base", id, &err));
    assert_int_equal(err.reason, CAY_R_BASE_NOT_FOUND);
    world_collect(world);
    for (int round = 0; round < 2; round++) {
        expect_text(world, sessions[0].root_fd, "etc/passwd", "root:x:0:0::/root:/bin/sh\n");
        expect_text(world, sessions[1].root_fd, "version", "1");
        expect_text(world, sessions[2].root_fd, "version", "2");
        for (size_t i = 0; i < CAY_COUNT(sessions); i++)
            assert_int_equal(changes_since_origin(world, &sessions[i]), 0);
        assert_int_equal(world_count(world, CAY_STORE_ITEM_BASE), 1);
        assert_int_equal(world_count(world, CAY_STORE_ITEM_ALIAS), 0);
        MUST(world, cay_store_base_id(world->store, "latest", id, &world->err));
        assert_string_equal(id, ids[1]);
        start_again(world, sessions, CAY_COUNT(sessions));
    }
    for (size_t i = 0; i < CAY_COUNT(sessions); i++)
        world_end(world, &sessions[i]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_base_takes_the_place_of_another, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(bases_have_names_and_aliases, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(a_point_becomes_a_base, world_setup, world_teardown),
    };
    return world_may_run(argc, argv) ? cmocka_run_group_tests_name(world_kind, tests, NULL, NULL)
                                     : WORLD_SKIPPED;
}
