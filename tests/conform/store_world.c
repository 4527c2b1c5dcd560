/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conform/store_world.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/store/dir_list.h"

const char *world_kind;

void world_add_base(struct world *world, const char *name)
{
    struct cay_store_base_draft draft;
    MUST(world, cay_store_base_begin(world->store, &draft, &world->err));
    tree_fill_base(draft.root_fd);
    MUST(world, cay_store_base_commit(world->store, &draft, name, &world->err));
}

static size_t count_fds(void)
{
    int fd = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct cay_dir_list names = {};
    assert_return_code(cay_dir_list_read(&names, fd), 0);
    size_t found = names.count;
    cay_dir_list_finish(&names);
    close(fd);
    return found;
}

/* Below the directory: others come and go as they like. */
static size_t count_mounts(const char *directory)
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    assert_non_null(file);
    size_t found = 0;
    cay_autofree char *line = NULL;
    size_t cap = 0;
    while (getline(&line, &cap, file) > 0)
        found += strstr(line, directory) != NULL;
    (void)fclose(file);
    return found;
}

bool world_may_run(int argc, char **argv)
{
    if (geteuid() != 0) {
        print_message("skipped: the stores need root\n");
        return false;
    }
    assert(argc == 2);
    world_kind = argv[1];
    return true;
}

int world_setup(void **state)
{
    struct world *world = cay_new(struct world);
    world->fds = count_fds();
    tree_make_directory(world->directory);
    struct cay_store_config config = {world_kind, world->directory};
    MUST(world, cay_store_open(&config, &world->store, &world->err));
    if (cay_store_caps(world->store) & CAY_STORE_ID_MAPPED)
        world->id_base = TREE_ID_BASE;
    world_add_base(world, "base");
    *state = world;
    return 0;
}

static bool count_item(void *ctx, const struct cay_store_item *item)
{
    int *counts = ctx;
    counts[item->kind]++;
    return true;
}

int world_count(struct world *world, enum cay_store_item_kind item)
{
    int counts[8] = {};
    MUST(world, cay_store_list(world->store, count_item, counts, &world->err));
    return counts[item];
}

void world_collect(struct world *world)
{
    bool more = true;
    while (more)
        MUST(world, cay_store_collect(world->store, 1000, &more, &world->err));
}

int world_teardown(void **state)
{
    struct world *world = *state;
    tree_empty_store(world->store);
    cay_store_close(world->store);
    tree_remove_directory(world->directory);
    assert_int_equal(count_fds(), world->fds);
    assert_int_equal(count_mounts(world->directory), 0);
    free(world);
    return 0;
}

struct session world_session(struct world *world, struct cay_store_source source)
{
    struct session session = {.root_fd = -1};
    cay_store_new_id(session.id);
    MUST(world, cay_store_create(world->store, session.id, &source, &world->err));
    MUST(world,
         cay_store_mount(world->store, session.id, &tree_owner, &session.root_fd, &world->err));
    return session;
}

struct session world_from_base(struct world *world)
{
    return world_session(world, (struct cay_store_source){.base = "base"});
}

void world_end(struct world *world, struct session *session)
{
    close(session->root_fd);
    MUST(world, cay_store_destroy(world->store, session->id, &world->err));
}

/* Follows the switch as a runtime would. */
void world_follow(struct session *session, const struct cay_store_point *point)
{
    if (point->root_fd < 0)
        return;
    close(session->root_fd);
    session->root_fd = point->root_fd;
}

bool world_take(struct world *world, struct session *session, enum cay_store_activity activity,
                char out_id[static CAY_STORE_ID_SIZE])
{
    cay_store_new_id(out_id);
    struct cay_store_snapshot_request request = {
        .session_id = session->id,
        .snapshot_id = out_id,
        .activity = activity,
        .owner = &tree_owner,
    };
    struct cay_store_point point = {.root_fd = -1};
    MUST(world, cay_store_snapshot(world->store, &request, &point, &world->err));
    if (activity == CAY_STORE_FROZEN)
        assert_int_equal(point.root_fd, -1);
    world_follow(session, &point);
    return point.changed;
}

char *world_dump_snapshot(struct world *world, const char *id)
{
    struct session session = world_session(world, (struct cay_store_source){.snapshot = id});
    char *dump = tree_dump(session.root_fd, world->id_base);
    world_end(world, &session);
    return dump;
}
