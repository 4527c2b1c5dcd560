/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* E2B's doors in front of a hallway that writes down what is asked of it, and a client of theirs.
 */

#include "tests/unit/front/hall.h"
#include "tests/unit/front/harness.h"

struct world {
    struct harness harness;
    struct hall hall;
    struct cay_buf answer; /* the last one, with a NUL behind it */
};

/* For cmocka. */
int world_setup(void **state);
int world_teardown(void **state);

/* One request on a connection of its own, `headers` with their line ends; the status of its answer.
 * What the hallway has written down before is forgotten. */
int world_ask(struct world *world, const char *method, const char *path, const char *headers,
              const char *body);

/* Has the answer that text somewhere? */
bool world_heard(const struct world *world, const char *text);
