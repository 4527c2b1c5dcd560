/* SPDX-License-Identifier: Apache-2.0 */
/* Trees and archives that are hostile as a whole. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/selftest/outside.h"
#include "client/rpc/client.h"

enum { BLOCK = 512, ARCHIVE_BYTES_MAX = 64 * 1024, ENTRIES = 7 };

/* A header of tar as in POSIX.1-1988. */
struct header {
    char name[100];
    char mode[8];
    char uid[8];
    char gid[8];
    char size[12];
    char mtime[12];
    char sum[8];
    char kind;
    char target[100];
    char magic[8];
    char owner[32];
    char group[32];
    char major[8];
    char minor[8];
    char spare[167];
};
static_assert(sizeof(struct header) == BLOCK, "a block");

struct entry {
    char kind; /* '0' file, '1' hard link, '2' link, '3' device */
    const char *name;
    const char *target;
    unsigned mode;
};

static void add_entry(struct cay_buf *buf, const struct entry *entry)
{
    static const char text[] = "unpacked\n";
    struct header header = {.kind = entry->kind, .magic = "ustar"};
    char block[BLOCK] = {};
    bool has_data = entry->kind == '0';
    unsigned sum = 0;
    snprintf(header.name, sizeof(header.name), "%s", entry->name);
    snprintf(header.target, sizeof(header.target), "%s", entry->target ? entry->target : "");
    snprintf(header.mode, sizeof(header.mode), "%07o", entry->mode);
    snprintf(header.uid, sizeof(header.uid), "%07o", 0u);
    snprintf(header.gid, sizeof(header.gid), "%07o", 0u);
    snprintf(header.size, sizeof(header.size), "%011o", has_data ? (unsigned)sizeof(text) - 1 : 0);
    snprintf(header.mtime, sizeof(header.mtime), "%011o", 0u);
    snprintf(header.major, sizeof(header.major), "%07o", 1u);
    snprintf(header.minor, sizeof(header.minor), "%07o", 5u);
    memcpy(header.magic + 6, "00", 2);
    memset(header.sum, ' ', sizeof(header.sum));
    for (size_t i = 0; i < sizeof(header); i++)
        sum += ((const unsigned char *)&header)[i];
    snprintf(header.sum, sizeof(header.sum), "%06o", sum);
    cay_buf_append(buf, &header, sizeof(header));
    memcpy(block, text, sizeof(text));
    if (has_data)
        cay_buf_append(buf, block, sizeof(block));
}

static void list_entries(struct outside *at, struct entry out[ENTRIES])
{
    struct cay_arena *arena = &at->self->arena;
    const char *deep =
        cay_arena_printf(arena, "../../../../../../../../../..%s/up", at->prizes_dir);
    const char *absolute = cay_arena_printf(arena, "%s/absolute", at->prizes_dir);
    const struct entry entries[ENTRIES] = {
        {'2', "way", at->prizes_dir, 0777},
        {'0', "way/through", NULL, 0644},
        {'0', deep, NULL, 0644},
        {'0', absolute, NULL, 0644},
        {'1', "hard", at->secret, 0644},
        {'0', "hard", NULL, 0644},
        {'3', "device", NULL, 0666},
    };
    memcpy(out, entries, sizeof(entries));
}

static bool give(void *state, struct cay_arena *arena, const void **out_message,
                 struct cay_error *err)
{
    struct cay_v1_write_file_request **requests = state;
    (void)arena;
    (void)err;
    *out_message = requests[0];
    requests[0] = requests[1];
    requests[1] = NULL;
    return true;
}

/* Each by itself: one that is refused must not hide the others. */
static void unpack(struct outside *at, const struct entry *entries, size_t count)
{
    struct cay_error ignored = {};
    struct cay_v1_write_file_response response = {};
    struct cay_v1_write_file_open open = {.session_id = cay_str(at->id),
                                          .path = CAY_STR("/workspace/unpacked"),
                                          .user = CAY_STR("root"),
                                          .create_parents = true,
                                          .archive = CAY_V1_TREE_FORMAT_TAR};
    static const char end[2 * BLOCK];
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_buf_init(&buf, ARCHIVE_BYTES_MAX);
    for (size_t i = 0; i < count; i++)
        add_entry(&buf, &entries[i]);
    cay_buf_append(&buf, end, sizeof(end));
    struct cay_v1_write_file_request first = {.which_frame = CAY_V1_WRITE_FILE_REQUEST_FRAME_OPEN,
                                              .frame.open = &open};
    struct cay_v1_write_file_request second = {.which_frame = CAY_V1_WRITE_FILE_REQUEST_FRAME_DATA,
                                               .frame.data = cay_buf_str(&buf)};
    struct cay_v1_write_file_request *requests[] = {&first, &second};
    (void)cay_client_call_upload(at->self->client, &cay_v1_methods[CAY_V1_FILE_SERVICE_WRITE_FILE],
                                 give, requests, &at->self->arena, &response, &ignored);
}

void try_api_archive(struct outside *at)
{
    struct entry entries[ENTRIES];
    list_entries(at, entries);
    unpack(at, entries, 2);
    for (size_t i = 2; i < ENTRIES; i++)
        unpack(at, &entries[i], 1);
    unpack(at, &entries[4], 2);
    const char *const words[] = {"read", "/workspace/unpacked/hard", at->self->token, NULL};
    if (!outside_is_whole(at))
        REACHED("the host's directory was changed");
    else if (outside_run(at, at->id, NULL, words) == 0)
        REACHED("a hard link to a file of the host");
    else
        DENIED("by none of %d entries", ENTRIES);
}

/* As a careless program unpacks: by name, in the order of the archive. */
void bare_api_archive(struct outside *at)
{
    struct entry entries[ENTRIES];
    char path[1024];
    const char *dir = outside_dir(at, "unpacked");
    list_entries(at, entries);
    snprintf(path, sizeof(path), "%s/%s", dir ? dir : "", entries[0].name);
    bool is_made = dir && symlink(entries[0].target, path) == 0;
    snprintf(path, sizeof(path), "%s/%s", dir ? dir : "", entries[1].name);
    cay_autoclose int fd = is_made ? open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644) : -1;
    if (fd >= 0 && !outside_is_whole(at))
        REACHED("a new file in the host's directory");
    else
        DENIED("nothing new");
    snprintf(path, sizeof(path), "%s/through", at->prizes_dir);
    (void)unlink(path);
}

/* A tree in which names that are mounted on are links to the host's directory. */
static const char *make_hostile_tree(struct outside *at)
{
    static const char *const links[] = {"proc", "dev", "sys", "tmp", "home", "workspace", "run"};
    static const char *const dirs[] = {"bin", "etc", "root"};
    struct cay_arena *arena = &at->self->arena;
    char name[64];
    snprintf(name, sizeof(name), "hostile-%zu", at->runtime);
    const char *root = outside_dir(at, name);
    for (size_t i = 0; root && i < CAY_COUNT(links); i++) {
        const char *path = cay_arena_printf(arena, "%s/%s", root, links[i]);
        if (!path || (symlink(at->prizes_dir, path) < 0 && errno != EEXIST))
            return NULL;
    }
    for (size_t i = 0; root && i < CAY_COUNT(dirs); i++) {
        const char *path = cay_arena_printf(arena, "%s/%s", root, dirs[i]);
        if (!path || (mkdir(path, 0755) < 0 && errno != EEXIST))
            return NULL;
    }
    const char *program = root ? cay_arena_printf(arena, "%s/bin/cay-probe", root) : NULL;
    return program && (link(at->self->probe_path, program) == 0 || errno == EEXIST ||
                       cay_selftest_copy(at->self->probe_path, program) == 0)
               ? root
               : NULL;
}

/* However it ends: the host's directory is as it was, and is nothing's mount point. */
static void judge_start(struct outside *at, const char *id, bool is_started)
{
    const char *const words[] = {"read", "/proc/secret", at->self->token, NULL};
    const char *const more[] = {"read", at->secret, at->self->token, NULL};
    if (!outside_is_whole(at))
        REACHED("something was mounted or made in the host's directory");
    else if (is_started &&
             (outside_run(at, id, NULL, words) == 0 || outside_run(at, id, NULL, more) == 0))
        REACHED("the sandbox reads a file of the host");
    else
        DENIED(is_started ? "it starts, and leads nowhere" : "it does not start");
}

void try_api_hostile_base(struct outside *at)
{
    struct cay_error err = {};
    const char *root = make_hostile_tree(at);
    const char *name = cay_arena_printf(&at->self->arena, "hostile-%zu", at->runtime);
    if (!root)
        return;
    if (!cay_selftest_import_tree(at->self, name, root, &err)) {
        if (outside_is_whole(at))
            DENIED("refused: %.120s", err.text);
        else
            REACHED("the import changed the host's directory");
        return;
    }
    struct cay_v1_create_session_response response = {};
    struct cay_v1_create_session_request request = {
        .session_id = cay_str(name),
        .base = cay_str(name),
        .runtime = cay_str(at->self->runtimes[at->runtime].name)};
    bool is_started = cay_selftest_call(at->self, CAY_V1_SANDBOX_SERVICE_CREATE_SESSION, &request,
                                        &response, &err);
    judge_start(at, name, is_started);
    cay_selftest_destroy(at->self, name);
}

/* What a mount by name does: it is followed. In a process whose mounts are its own. */
void bare_api_hostile_base(struct outside *at)
{
    const char *root = make_hostile_tree(at);
    const char *place = root ? cay_arena_printf(&at->self->arena, "%s/dev", root) : NULL;
    pid_t pid = fork();
    if (pid == 0)
        _exit(place && unshare(CLONE_NEWNS) == 0 &&
                      mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                      mount("probe", place, "tmpfs", 0, NULL) == 0 && !outside_is_whole(at)
                  ? 0
                  : 1);
    int status = 1;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        REACHED("a mount on the host's directory");
    else
        DENIED("no mount there");
}

static bool call_on(struct outside *at, unsigned method, const void *request, void *response)
{
    struct cay_error ignored = {};
    return cay_selftest_call(at->self, method, request, response, &ignored);
}

void try_api_late_links(struct outside *at)
{
    static const char *const names[] = {"/proc", "/dev", "/sys", "/tmp"};
    const char *id = cay_arena_printf(&at->self->arena, "late-%zu", at->runtime);
    struct cay_v1_create_session_response created = {};
    struct cay_v1_create_session_request create = {
        .session_id = cay_str(id),
        .base = CAY_STR("selftest"),
        .lazy_start = true,
        .runtime = cay_str(at->self->runtimes[at->runtime].name)};
    if (!call_on(at, CAY_V1_SANDBOX_SERVICE_CREATE_SESSION, &create, &created))
        return;
    for (size_t i = 0; i < CAY_COUNT(names); i++) {
        struct cay_v1_remove_file_response removed = {};
        struct cay_v1_make_symlink_response made = {};
        struct cay_v1_remove_file_request remove = {.session_id = cay_str(id),
                                                    .path = cay_str(names[i]),
                                                    .user = CAY_STR("root"),
                                                    .recursive = true};
        struct cay_v1_make_symlink_request link = {.session_id = cay_str(id),
                                                   .path = cay_str(names[i]),
                                                   .target = cay_str(at->prizes_dir),
                                                   .user = CAY_STR("root"),
                                                   .replace = true};
        (void)call_on(at, CAY_V1_FILE_SERVICE_REMOVE_FILE, &remove, &removed);
        (void)call_on(at, CAY_V1_FILE_SERVICE_MAKE_SYMLINK, &link, &made);
    }
    const char *const words[] = {"random", NULL};
    judge_start(at, id, outside_run(at, id, NULL, words) == 0);
    cay_selftest_destroy(at->self, id);
}

void bare_api_late_links(struct outside *at)
{
    bare_api_hostile_base(at);
}
