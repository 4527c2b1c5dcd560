/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a store's verbs cost, without daemon or sandbox, on a base of 10,000 files. One line per
 * figure: name, median, 99th percentile, target, ok or MISS. Usage: bench_store [DIRECTORY]
 * [ROUNDS]
 */

#include <assert.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "host/store/base.h"
#include "host/store/diff.h"
#include "host/store/store.h"
#include "sys/layer_mount.h"
#include "sys/remove.h"
#include "sys/userns.h"

enum { ID_BASE = 1000000, SAMPLES_MAX = 2000, DIRS = 100, FILES_PER_DIR = 100 };

static struct cay_store *store;
static struct cay_error err;
static struct cay_store_owner owner = {ID_BASE, 65536, -1};

struct samples {
    const char *name;
    double target_ms; /* 0: none */
    double ms[SAMPLES_MAX];
    size_t count;
};

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void add(struct samples *samples, double since_ms)
{
    if (samples->count < SAMPLES_MAX)
        samples->ms[samples->count++] = now_ms() - since_ms;
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return left < right ? -1 : left > right;
}

static void print(struct samples *samples)
{
    if (!samples->count)
        return;
    qsort(samples->ms, samples->count, sizeof(double), by_value);
    double median = samples->ms[samples->count / 2];
    double p99 = samples->ms[samples->count * 99 / 100];
    const char *verdict = !samples->target_ms ? "" : median <= samples->target_ms ? "ok" : "MISS";
    printf("%-34s %8.3f ms  p99 %8.3f ms  target %6.2f  %s\n", samples->name, median, p99,
           samples->target_ms, verdict);
}

static void must(bool ok)
{
    if (ok)
        return;
    fprintf(stderr, "bench: %s\n", err.text);
    exit(1);
}

static void write_file(int dir_fd, const char *path, const char *text, size_t len)
{
    int fd = openat(dir_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, text, len) != (ssize_t)len) {
        perror(path);
        exit(1);
    }
    close(fd);
}

/* As the sandbox's root would write. */
static void change(int root_fd, int files, int salt)
{
    char text[3000];
    memset(text, 'a' + salt % 26, sizeof(text));
    setfsgid(ID_BASE);
    setfsuid(ID_BASE);
    for (int i = 0; i < files; i++) {
        char path[64];
        snprintf(path, sizeof(path), "tree/%02d/%02d", (salt + i * 7) % DIRS, i % FILES_PER_DIR);
        write_file(root_fd, path, text, sizeof(text));
    }
    setfsuid(0);
    setfsgid(0);
}

static void make_base(void)
{
    struct cay_store_base_draft draft;
    must(cay_store_base_begin(store, &draft, &err));
    mkdirat(draft.root_fd, "tree", 0755);
    char text[4000];
    memset(text, 'x', sizeof(text));
    for (int dir = 0; dir < DIRS; dir++) {
        char path[64];
        snprintf(path, sizeof(path), "tree/%02d", dir);
        mkdirat(draft.root_fd, path, 0755);
        for (int file = 0; file < FILES_PER_DIR; file++) {
            snprintf(path, sizeof(path), "tree/%02d/%02d", dir, file);
            write_file(draft.root_fd, path, text, sizeof(text));
        }
    }
    must(cay_store_base_commit(store, &draft, "bench", &err));
}

static int start(const char *id, struct cay_store_source source, struct samples *samples)
{
    int root_fd = -1;
    double since = now_ms();
    must(cay_store_create(store, id, &source, &err));
    must(cay_store_mount(store, id, &owner, &root_fd, &err));
    add(samples, since);
    return root_fd;
}

static void collect(void)
{
    bool more = true;
    while (more)
        must(cay_store_collect(store, 100'000, &more, &err));
}

/* What the kernel takes to mount such a stack, with every directory there already. */
static void bench_floor(const char *directory, int rounds)
{
    struct samples floor_ = {"floor: overlay mount alone", 0};
    int top = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    mkdirat(top, "floor", 0700);
    int layers = openat(top, "floor", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    mkdirat(layers, "lower", 0755);
    const char *lower = "lower";
    for (int i = 0; i < rounds; i++) {
        char upper[32];
        char work[32];
        snprintf(upper, sizeof(upper), "u%d", i);
        snprintf(work, sizeof(work), "w%d", i);
        mkdirat(layers, upper, 0755);
        mkdirat(layers, work, 0700);
        struct cay_layer_stack stack = {layers, &lower, 1, upper, work, owner.userns_fd, ID_BASE};
        double since = now_ms();
        int fd = cay_layer_mount(&stack, CAY_LAYER_AUTO);
        add(&floor_, since);
        close(fd);
    }
    print(&floor_);
    close(layers);
    close(top);
}

static void bench_create(int rounds)
{
    struct samples create = {"create + mount", 0.4};
    struct samples destroy = {"destroy (acknowledged)", 1.0};
    struct samples unmount = {"close of the root", 0};
    for (int i = 0; i < rounds; i++) {
        char id[CAY_STORE_ID_SIZE];
        cay_store_new_id(id);
        int fd = start(id, (struct cay_store_source){.base = "bench"}, &create);
        change(fd, 5, i);
        double since = now_ms();
        close(fd);
        add(&unmount, since);
        since = now_ms();
        must(cay_store_destroy(store, id, &err));
        add(&destroy, since);
        if (i % 16 == 0)
            collect();
    }
    collect();
    print(&create);
    print(&destroy);
    print(&unmount);
}

static int turn(const char *session, int root_fd, enum cay_store_activity activity,
                struct samples *samples, char out_id[static CAY_STORE_ID_SIZE])
{
    struct cay_store_point point;
    cay_store_new_id(out_id);
    struct cay_store_snapshot_request request = {session, out_id, activity, &owner, false};
    double since = now_ms();
    must(cay_store_snapshot(store, &request, &point, &err));
    add(samples, since);
    if (point.root_fd < 0)
        return root_fd;
    close(root_fd);
    return point.root_fd;
}

/* Turns of one session up to a depth of `depth`, then the way back. */
static void bench_turns(int depth)
{
    struct samples ignored = {"", 0};
    struct samples changed = {"turn, 10 files changed, quiet", 1.0};
    struct samples unchanged = {"turn, unchanged", 0.1};
    struct samples rollback = {"rollback", 2.0};
    struct samples fork_ = {"fork from a snapshot + mount", 1.7};
    char session[CAY_STORE_ID_SIZE];
    char ids[400][CAY_STORE_ID_SIZE];
    char id[CAY_STORE_ID_SIZE];
    assert(depth < 400);
    cay_store_new_id(session);
    int fd = start(session, (struct cay_store_source){.base = "bench"}, &ignored);
    for (int i = 0; i < depth; i++) {
        change(fd, 10, i);
        fd = turn(session, fd, CAY_STORE_QUIET, &changed, ids[i]);
        fd = turn(session, fd, CAY_STORE_QUIET, &unchanged, id);
        must(cay_store_delete_snapshot(store, id, &err));
    }
    for (int i = depth - 1; i > 0; i--) {
        cay_store_new_id(id);
        close(start(id, (struct cay_store_source){.snapshot = ids[i]}, &fork_));
        must(cay_store_destroy(store, id, &err));
        struct cay_store_point point;
        double since = now_ms();
        must(cay_store_rollback(store, session, ids[i], &owner, &point, &err));
        add(&rollback, since);
        close(fd);
        fd = point.root_fd;
    }
    for (int i = 0; i < depth; i++)
        must(cay_store_delete_snapshot(store, ids[i], &err));
    close(fd);
    must(cay_store_destroy(store, session, &err));
    collect();
    printf("-- depth 1..%d\n", depth);
    print(&changed);
    print(&unchanged);
    print(&rollback);
    print(&fork_);
}

static void bench_copy(int rounds, int files)
{
    struct samples ignored = {"", 0};
    struct samples first = {"turn, frozen, copy of all changed", 0};
    struct samples more = {"turn, frozen, 1 more changed", 0};
    struct samples unchanged = {"turn, frozen, unchanged", 0};
    printf("-- %d files changed since the last switch\n", files);
    for (int i = 0; i < rounds; i++) {
        char session[CAY_STORE_ID_SIZE];
        char id[CAY_STORE_ID_SIZE];
        cay_store_new_id(session);
        int fd = start(session, (struct cay_store_source){.base = "bench"}, &ignored);
        change(fd, files, i);
        turn(session, fd, CAY_STORE_FROZEN, &first, id);
        struct timespec grain = {0, 50'000'000}; /* past the clock's grain: see copy_index.h */
        nanosleep(&grain, NULL);
        turn(session, fd, CAY_STORE_FROZEN, &ignored, id);
        change(fd, 1, i);
        turn(session, fd, CAY_STORE_FROZEN, &more, id);
        nanosleep(&grain, NULL);
        turn(session, fd, CAY_STORE_FROZEN, &ignored, id);
        turn(session, fd, CAY_STORE_FROZEN, &unchanged, id);
        close(fd);
        must(cay_store_destroy(store, session, &err));
    }
    print(&first);
    print(&more);
    print(&unchanged);
}

static bool ignore_entry(void *, const struct cay_diff_entry *)
{
    return true;
}

static void bench_diff(int rounds)
{
    struct samples ignored = {"", 0};
    struct samples diff = {"diff, 100 files of 10,000 changed", 5.0};
    char session[CAY_STORE_ID_SIZE];
    cay_store_new_id(session);
    int fd = start(session, (struct cay_store_source){.base = "bench"}, &ignored);
    change(fd, 100, 3);
    struct cay_diff_stats stats = {};
    for (int i = 0; i < rounds; i++) {
        struct cay_diff_request request = {
            .from = {.base = "bench"}, .to = {.session = session}, .visit = ignore_entry};
        double since = now_ms();
        must(cay_store_diff(store, &request, &stats, &err));
        add(&diff, since);
    }
    print(&diff);
    printf("   %llu changes, %llu entries visited\n", (unsigned long long)stats.changes,
           (unsigned long long)stats.entries_visited);
    close(fd);
    must(cay_store_destroy(store, session, &err));
    collect();
}

static void bench_host(void)
{
    struct samples host = {"base 'host' of /usr", 2000};
    char name[CAY_STORE_NAME_SIZE];
    double since = now_ms();
    must(cay_base_host(store, "/", NULL, name, &err));
    add(&host, since);
    print(&host);
    must(cay_store_base_remove(store, name, &err));
    collect();
}

int main(int argc, char **argv)
{
    char directory[256];
    int rounds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 200;
    snprintf(directory, sizeof(directory), "%s/cay-bench-store-XXXXXX",
             argc > 1 ? argv[1] : "/tmp");
    if (geteuid() != 0 || !mkdtemp(directory)) {
        fprintf(stderr, "bench: needs root and a directory\n");
        return 77;
    }
    struct cay_store_config config = {"overlay", directory};
    must(cay_store_open(&config, &store, &err));
    owner.userns_fd = cay_userns_open(owner.id_base, owner.id_count);
    bench_host();
    make_base();
    bench_floor(directory, rounds);
    bench_create(rounds);
    bench_turns(30);
    bench_turns(100);
    bench_copy(10, 10);
    bench_copy(5, 1000);
    bench_diff(50);
    cay_store_close(store);
    close(owner.userns_fd);
    int parent = open(argc > 1 ? argv[1] : "/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = cay_remove_tree(parent, strrchr(directory, '/') + 1, NULL);
    close(parent);
    return rc < 0;
}
