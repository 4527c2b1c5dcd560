/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the runtime's share of a session costs: create, run a static `true`, run a shell, stream,
 * freeze, destroy. Medians and 90th percentiles in microseconds, with everything on one processor
 * ("pinned") and not ("free").
 *
 *     bench_runtime RUNTIME CAY-INIT TRUE [ROUNDS]
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "sys/userns.h"
#include "tests/conform/runtime_driver.h"
#include "tests/conform/runtime_root.h"

enum { BASE = 1610612736, ROUNDS_MAX = 2000, SPACED_ROUNDS = 40, SPACE_USEC = 50000 };

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static struct cay_runtime *runtime;
static struct root root;
static int userns_fd = -1;

static double now_usec(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return left < right ? -1 : left > right;
}

static void report(const char *name, const char *how, double *usec, int count)
{
    qsort(usec, (size_t)count, sizeof(*usec), compare);
    printf("%-28s %-7s %9.1f us   p90 %9.1f us   (%d)\n", name, how, usec[count / 2],
           usec[count * 9 / 10], count);
}

static void die(const char *text)
{
    fprintf(stderr, "bench_runtime: %s\n", text);
    exit(1);
}

static struct cay_sandbox *create(void)
{
    struct cay_sandbox_spec spec = {
        .id = "bench",
        .root_fd = -1,
        .root_path = root.path,
        .uid_base = BASE,
        .userns_fd = userns_fd,
        .hostname = "bench",
        .limits = {.memory_bytes = UINT64_C(1) << 30, .pids = 512, .cpu_millis = 2000},
    };
    struct cay_sandbox *sandbox = NULL;
    struct cay_error err = {};
    if (!cay_runtime_start(runtime, &spec, &sandbox, &err))
        die(err.text);
    return sandbox;
}

static void bench_create(const char *how, int rounds)
{
    static double create_usec[ROUNDS_MAX];
    static double destroy_usec[ROUNDS_MAX];
    struct cay_error err = {};
    for (int i = 0; i < rounds; i++) {
        double start = now_usec();
        struct cay_sandbox *sandbox = create();
        double made = now_usec();
        if (!cay_sandbox_destroy(sandbox, &err))
            die(err.text);
        create_usec[i] = made - start;
        destroy_usec[i] = now_usec() - made;
    }
    report("create", how, create_usec, rounds);
    report("destroy", how, destroy_usec, rounds);
}

static void bench_exec(const char *name, const char *how, struct driver *driver,
                       const struct driver_exec *exec, int rounds, bool spaced)
{
    static double usec[ROUNDS_MAX];
    for (int i = 0; i < rounds; i++) {
        if (spaced)
            usleep(SPACE_USEC);
        double start = now_usec();
        const struct driver_call *call = driver_run(driver, exec);
        if (!call || call->exit.cause != CAY_CAUSE_EXITED || call->exit.code != 0)
            die("a command failed");
        usec[i] = now_usec() - start;
    }
    report(name, how, usec, rounds);
}

static void bench_ping(const char *how, struct driver *driver, int rounds)
{
    static double usec[ROUNDS_MAX];
    for (int i = 0; i < rounds; i++) {
        double start = now_usec();
        uint64_t value = driver->pong + 1;
        if (!cay_link_ping(driver->link, value, &driver->error))
            die(driver->error.text);
        while (driver->pong != value && !driver->dead)
            driver_step(driver, 1000);
        usec[i] = now_usec() - start;
    }
    report("ping", how, usec, rounds);
}

static void bench_freeze(const char *how, struct cay_sandbox *sandbox, int rounds)
{
    static double usec[ROUNDS_MAX];
    struct cay_error err = {};
    for (int i = 0; i < rounds; i++) {
        double start = now_usec();
        if (!cay_sandbox_freeze(sandbox, 2000, &err) || !cay_sandbox_thaw(sandbox, &err))
            die(err.text);
        usec[i] = now_usec() - start;
    }
    report("freeze and thaw", how, usec, rounds);
}

static void bench_stream(const char *how, struct driver *driver)
{
    enum { MIB = 256 };
    driver->discards = true;
    double start = now_usec();
    const struct driver_call *call = driver_run(
        driver, &(struct driver_exec){.script = "dd if=/dev/zero bs=65536 count=4096 2>/dev/null"});
    if (!call)
        die("stream failed");
    double seconds = (now_usec() - start) / 1e6;
    printf("%-28s %-7s %9.0f MiB/s\n", "stream 256 MiB", how, MIB / seconds);
}

static void bench(const char *how, const char *true_path, int rounds)
{
    bench_create(how, rounds / 4);
    struct cay_sandbox *sandbox = create();
    struct driver driver;
    if (!driver_open(&driver, sandbox))
        die(driver.error.text);
    const struct driver_exec run_true = {.args = ARGS(true_path)};
    const struct driver_exec run_shell = {.script = "echo hi"};
    bench_ping(how, &driver, rounds);
    bench_exec("exec true", how, &driver, &run_true, rounds, false);
    bench_exec("exec true, 50 ms apart", how, &driver, &run_true, SPACED_ROUNDS, true);
    bench_exec("exec sh -c 'echo hi'", how, &driver, &run_shell, rounds, false);
    bench_freeze(how, sandbox, rounds);
    bench_stream(how, &driver);
    driver_close(&driver);
    struct cay_error err = {};
    if (!cay_sandbox_destroy(sandbox, &err))
        die(err.text);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        die("usage: bench_runtime RUNTIME CAY-INIT TRUE [ROUNDS]");
    int rounds = argc > 4 ? (int)strtol(argv[4], NULL, 10) : 400;
    rounds = CAY_MIN(CAY_MAX(rounds, 8), ROUNDS_MAX);
    const char *missing = root_missing();
    if (missing)
        die(missing);
    char run_dir[64];
    char group[64];
    snprintf(run_dir, sizeof(run_dir), "/tmp/cay-bench-%d", (int)getpid());
    snprintf(group, sizeof(group), "cay-bench-%d", (int)getpid());
    struct cay_runtime_config config = {
        .run_dir = run_dir, .cgroup_parent = group, .init_path = argv[2]};
    struct cay_error err = {};
    if (!root_make(&root, argv[3]) || !cay_runtime_open(argv[1], &config, &runtime, &err))
        die(err.text);
    userns_fd = cay_userns_open(BASE, CAY_USERNS_COUNT);
    bool isolates = cay_runtime_can(runtime, CAY_RUNTIME_ISOLATES);
    const char *true_path = isolates ? "/bin/probe" : argv[3];
    bench("free", true_path, rounds);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    if (sched_setaffinity(0, sizeof(one), &one) == 0)
        bench("pinned", true_path, rounds);
    cay_runtime_close(runtime);
    root_remove(&root);
    rmdir(run_dir);
    struct cay_cgroup_host host;
    if (cay_cgroup_detect(&host) == 0)
        (void)cay_cgroup_remove(&host, group, 1000);
    return 0;
}
