/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One sandbox per test, of the runtime named on the command line. A test that needs what the
 * runtime does not promise is skipped.
 */

#include "tests/conform/runtime_driver.h"
#include "tests/conform/runtime_root.h"
#include "tests/unit/test.h"

enum { FIXTURE_BASE = 1610612736 }; /* a multiple of the alignment of ranges */

struct fixture {
    struct cay_runtime *runtime;
    struct root root;
    char run_dir[64];
    char cgroup_parent[64];
    struct cay_sandbox *sandbox;
    struct driver driver;
};

extern struct fixture fixture;

/* Reads "NAME" from the arguments, opens the runtime. Returns what main should return, or -1 to go
 * on. */
int fixture_begin(int argc, char **argv);
int fixture_end(int result);

/* For cmocka: a sandbox with a link before each test, destroyed after. */
int fixture_up(void **);
int fixture_down(void **);

bool fixture_start(const char *id, uint32_t uid_base, const struct cay_cgroup_limits *limits,
                   struct cay_sandbox **out_sandbox);

/* Skips the test unless the runtime has these capabilities. */
void fixture_needs(unsigned caps);

struct driver_call *run_script(const char *script);
struct driver_call *run_as(uint32_t uid, const char *script);
