/* SPDX-License-Identifier: Apache-2.0 */
#include "host/build/debian.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/store/dir_list.h"
#include "sys/pin.h"
#include "sys/remove.h"
#include "sys/resolve.h"

enum {
    FILE_BYTES_MAX = 1 << 20,
    PARAM_BYTES_MAX = 4096,
    USER_ID = 1000,
};

/* A sandbox is called after its session: myhostname lets sudo and others find that name. */
static const char default_packages[] =
    "bash,coreutils,python3,python-is-python3,git,curl,ca-certificates,sudo,procps,ncurses-base,"
    "ncurses-bin,libnss-myhostname";

static bool has_only(struct cay_str text, const char *allowed)
{
    bool is_good = text.len > 0 && text.len <= PARAM_BYTES_MAX;
    for (size_t i = 0; is_good && i < text.len; i++)
        is_good = (text.ptr[i] >= 'a' && text.ptr[i] <= 'z') ||
                  (text.ptr[i] >= '0' && text.ptr[i] <= '9') ||
                  (text.ptr[i] && strchr(allowed, text.ptr[i]));
    return is_good && text.ptr[0] != '-';
}

static bool is_url(struct cay_str text)
{
    return (cay_str_starts(text, "http://") || cay_str_starts(text, "https://")) &&
           has_only(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ:/.-_~+%");
}

/* A small text file; empty when it cannot be read. Consumes the descriptor. */
static struct cay_str read_small(int opened_fd, struct cay_arena *arena)
{
    cay_autoclose int fd = opened_fd;
    char *text = fd < 0 ? NULL : cay_arena_alloc(arena, FILE_BYTES_MAX);
    ssize_t len = text ? read(fd, text, FILE_BYTES_MAX) : 0;
    return (struct cay_str){text, len > 0 ? (size_t)len : 0};
}

/* Of the host's own /etc, which has links. */
static struct cay_str read_text(int dir_fd, const char *name, struct cay_arena *arena)
{
    return read_small(openat(dir_fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY), arena);
}

/* The next word of a line; false at its end. */
static bool next_word(struct cay_str *rest, struct cay_str *out_word)
{
    while (cay_str_split(rest, ' ', out_word)) {
        *out_word = cay_str_trim(*out_word);
        if (out_word->len)
            return true;
    }
    return false;
}

static bool has_word(struct cay_str words, struct cay_str wanted)
{
    struct cay_str word;
    while (next_word(&words, &word)) {
        if (cay_str_equal(word, wanted))
            return true;
    }
    return false;
}

/* "deb [options] URI SUITE COMPONENT…" */
static struct cay_str mirror_of_line(struct cay_str line, struct cay_str suite)
{
    struct cay_str word;
    struct cay_str url = {};
    bool in_options = false;
    if (!next_word(&line, &word) || !cay_str_is(word, "deb"))
        return url;
    while (next_word(&line, &word)) {
        in_options = in_options || word.ptr[0] == '[';
        if (in_options) {
            in_options = word.ptr[word.len - 1] != ']';
            continue;
        }
        if (!url.len)
            url = word;
        else
            return cay_str_equal(word, suite) ? url : (struct cay_str){};
    }
    return (struct cay_str){};
}

/* The mirror that has the suite, in a file of either form. */
static struct cay_str mirror_in(struct cay_str text, struct cay_str suite)
{
    struct cay_str line;
    struct cay_str url = {};
    struct cay_str suites = {};
    do {
        bool has_line = cay_str_split(&text, '\n', &line);
        line = has_line ? cay_str_trim(line) : (struct cay_str){};
        struct cay_str rest = line;
        struct cay_str found = mirror_of_line(line, suite);
        if (is_url(found))
            return found;
        if (cay_str_starts(line, "URIs:"))
            url = cay_str_trim((struct cay_str){rest.ptr + 5, rest.len - 5});
        else if (cay_str_starts(line, "Suites:"))
            suites = cay_str_trim((struct cay_str){rest.ptr + 7, rest.len - 7});
        if (line.len)
            continue;
        struct cay_str first = {};
        if (has_word(suites, suite) && next_word(&url, &first) && is_url(first))
            return first;
        url = suites = (struct cay_str){};
    } while (text.ptr || line.len);
    return (struct cay_str){};
}

static struct cay_str find_mirror(int etc_fd, struct cay_str suite, struct cay_arena *arena)
{
    struct cay_str found = mirror_in(read_text(etc_fd, "apt/sources.list", arena), suite);
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    cay_autoclose int dir_fd =
        openat(etc_fd, "apt/sources.list.d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (found.len || dir_fd < 0 || cay_dir_list_read(&names, dir_fd) < 0)
        return found;
    cay_dir_list_sort(&names);
    for (size_t i = 0; !found.len && i < names.count; i++)
        found = mirror_in(read_text(dir_fd, cay_dir_list_name(&names, i), arena), suite);
    return found;
}

/* VERSION_CODENAME of a Debian; else the suite that is always there. */
static struct cay_str own_suite(int etc_fd, struct cay_arena *arena)
{
    struct cay_str text = read_text(etc_fd, "os-release", arena);
    struct cay_str line;
    struct cay_str suite = CAY_STR("stable");
    bool is_debian = false;
    while (cay_str_split(&text, '\n', &line)) {
        is_debian = is_debian || cay_str_is(line, "ID=debian");
        if (cay_str_starts(line, "VERSION_CODENAME="))
            suite = (struct cay_str){line.ptr + 17, line.len - 17};
    }
    return is_debian && has_only(suite, "-") ? suite : CAY_STR("stable");
}

bool cay_debian_choose(struct cay_debian *out_debian, struct cay_pb_pairs params,
                       const char *more_packages, int etc_fd, struct cay_arena *arena,
                       struct cay_error *err)
{
    struct cay_str suite = {};
    struct cay_str mirror = {};
    struct cay_str packages = {};
    for (size_t i = 0; i < params.count; i++) {
        struct cay_str key = params.items[i].key;
        struct cay_str value = params.items[i].value;
        if (cay_str_is(key, "suite") && has_only(value, "-"))
            suite = value;
        else if (cay_str_is(key, "mirror") && is_url(value))
            mirror = value;
        else if (cay_str_is(key, "packages") && has_only(value, "+.-,"))
            packages = value;
        else
            return cay_fail(
                err, CAY_R_INVALID_ARGUMENT,
                "params: suite, mirror (http or https) and packages (separated by "
                "commas) are known; '%.*s' is none of them, or has a value that is not valid",
                (int)CAY_MIN(key.len, (size_t)64), key.len ? key.ptr : "");
    }
    suite = suite.len ? suite : own_suite(etc_fd, arena);
    mirror = mirror.len ? mirror : find_mirror(etc_fd, suite, arena);
    if (!mirror.len)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "params.mirror: no package source of this machine has the suite '%.*s'; "
                        "name a mirror",
                        (int)suite.len, suite.ptr);
    out_debian->suite = cay_arena_copy(arena, suite);
    out_debian->mirror = cay_arena_copy(arena, mirror);
    out_debian->packages = cay_arena_printf(
        arena, "%s%s%s%s%.*s", default_packages, *more_packages ? "," : "", more_packages,
        packages.len ? "," : "", (int)packages.len, packages.len ? packages.ptr : "");
    return (out_debian->suite && out_debian->mirror && out_debian->packages) ||
           cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
}

const char *const *cay_debian_argv(const struct cay_debian *debian, const char *target,
                                   struct cay_arena *arena, struct cay_error *err)
{
    const char *include = cay_arena_printf(arena, "--include=%s", debian->packages);
    const char *const argv[] = {
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "--pid",
        "--fork",
        "--kill-child",
        "--",
        "debootstrap",
        "--variant=minbase",
        include,
        debian->suite,
        target,
        debian->mirror,
        NULL,
    };
    const char **copy = cay_arena_array(arena, CAY_COUNT(argv), sizeof(*copy));
    if (!include || !copy) {
        cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
        return NULL;
    }
    memcpy(copy, argv, sizeof(argv));
    return copy;
}

static int write_text(int root_fd, const char *path, const char *text, int flags, mode_t mode)
{
    cay_autoclose int fd =
        cay_resolve_open_plain(root_fd, path, O_WRONLY | O_CREAT | O_NOCTTY | flags, mode);
    if (fd < 0)
        return fd;
    size_t len = strlen(text);
    if (write(fd, text, len) != (ssize_t)len || fchmod(fd, mode) < 0)
        return errno ? -errno : -EIO;
    return 0;
}

static int empty_dir(int root_fd, const char *path)
{
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    cay_autoclose int fd = cay_resolve_open_plain(root_fd, path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    int rc = cay_dir_list_read(&names, fd);
    for (size_t i = 0; !rc && i < names.count; i++)
        rc = cay_remove_tree(fd, cay_dir_list_name(&names, i), NULL);
    return rc;
}

/* What adduser would put there: the start files of shells. */
static int copy_skeleton(int root_fd, int home_fd, struct cay_arena *arena)
{
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    cay_autoclose int skel_fd =
        cay_resolve_open_plain(root_fd, "etc/skel", O_RDONLY | O_DIRECTORY, 0);
    if (skel_fd < 0)
        return skel_fd == -ENOENT ? 0 : skel_fd;
    int rc = cay_dir_list_read(&names, skel_fd);
    for (size_t i = 0; !rc && i < names.count; i++) {
        const char *name = cay_dir_list_name(&names, i);
        int fd = cay_resolve_open_plain(skel_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
        const char *text = cay_arena_copy(arena, read_small(fd, arena));
        rc = text ? write_text(home_fd, name, text, O_TRUNC, 0644) : -ENOMEM;
        cay_autoclose int made_fd = rc ? rc : cay_pin_open(home_fd, name);
        rc = made_fd < 0 ? made_fd : cay_pin_chown(made_fd, USER_ID, USER_ID);
    }
    return rc;
}

static int make_home(int root_fd)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, (size_t)16 * FILE_BYTES_MAX);
    cay_autoclose int home_fd = cay_resolve_open_plain(root_fd, "home", O_PATH | O_DIRECTORY, 0);
    if (home_fd < 0 || (mkdirat(home_fd, "user", 0755) < 0 && errno != EEXIST))
        return home_fd < 0 ? home_fd : -errno;
    cay_autoclose int fd = cay_resolve_open_plain(root_fd, "home/user", O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fd;
    if (fchown(fd, USER_ID, USER_ID) < 0)
        return -errno;
    return copy_skeleton(root_fd, fd, &arena);
}

bool cay_debian_finish(int root_fd, struct cay_error *err)
{
    static const char *const emptied[] = {
        "dev", "proc", "sys", "run", "tmp", "var/cache/apt/archives", "var/lib/apt/lists"};
    static const struct {
        const char *path;
        const char *text;
        int flags;
        mode_t mode;
    } files[] = {
        {"etc/passwd", "user:x:1000:1000:user:/home/user:/bin/bash\n", O_APPEND, 0644},
        {"etc/group", "user:x:1000:\n", O_APPEND, 0644},
        {"etc/shadow", "user:*:19000:0:99999:7:::\n", O_APPEND, 0640},
        {"etc/sudoers.d/user", "Defaults !fqdn\nuser ALL=(ALL:ALL) NOPASSWD: ALL\n", O_TRUNC, 0440},
        {"etc/hostname", "cay\n", O_TRUNC, 0644},
        {"etc/hosts", "127.0.0.1 localhost cay\n::1 localhost\n", O_TRUNC, 0644},
    };
    int rc = 0;
    const char *what = "home/user";
    for (size_t i = 0; !rc && i < CAY_COUNT(emptied); i++) {
        what = emptied[i];
        rc = empty_dir(root_fd, what);
    }
    for (size_t i = 0; !rc && i < CAY_COUNT(files); i++) {
        what = files[i].path;
        rc = write_text(root_fd, what, files[i].text, files[i].flags, files[i].mode);
    }
    if (!rc)
        rc = make_home(root_fd);
    return rc == 0 || cay_fail_errno(err, CAY_R_STORE_FAILED, rc, "finish /%s", what);
}
