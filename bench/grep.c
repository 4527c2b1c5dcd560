/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How fast the file tools are on one thread's call, without the daemon around them:
 *
 *     bench_tool DIR           grep for five patterns in DIR beside `rg -j2`, then read_file
 *     bench_tool DIR RUNS      the same with so many runs of each (11)
 *
 * The shortest run counts, of both. rg is started anew each time, as its users do; its start-up is
 * printed so that it can be taken off.
 */

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tool/tool.h"

static const char *const patterns[] = {
    "pthread_mutex_lock",
    "static inline [a-z_]+ \\*?[a-z_]+_init\\(",
    "(?i)error",
    "[A-Z]+_SUSPEND",
    "\\bvoid\\s+\\w+\\s*\\(",
};

enum { RUNS_DEFAULT = 11, READS = 200'000, ARENA_BYTES = 64 * 1024 * 1024 };

/* Microseconds, and the number of matches. */
static double run_tool(const char *name, const struct cay_tool_tree *tree,
                       const struct google_protobuf_struct *params, double *out_matches)
{
    struct cay_arena arena;
    cay_arena_init(&arena, ARENA_BYTES);
    struct cay_v1_tool_result result = {};
    struct cay_error err = {};
    int64_t start = cay_clock_ns();
    if (!cay_tool_run(cay_tool_find(cay_str(name)), tree, params, 0, 0, &arena, &result, &err) ||
        result.is_error) {
        fprintf(stderr, "%s: %s\n", name, err.text);
        exit(1);
    }
    double took_us = (double)(cay_clock_ns() - start) / 1e3;
    if (out_matches)
        *out_matches = result.data->fields.items[0].value->kind.number_value;
    cay_arena_finish(&arena);
    return took_us;
}

static double run_rg(const char *pattern, const char *dir)
{
    char *const argv[] = {(char[]){"rg"},      (char[]){"-j2"}, (char[]){"--"},
                          cay_strdup(pattern), cay_strdup(dir), NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    /* Not /dev/null, where rg stops at the first match. */
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/shm/cay-bench-rg",
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int64_t start = cay_clock_ns();
    pid_t pid = 0;
    if (posix_spawnp(&pid, "rg", &actions, NULL, argv, environ) != 0)
        return 0;
    int status = 0;
    waitpid(pid, &status, 0);
    double took_us = (double)(cay_clock_ns() - start) / 1e3;
    posix_spawn_file_actions_destroy(&actions);
    unlink("/dev/shm/cay-bench-rg");
    free(argv[3]);
    free(argv[4]);
    return took_us;
}

static struct google_protobuf_value text_value(const char *text)
{
    return (struct google_protobuf_value){.which_kind = GOOGLE_PROTOBUF_VALUE_KIND_STRING_VALUE,
                                          .kind.string_value = cay_str(text)};
}

static void bench_grep(const struct cay_tool_tree *tree, const char *dir, int runs)
{
    printf("%-45s %10s %10s %7s %10s\n", "pattern", "cay ms", "rg -j2 ms", "ratio", "matches");
    for (size_t i = 0; i < CAY_COUNT(patterns); i++) {
        struct google_protobuf_value pattern = text_value(patterns[i]);
        struct google_protobuf_value path = text_value("/");
        struct google_protobuf_struct_fields_entry fields[] = {{CAY_STR("pattern"), &pattern},
                                                               {CAY_STR("path"), &path}};
        struct google_protobuf_struct params = {.fields = {fields, 2}};
        double ours = 1e12;
        double theirs = 1e12;
        double matches = 0;
        for (int run = 0; run < runs; run++) {
            double took = run_tool("grep", tree, &params, &matches);
            ours = CAY_MIN(ours, took);
            took = run_rg(patterns[i], dir);
            theirs = CAY_MIN(theirs, took);
        }
        printf("%-45s %10.1f %10.1f %7.2f %10.0f\n", patterns[i], ours / 1e3, theirs / 1e3,
               ours / theirs, matches);
    }
    double start = 1e12;
    for (int run = 0; run < runs; run++) {
        double took = run_rg("x", "/dev/null");
        start = CAY_MIN(start, took);
    }
    printf("%-45s %10s %10.1f\n", "(starting rg)", "", start / 1e3);
}

/* Of this thread: what a core could do with nobody else on it. */
static double cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void bench_read(const struct cay_tool_tree *tree)
{
    int fd = openat(tree->root_fd, ".cay-bench", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    for (int line = 0; fd >= 0 && line < 64; line++)
        dprintf(fd, "%-63d\n", line);
    close(fd);
    struct google_protobuf_value path = text_value("/.cay-bench");
    struct google_protobuf_struct_fields_entry fields[] = {{CAY_STR("path"), &path}};
    struct google_protobuf_struct params = {.fields = {fields, 1}};
    double wall_us = 0;
    double start_us = cpu_us();
    for (int i = 0; i < READS; i++)
        wall_us += run_tool("read_file", tree, &params, NULL);
    double cpu = cpu_us() - start_us;
    printf("read_file of 4 KiB: %.2f us, of these %.2f us of CPU: %.0f k/s per core\n",
           wall_us / READS, cpu / READS, READS / cpu * 1e3);
    unlinkat(tree->root_fd, ".cay-bench", 0);
}

int main(int argc, char **argv)
{
    int fd = argc > 1 ? open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0) {
        fprintf(stderr, "usage: %s DIR [RUNS]\n", argv[0]);
        return 2;
    }
    struct cay_tool_tree tree = {.root_fd = fd, .uid = geteuid(), .gid = getegid()};
    bench_grep(&tree, argv[1], argc > 2 ? (int)strtol(argv[2], NULL, 10) : RUNS_DEFAULT);
    bench_read(&tree);
    return 0;
}
