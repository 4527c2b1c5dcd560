/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conform/runtime_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sys/cgroup.h"

struct fixture fixture;

int fixture_begin(int argc, char **argv)
{
    enum { SKIPPED = 77 };
    if (argc < 3) {
        fprintf(stderr, "usage: %s RUNTIME CAY-INIT [PROBE]\n", argv[0]);
        return 2;
    }
    const char *missing = root_missing();
    if (missing) {
        fprintf(stderr, "skipped: %s\n", missing);
        return SKIPPED;
    }
    if (!root_make(&fixture.root, argc > 3 ? argv[3] : NULL)) {
        perror("make the test's root");
        return 1;
    }
    snprintf(fixture.run_dir, sizeof(fixture.run_dir), "/tmp/cay-run-%d", (int)getpid());
    snprintf(fixture.cgroup_parent, sizeof(fixture.cgroup_parent), "cay-conform-%d", (int)getpid());
    struct cay_runtime_config config = {
        .run_dir = fixture.run_dir, .cgroup_parent = fixture.cgroup_parent, .init_path = argv[2]};
    struct cay_error err = {};
    if (!cay_runtime_open(argv[1], &config, &fixture.runtime, &err)) {
        fprintf(stderr, "%s\n", err.text);
        root_remove(&fixture.root);
        return 1;
    }
    /* The first sandboxes get what is made ready, the others do not: both must be good. */
    cay_runtime_prepare(fixture.runtime);
    return -1;
}

int fixture_end(int result)
{
    cay_runtime_close(fixture.runtime);
    root_remove(&fixture.root);
    if (rmdir(fixture.run_dir) < 0 && access(fixture.run_dir, F_OK) == 0) {
        perror("the run directory is not empty");
        result = 1;
    }
    struct cay_cgroup_host host;
    if (cay_cgroup_detect(&host) == 0 && cay_cgroup_remove(&host, fixture.cgroup_parent, 0) < 0) {
        fprintf(stderr, "control groups are left behind\n");
        result = 1;
    }
    return result;
}

bool fixture_start(const char *id, uint32_t uid_base, const struct cay_cgroup_limits *limits,
                   struct cay_sandbox **out_sandbox)
{
    struct cay_sandbox_spec spec = {
        .id = id,
        .root_fd = -1,
        .root_path = fixture.root.path,
        .uid_base = uid_base,
        .userns_fd = -1,
        .hostname = "cay",
        .limits = limits ? *limits : (struct cay_cgroup_limits){},
    };
    struct cay_error err = {};
    if (cay_runtime_start(fixture.runtime, &spec, out_sandbox, &err))
        return true;
    fprintf(stderr, "%s\n", err.text);
    return false;
}

int fixture_up(void **)
{
    return fixture_start("one", FIXTURE_BASE, NULL, &fixture.sandbox) &&
                   driver_open(&fixture.driver, fixture.sandbox)
               ? 0
               : -1;
}

int fixture_down(void **)
{
    struct cay_error err = {};
    driver_close(&fixture.driver);
    bool gone = !fixture.sandbox || cay_sandbox_destroy(fixture.sandbox, &err);
    fixture.sandbox = NULL;
    if (!gone)
        fprintf(stderr, "%s\n", err.text);
    return gone ? 0 : -1;
}

void fixture_needs(unsigned caps)
{
    if (!cay_runtime_can(fixture.runtime, caps)) {
        print_message("skipped: the runtime '%s' does not promise it\n",
                      cay_runtime_name(fixture.runtime));
        skip();
    }
}

struct driver_call *run_as(uint32_t uid, const char *script)
{
    struct driver_call *call =
        driver_run(&fixture.driver, &(struct driver_exec){.script = script, .uid = uid});
    assert_non_null(call);
    return call;
}

struct driver_call *run_script(const char *script)
{
    return run_as(0, script);
}
