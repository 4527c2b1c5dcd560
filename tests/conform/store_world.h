/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A store with one base, and sessions in it, for the suites that run over every kind. Nothing may
 * be left of it at the end: no descriptor, no mount, no file. */

#include "tests/conform/store_tree.h"
#include "tests/unit/test.h"

extern const char *world_kind;

enum { WORLD_SKIPPED = 77 }; /* the status of a program that cannot run here */

/* Takes the kind from the arguments of main. */
bool world_may_run(int argc, char **argv);

struct world {
    struct cay_store *store;
    char directory[TREE_DIRECTORY_SIZE];
    size_t fds;       /* open before the store was */
    uint32_t id_base; /* what owners are shifted by in a mounted tree */
    struct cay_error err;
};

#define MUST(world, call)                                      \
    do {                                                       \
        if (!(call)) {                                         \
            print_error("%s: %s\n", #call, (world)->err.text); \
            fail();                                            \
        }                                                      \
    } while (0)

struct session {
    char id[CAY_STORE_ID_SIZE];
    int root_fd;
};

int world_setup(void **state);
int world_teardown(void **state);
void world_add_base(struct world *world, const char *name);
int world_count(struct world *world, enum cay_store_item_kind item);
void world_collect(struct world *world);

struct session world_session(struct world *world, struct cay_store_source source);
struct session world_from_base(struct world *world);
void world_end(struct world *world, struct session *session);
/* Follows the switch as a runtime would. */
void world_follow(struct session *session, const struct cay_store_point *point);
/* Whether it says that something changed. */
bool world_take(struct world *world, struct session *session, enum cay_store_activity activity,
                char out_id[static CAY_STORE_ID_SIZE]);
/* What the snapshot holds, seen through a session made from it. */
char *world_dump_snapshot(struct world *world, const char *id);
