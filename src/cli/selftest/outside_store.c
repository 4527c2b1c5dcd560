/* SPDX-License-Identifier: Apache-2.0 */
/* More of a disk than there is to have, and files that change while they are kept. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/selftest/outside.h"
#include "client/rpc/client.h"

enum {
    DISK_BYTES = 4 * 1024 * 1024,
    INODES = 500,
    PIECES = 1500, /* of cay-probe fill: 94 MiB, 30,000 files, at least 7.5 s */
    PIECES_BARE = 128,
    GROWTH_MAX = 64 * 1024 * 1024,
    HOLE_BYTES = 96 * 1024 * 1024,
    DEPTH = 1000,
    TURNS = 4,
    TEXT_BYTES = 4096,
    OPEN_DIRS = 32,
};

static const char *take_turn(struct outside *at, const char *id)
{
    struct cay_error ignored = {};
    struct cay_v1_turn_complete_request request = {.session_id = cay_str(id)};
    struct cay_v1_turn_complete_response response = {};
    if (!cay_selftest_call(at->self, CAY_V1_SANDBOX_SERVICE_TURN_COMPLETE, &request, &response,
                           &ignored) ||
        !response.snapshot)
        return NULL;
    return cay_arena_copy(&at->self->arena, response.snapshot->name);
}

/* Writes to the end, if nobody ends it. */
static void fill(struct outside *at, const char *kind)
{
    const struct cay_v1_resource_limits limits = {
        .has_disk_bytes = true, .disk_bytes = DISK_BYTES, .has_inodes = true, .inodes = INODES};
    const char *id = outside_make(at, kind, &limits);
    const char *count = cay_arena_printf(&at->self->arena, "%d", PIECES);
    const char *const words[] = {"fill", "/workspace", kind, count, NULL};
    int64_t begun_ms = cay_clock_ms();
    if (!id)
        return;
    if (outside_run(at, id, NULL, words) == 0)
        REACHED("all of it");
    else
        DENIED("it ends after %d ms", (int)(cay_clock_ms() - begun_ms));
    cay_selftest_destroy(at->self, id);
}

static void fill_bare(struct outside *at, const char *kind)
{
    const char *dir = outside_dir(at, kind);
    const char *count = cay_arena_printf(&at->self->arena, "%d", PIECES_BARE);
    const char *const words[] = {"fill", dir, kind, count, NULL};
    if (dir && outside_run_bare(at, NULL, words) == 0)
        REACHED("nothing ends it");
    else
        DENIED("it ends");
}

#define FILL(name, kind)                          \
    void try_api_disk_##name(struct outside *at)  \
    {                                             \
        fill(at, kind);                           \
    }                                             \
    void bare_api_disk_##name(struct outside *at) \
    {                                             \
        fill_bare(at, kind);                      \
    }
FILL(named, "named")
FILL(nameless, "nameless")
FILL(empty, "empty")

static int64_t counted_bytes;

static int count_entry(const char *, const struct stat *info, int kind, struct FTW *)
{
    if (kind == FTW_F)
        counted_bytes += (int64_t)info->st_blocks * 512;
    return 0;
}

/* On the disk, below a directory of the run. */
static int64_t measure(struct outside *at, const char *name)
{
    const char *path = cay_arena_printf(&at->self->arena, "%s/%s", at->self->dir, name);
    counted_bytes = 0;
    if (path)
        (void)nftw(path, count_entry, OPEN_DIRS, FTW_PHYS | FTW_MOUNT);
    return counted_bytes;
}

static void judge_copy(struct outside *at, int64_t bytes)
{
    if (bytes > GROWTH_MAX)
        REACHED("%d MiB on the disk", (int)(bytes >> 20));
    else
        DENIED("%d KiB on the disk", (int)(CAY_MAX(bytes, (int64_t)0) >> 10));
}

/* Kept by a turn, and by a fork that goes on. */
void try_api_sparse(struct outside *at)
{
    struct cay_error ignored = {};
    const char *id = outside_make(at, "sparse", NULL);
    const char *fork_id = cay_arena_printf(&at->self->arena, "holes-%zu", at->runtime);
    const char *const words[] = {"sparse", "/workspace/holes", NULL};
    struct cay_v1_fork_session_response response = {};
    struct cay_v1_fork_session_request request = {.session_id = cay_str(id),
                                                  .new_session_id = cay_str(fork_id)};
    int64_t before = measure(at, "data");
    if (id && outside_run(at, id, NULL, words) == 0 && take_turn(at, id) &&
        cay_selftest_call(at->self, CAY_V1_SANDBOX_SERVICE_FORK_SESSION, &request, &response,
                          &ignored) &&
        outside_run(at, fork_id, NULL, words) == 0)
        judge_copy(at, measure(at, "data") - before);
    else
        DENIED("there is no such file");
    cay_selftest_destroy(at->self, fork_id);
    if (id)
        cay_selftest_destroy(at->self, id);
}

/* As a copy is that knows nothing of holes. */
void bare_api_sparse(struct outside *at)
{
    static const char zeros[64 * 1024];
    const char *dir = outside_dir(at, "holes");
    const char *path = cay_arena_printf(&at->self->arena, "%s/copy", dir);
    cay_autoclose int fd = dir ? open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600) : -1;
    for (int64_t done = 0; fd >= 0 && done < HOLE_BYTES; done += (int64_t)sizeof(zeros)) {
        if (write(fd, zeros, sizeof(zeros)) < 0)
            break;
    }
    judge_copy(at, measure(at, "holes"));
    if (fd >= 0)
        (void)unlink(path);
}

struct search {
    const char *path;
    bool is_found;
};

static bool on_entry(void *state, const void *message, struct cay_error *)
{
    struct search *search = state;
    const struct cay_v1_diff_snapshots_response *response = message;
    if (response->which_frame == CAY_V1_DIFF_SNAPSHOTS_RESPONSE_FRAME_ENTRY &&
        cay_str_is(response->frame.entry->path, search->path))
        search->is_found = true;
    return true;
}

/* What was changed beside it must not be hidden by it. */
void try_api_deep(struct outside *at)
{
    struct cay_error err = {};
    const char *id = outside_make(at, "deep", NULL);
    const char *depth = cay_arena_printf(&at->self->arena, "%d", DEPTH);
    const char *const words[] = {"deep", "/workspace", depth, NULL};
    const char *const beside[] = {"sparse", "/workspace/zz-beside", NULL};
    struct search search = {.path = "/workspace/zz-beside"};
    struct cay_v1_diff_snapshots_request request = {.session_id = cay_str(id)};
    if (id && take_turn(at, id)) {
        int made = outside_run(at, id, NULL, words);
        (void)outside_run(at, id, NULL, beside);
        bool is_told = cay_client_call_stream(
            at->self->client, &cay_v1_methods[CAY_V1_SANDBOX_SERVICE_DIFF_SNAPSHOTS], &request,
            on_entry, &search, &err);
        if (!is_told || !search.is_found)
            REACHED("a change beside it is not told: %.80s", err.text);
        else
            DENIED(made == 0 ? "a change beside it is told" : "it cannot be made so deep");
    }
    if (id)
        cay_selftest_destroy(at->self, id);
}

/* A walk that puts paths together. */
void bare_api_deep(struct outside *at)
{
    const char *dir = outside_dir(at, "deep");
    const char *depth = cay_arena_printf(&at->self->arena, "%d", DEPTH);
    const char *const words[] = {"deep", dir, depth, NULL};
    const char *const undo[] = {"deep", dir, cay_arena_printf(&at->self->arena, "%d", -DEPTH),
                                NULL};
    char path[8192];
    struct stat info;
    int made = dir ? outside_run_bare(at, NULL, words) : -1;
    size_t len = (size_t)snprintf(path, sizeof(path), "%s", dir ? dir : "");
    while (made == 0 && len + 202 < sizeof(path) && stat(path, &info) == 0) {
        path[len] = '/';
        memset(path + len + 1, '\xfe', 200);
        path[len += 201] = '\0';
    }
    if (made == 0 && errno == ENAMETOOLONG)
        REACHED("a walk by names ends there");
    else
        DENIED("%s", strerror(errno));
    /* A walk by names would not take it away, either. */
    if (made == 0)
        (void)outside_run_bare(at, NULL, undo);
}

/* 1 or 2: in which of the two directories the file is; 0 in none, 3 in both. */
static int find_file(struct outside *at, const char *id, const char *snapshot)
{
    static const char *const paths[] = {"/workspace/a/file", "/workspace/b/file"};
    struct cay_error ignored = {};
    int found = 0;
    for (int i = 0; i < 2; i++) {
        struct cay_v1_stat_file_response response = {};
        struct cay_v1_stat_file_request request = {.session_id = cay_str(id),
                                                   .path = cay_str(paths[i]),
                                                   .user = CAY_STR("root"),
                                                   .snapshot = cay_str(snapshot)};
        found |= cay_selftest_call(at->self, CAY_V1_FILE_SERVICE_STAT_FILE, &request, &response,
                                   &ignored)
                     ? 1 << i
                     : 0;
    }
    return found;
}

void try_api_moving(struct outside *at)
{
    const char *id = outside_make(at, "moving", NULL);
    const char *const words[] = {"shuffle", "/workspace", "20000", NULL};
    const char *process = id ? outside_start(at, id, words, 20) : NULL;
    if (process && outside_await(at, id, "/workspace/b")) {
        DENIED("in none of %d turns", TURNS);
        for (int i = 0; i < TURNS; i++) {
            const char *turn = take_turn(at, id);
            int found = turn ? find_file(at, id, turn) : 1;
            if (found == 0 || found == 3)
                REACHED("a turn has it %s", found ? "twice" : "nowhere");
        }
    }
    if (id)
        cay_selftest_destroy(at->self, id);
}

/* Directory by directory, while it moves. */
void bare_api_moving(struct outside *at)
{
    const char *dir = outside_dir(at, "moving");
    const char *here = cay_arena_printf(&at->self->arena, "%s/a", dir);
    const char *there = cay_arena_printf(&at->self->arena, "%s/b", dir);
    cay_autoclose int fd = dir ? open(here, O_CREAT | O_WRONLY | O_CLOEXEC, 0600) : -1;
    bool was_here = fd >= 0 && access(here, F_OK) == 0;
    bool is_there = fd >= 0 && rename(here, there) == 0 && access(there, F_OK) == 0;
    if (was_here && is_there)
        REACHED("a copy has it twice");
    else
        DENIED("%s", strerror(errno));
}

/* A process that holds a file open must not write into what a rollback brought back. */
void try_api_late_writer(struct outside *at)
{
    struct cay_error err = {};
    char text[TEXT_BYTES];
    const char *id = outside_make(at, "late-writer", NULL);
    const char *const words[] = {"keep", "/workspace/kept", at->self->token, "/workspace/ready",
                                 NULL};
    struct cay_v1_rollback_session_response response = {};
    struct cay_v1_rollback_session_request request = {.session_id = cay_str(id),
                                                      .kill_tools = true};
    if (id && outside_write(at, id, "/workspace/kept", CAY_STR("of the turn\n"))) {
        const char *turn = take_turn(at, id);
        request.snapshot = cay_str(turn);
        const char *process = turn ? outside_start(at, id, words, 20) : NULL;
        if (process && outside_await(at, id, "/workspace/ready")) {
            bool is_back = cay_selftest_call(at->self, CAY_V1_SANDBOX_SERVICE_ROLLBACK_SESSION,
                                             &request, &response, &err);
            size_t len = outside_read(at, id, "/workspace/kept", text, sizeof(text));
            if (!is_back)
                DENIED("it is not rolled back: %.80s", err.text);
            else if (len == 12 && memcmp(text, "of the turn\n", 12) == 0)
                DENIED("the file is the turn's");
            else
                REACHED("the file is not the turn's");
        }
    }
    if (id)
        cay_selftest_destroy(at->self, id);
}

/* What writes the old bytes into the file that is there. */
void bare_api_late_writer(struct outside *at)
{
    const char *dir = outside_dir(at, "late");
    const char *path = cay_arena_printf(&at->self->arena, "%s/kept", dir);
    const char *ready = cay_arena_printf(&at->self->arena, "%s/ready", dir);
    const char *const argv[] = {at->self->probe_path, "keep", path, at->self->token, ready, NULL};
    char text[TEXT_BYTES] = "";
    cay_autoclose int fd = dir ? open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600) : -1;
    pid_t pid = fd < 0 ? -1 : outside_spawn(at, argv);
    bool is_ready = pid > 0 && outside_await_bare(ready);
    const struct timespec moment = {.tv_nsec = 100 * CAY_NS_PER_MS};
    bool is_back = is_ready && pwrite(fd, "of the turn\n", 12, 0) == 12;
    (void)nanosleep(&moment, NULL);
    bool is_changed = is_back && pread(fd, text, sizeof(text) - 1, 0) > 12 &&
                      memmem(text, sizeof(text), at->self->token, strlen(at->self->token));
    outside_kill(pid);
    if (is_changed)
        REACHED("it is written to again");
    else
        DENIED("it stays");
}
