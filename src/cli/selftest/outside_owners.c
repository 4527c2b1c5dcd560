/* SPDX-License-Identifier: Apache-2.0 */
/* Names, owners, identities: who may be what. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/selftest/outside.h"
#include "client/rpc/client.h"

/* The uid of the process of that name on the host; -1 when there is none. */
static int uid_of(const char *name)
{
    DIR *dir = opendir("/proc");
    int uid = -1;
    for (const struct dirent *entry; dir && uid < 0 && (entry = readdir(dir));) {
        char path[64];
        char comm[32] = "";
        struct stat info;
        int pid = 0;
        if (sscanf(entry->d_name, "%d", &pid) != 1)
            continue;
        snprintf(path, sizeof(path), "/proc/%d/comm", pid);
        cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && read(fd, comm, sizeof(comm) - 1) > 0 &&
            strncmp(comm, name, strlen(name)) == 0 && fstat(fd, &info) == 0)
            uid = (int)info.st_uid;
    }
    if (dir)
        closedir(dir);
    return uid;
}

/* The neighbour's holder is root there. */
void try_host_identity(struct outside *at)
{
    const char *name = cay_arena_printf(&at->self->arena, "prize-n%.7s", at->self->token);
    int uid = uid_of(name);
    if (uid == 0)
        REACHED("it runs as root");
    else if (uid > 0)
        DENIED("it runs as %d", uid);
    else
        DENIED("it is no process of the host");
}

void bare_host_identity(struct outside *at)
{
    const char *name = cay_arena_printf(&at->self->arena, "prize-%.8s", at->self->token);
    if (uid_of(name) == 0)
        REACHED("it runs as root");
    else
        DENIED("it is not root");
}

const char *outside_key(struct outside *at, const char *owner)
{
    struct cay_error ignored = {};
    struct cay_v1_create_key_response response = {};
    struct cay_v1_create_key_request request = {.owner = cay_str(owner)};
    return cay_selftest_call(at->self, CAY_V1_KEY_SERVICE_CREATE_KEY, &request, &response, &ignored)
               ? cay_arena_copy(&at->self->arena, response.secret)
               : NULL;
}

/* Alice's session; her key, and its token. */
static bool make_alices(struct outside *at, const char **out_key, const char **out_token)
{
    struct cay_error ignored = {};
    struct cay_v1_create_session_response response = {};
    struct cay_v1_create_session_request request = {
        .session_id = CAY_STR("alices"), .base = CAY_STR("selftest"), .lazy_start = true};
    *out_key = outside_key(at, "alice");
    if (!*out_key || !outside_call_as(at, *out_key, CAY_V1_SANDBOX_SERVICE_CREATE_SESSION, &request,
                                      &response, &ignored))
        return false;
    *out_token =
        response.tokens ? cay_arena_copy(&at->self->arena, response.tokens->access_token) : NULL;
    return *out_token != NULL;
}

/* How many of some verbs answer. */
static size_t use_session(struct outside *at, const char *key, const char *id)
{
    struct cay_error ignored = {};
    size_t answered = 0;
    struct cay_v1_get_session_request get = {.session_id = cay_str(id), .include_tokens = true};
    struct cay_v1_get_session_response got = {};
    struct cay_v1_stat_file_request stat = {.session_id = cay_str(id), .path = CAY_STR("/")};
    struct cay_v1_stat_file_response seen = {};
    struct cay_v1_list_snapshots_request list = {.session_id = cay_str(id)};
    struct cay_v1_list_snapshots_response listed = {};
    struct cay_v1_list_processes_request ps = {.session_id = cay_str(id)};
    struct cay_v1_list_processes_response processes = {};
    answered += outside_call_as(at, key, CAY_V1_SANDBOX_SERVICE_GET_SESSION, &get, &got, &ignored);
    answered += outside_call_as(at, key, CAY_V1_FILE_SERVICE_STAT_FILE, &stat, &seen, &ignored);
    answered +=
        outside_call_as(at, key, CAY_V1_SANDBOX_SERVICE_LIST_SNAPSHOTS, &list, &listed, &ignored);
    answered +=
        outside_call_as(at, key, CAY_V1_PROCESS_SERVICE_LIST_PROCESSES, &ps, &processes, &ignored);
    return answered;
}

static void judge_use(struct outside *at, size_t answered)
{
    if (answered)
        REACHED("%zu of 4 verbs answer", answered);
    else
        DENIED("no verb answers");
}

void try_other_owner(struct outside *at)
{
    const char *key = outside_key(at, "mallory");
    if (key)
        judge_use(at, use_session(at, key, at->id));
}

/* Her own: the verbs do answer whom they may. */
void bare_other_owner(struct outside *at)
{
    const char *key = NULL;
    const char *token = NULL;
    if (make_alices(at, &key, &token))
        judge_use(at, use_session(at, key, "alices"));
    cay_selftest_destroy(at->self, "alices");
}

void try_other_token(struct outside *at)
{
    const char *key = NULL;
    const char *token = NULL;
    if (make_alices(at, &key, &token))
        judge_use(at, use_session(at, token, at->id));
    cay_selftest_destroy(at->self, "alices");
}

void bare_other_token(struct outside *at)
{
    const char *key = NULL;
    const char *token = NULL;
    if (make_alices(at, &key, &token))
        judge_use(at, use_session(at, token, "alices"));
    cay_selftest_destroy(at->self, "alices");
}

void try_api_without_key(struct outside *at)
{
    judge_use(at, use_session(at, NULL, at->id));
}

void bare_api_without_key(struct outside *at)
{
    bare_other_owner(at);
}

static const char *const hostile_names[] = {"../escape", "/escape",     "..",          ".",
                                            "a/b",       "a/../escape", "escape\n",    "-rf",
                                            "a\\b",      "%2e%2e%2fa",  "escape/\xff", "é"};

void try_api_names(struct outside *at)
{
    DENIED("none of %zu", 3 * CAY_COUNT(hostile_names));
    for (size_t i = 0; i < CAY_COUNT(hostile_names); i++) {
        struct cay_error err = {};
        struct cay_str name = cay_str(hostile_names[i]);
        struct cay_v1_create_session_response created = {};
        struct cay_v1_create_session_request create = {
            .session_id = name, .base = CAY_STR("selftest"), .lazy_start = true};
        struct cay_v1_create_snapshot_response taken = {};
        struct cay_v1_create_snapshot_request snapshot = {.session_id = cay_str(at->id),
                                                          .name = name};
        if (cay_selftest_call(at->self, CAY_V1_SANDBOX_SERVICE_CREATE_SESSION, &create, &created,
                              &err))
            REACHED("a session called '%s'", hostile_names[i]);
        if (cay_selftest_call(at->self, CAY_V1_SANDBOX_SERVICE_CREATE_SNAPSHOT, &snapshot, &taken,
                              &err))
            REACHED("a snapshot called '%s'", hostile_names[i]);
        if (strchr(hostile_names[i], '/') && !strstr(hostile_names[i], "a/b") &&
            cay_selftest_import_tree(at->self, hostile_names[i], at->prizes_dir, &err))
            REACHED("a base called '%s'", hostile_names[i]);
    }
}

/* As a program does that puts paths together. */
void bare_api_names(struct outside *at)
{
    const char *dir = outside_dir(at, "names");
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", dir ? dir : "", hostile_names[0]);
    if (dir && mkdir(path, 0700) == 0 && rmdir(path) == 0)
        REACHED("a directory beside it");
    else
        DENIED("%s", strerror(errno));
}

/* What `cay-probe random` says there. */
static struct cay_str ask_random(struct outside *at, const char *id)
{
    struct cay_error err = {};
    struct cay_selftest_ran ran = {};
    const char *const words[] = {"/bin/cay-probe", "random", NULL};
    return cay_selftest_run(at->self, id, "root", NULL, words, &ran, &err) && ran.exit_code == 0
               ? ran.output
               : (struct cay_str){};
}

static void judge_alike(struct outside *at, struct cay_str a, struct cay_str b)
{
    struct cay_str line_a = {};
    struct cay_str line_b = {};
    if (!a.len || !b.len || !cay_str_split(&a, '\n', &line_a) || !cay_str_split(&b, '\n', &line_b))
        return;
    /* A kernel of its own need not have one. */
    if (line_a.len && cay_str_equal(line_a, line_b))
        REACHED("the same boot id");
    else if (cay_str_equal(a, b))
        REACHED("the same random numbers");
    else
        DENIED("both differ");
}

void try_fork_alike(struct outside *at)
{
    struct cay_error ignored = {};
    struct cay_arena *arena = &at->self->arena;
    const char *name = cay_arena_printf(arena, "alike-%zu", at->runtime);
    const char *const ids[] = {cay_arena_printf(arena, "%s-1", name),
                               cay_arena_printf(arena, "%s-2", name)};
    struct cay_v1_fork_session_response response = {};
    struct cay_v1_fork_session_request request = {
        .session_id = cay_str(at->id), .new_session_id = cay_str(name), .count = 2};
    if (cay_selftest_call(at->self, CAY_V1_SANDBOX_SERVICE_FORK_SESSION, &request, &response,
                          &ignored))
        judge_alike(at, ask_random(at, ids[0]), ask_random(at, ids[1]));
    cay_selftest_destroy(at->self, ids[0]);
    cay_selftest_destroy(at->self, ids[1]);
}

/* Two processes of one machine have the same boot id. */
void bare_fork_alike(struct outside *at)
{
    struct cay_str same = cay_str(cay_arena_printf(&at->self->arena, "%s\n1", at->self->boot_id));
    struct cay_str other = cay_str(cay_arena_printf(&at->self->arena, "%s\n2", at->self->boot_id));
    judge_alike(at, same, other);
}

/* Numbers that the first process may have, and such as wrap around. */
void try_forged_user(struct outside *at)
{
    static const char text[] = "root:x:0:0:root:/root:/bin/cay-probe\n"
                               "a:x:65535:65535:a:/:/bin/cay-probe\n"
                               "b:x:65536:65536:b:/:/bin/cay-probe\n"
                               "c:x:4294967295:4294967295:c:/:/bin/cay-probe\n"
                               "d:x:4294967296:4294967296:d:/:/bin/cay-probe\n"
                               "e:x:-1:-1:e:/:/bin/cay-probe\n";
    static const char *const names[] = {"a", "b", "c", "d", "e", "65535", "65536", "-1"};
    struct cay_arena *arena = &at->self->arena;
    const char *id = cay_arena_printf(arena, "forged-%zu", at->runtime);
    const char *const words[] = {"/bin/cay-probe", "signal", "1", NULL};
    struct cay_error ignored = {};
    if (!cay_selftest_create(at->self, id, at->self->runtimes[at->runtime].name,
                             CAY_V1_NETWORK_MODE_NONE, &ignored))
        return;
    if (outside_write(at, id, "/etc/passwd", cay_str(text))) {
        DENIED("as none of %zu", CAY_COUNT(names));
        for (size_t i = 0; i < CAY_COUNT(names); i++) {
            struct cay_selftest_ran ran = {};
            if (cay_selftest_run(at->self, id, names[i], NULL, words, &ran, &ignored) &&
                ran.exit_code == 0)
                REACHED("as %s", names[i]);
        }
    }
    cay_selftest_destroy(at->self, id);
}

/* What believes such a file. */
void bare_forged_user(struct outside *at)
{
    const char *const words[] = {
        "signal", cay_arena_printf(&at->self->arena, "%d", (int)at->self->holder_pid), NULL};
    if (outside_run_bare(at, NULL, words) == 0)
        REACHED("as root");
    else
        DENIED("not even as root");
}

static bool on_build(void *, const void *, struct cay_error *)
{
    return true;
}

/* A base of alice's, built of everybody's. */
static bool make_vault(struct outside *at, const char *key)
{
    struct cay_error ignored = {};
    struct cay_client *client = NULL;
    struct cay_v1_build_base_request request = {
        .name = CAY_STR("vault"), .from_base = CAY_STR("selftest"), .replace = true};
    struct cay_client_options options = {
        .size = sizeof(options),
        .url = cay_arena_printf(&at->self->arena, "http://127.0.0.1:%d", at->self->cayd_port),
        .key = key,
    };
    if (!cay_client_open(&options, &client, &ignored))
        return false;
    bool is_made = cay_client_call_stream(client, &cay_v1_methods[CAY_V1_BASE_SERVICE_BUILD_BASE],
                                          &request, on_build, NULL, &ignored);
    cay_client_close(client);
    return is_made;
}

static void use_vault(struct outside *at, const char *key)
{
    static const char *const names[] = {"vault", "alice/vault", "alice-_svault", "alice%2fvault"};
    DENIED("by none of %zu names", CAY_COUNT(names));
    for (size_t i = 0; i < CAY_COUNT(names) && key; i++) {
        struct cay_error ignored = {};
        struct cay_v1_create_session_response response = {};
        struct cay_v1_create_session_request request = {
            .session_id = CAY_STR("of-the-vault"), .base = cay_str(names[i]), .lazy_start = true};
        if (outside_call_as(at, key, CAY_V1_SANDBOX_SERVICE_CREATE_SESSION, &request, &response,
                            &ignored))
            REACHED("by '%s'", names[i]);
        cay_selftest_destroy(at->self, "of-the-vault");
    }
}

void try_other_base(struct outside *at)
{
    const char *key = outside_key(at, "alice");
    if (key && make_vault(at, key))
        use_vault(at, outside_key(at, "mallory"));
}

/* She herself may. */
void bare_other_base(struct outside *at)
{
    const char *key = outside_key(at, "alice");
    if (key && make_vault(at, key))
        use_vault(at, key);
}
