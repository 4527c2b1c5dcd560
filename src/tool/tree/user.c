/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/tree/user.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sys/resolve.h"
#include "tool/tree/owner.h"
#include "tool/tree/tree_internal.h"

static const char *const files[] = {"/etc/passwd", "/etc/group"};

enum { NAME, PASSWORD, UID, GID, GECOS, HOME, SHELL, PASSWD_FIELDS };
enum { GROUP_GID = 2, GROUP_MEMBERS = 3, GROUP_FIELDS = 4 };

/* Those every sandbox has, also one whose base has no passwd. */
static const struct {
    const char *name;
    uint32_t id;
    const char *home;
} builtin[] = {{"root", 0, "/root"}, {"user", 1000, "/home/user"}};

static bool split(struct cay_str line, struct cay_str *fields, unsigned count)
{
    unsigned found = 0;
    while (found < count && cay_str_split(&line, ':', &fields[found]))
        found++;
    return found == count;
}

static bool to_id(struct cay_str text, uint32_t *out_id)
{
    uint64_t number = 0;
    if (cay_str_to_u64(text, CAY_TREE_IDS - 2, &number) < 0)
        return false;
    *out_id = (uint32_t)number;
    return true;
}

/* The first line counts, as for the C library; one without usable numbers is none. */
static bool find_line(struct cay_str passwd, struct cay_str who, struct cay_str *fields,
                      struct cay_user *user)
{
    uint32_t number = 0;
    bool is_number = to_id(who, &number);
    struct cay_str line;
    while (cay_str_split(&passwd, '\n', &line)) {
        if (!split(line, fields, PASSWD_FIELDS) || !to_id(fields[UID], &user->uid) ||
            !to_id(fields[GID], &user->gid))
            continue;
        if (cay_str_equal(fields[NAME], who) || (is_number && user->uid == number))
            return true;
    }
    return false;
}

/* A path that can be an environment variable and a directory to start in. */
static void take_path(struct cay_str path, const char *otherwise, char *out, size_t size)
{
    bool is_good =
        path.len && path.len < size && path.ptr[0] == '/' && !memchr(path.ptr, '\0', path.len);
    snprintf(out, size, "%.*s", is_good ? (int)path.len : (int)strlen(otherwise),
             is_good ? path.ptr : otherwise);
}

static bool take_line(const struct cay_str *fields, struct cay_user *user)
{
    struct cay_str name = fields[NAME];
    if (!name.len || name.len >= sizeof(user->name) || memchr(name.ptr, '\0', name.len))
        return false;
    snprintf(user->name, sizeof(user->name), "%.*s", (int)name.len, name.ptr);
    take_path(fields[HOME], "/", user->home, sizeof(user->home));
    take_path(fields[SHELL], "/bin/sh", user->shell, sizeof(user->shell));
    return true;
}

static bool take_builtin(struct cay_str who, bool any_number, struct cay_user *user)
{
    *user = (struct cay_user){};
    uint32_t number = 0;
    bool is_number = to_id(who, &number);
    take_path(CAY_STR("/bin/bash"), "", user->shell, sizeof(user->shell));
    for (size_t i = 0; i < CAY_COUNT(builtin); i++) {
        if (!cay_str_is(who, builtin[i].name) && !(is_number && number == builtin[i].id))
            continue;
        user->uid = user->gid = builtin[i].id;
        snprintf(user->name, sizeof(user->name), "%s", builtin[i].name);
        snprintf(user->home, sizeof(user->home), "%s", builtin[i].home);
        return true;
    }
    if (!is_number || !any_number)
        return false;
    user->uid = user->gid = number;
    snprintf(user->name, sizeof(user->name), "%u", number);
    take_path(CAY_STR("/"), "", user->home, sizeof(user->home));
    return true;
}

static bool has_member(struct cay_str members, const char *name)
{
    struct cay_str member;
    while (cay_str_split(&members, ',', &member)) {
        if (cay_str_is(member, name))
            return true;
    }
    return false;
}

static int compare_ids(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left;
    uint32_t b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static void take_groups(struct cay_str group, struct cay_user *user)
{
    struct cay_str line;
    while (cay_str_split(&group, '\n', &line) && user->group_count < CAY_COUNT(user->groups)) {
        struct cay_str fields[GROUP_FIELDS];
        uint32_t gid = 0;
        if (!split(line, fields, GROUP_FIELDS) || !to_id(fields[GROUP_GID], &gid) ||
            gid == user->gid || !has_member(fields[GROUP_MEMBERS], user->name))
            continue;
        user->groups[user->group_count++] = gid;
    }
    /* In the order in which Linux tells them (setgroups(2)); gVisor tells them as they came. */
    if (user->group_count > 1)
        qsort(user->groups, user->group_count, sizeof(user->groups[0]), compare_ids);
}

bool cay_user_find(const struct cay_tool_tree *tree, struct cay_str who, bool any_number,
                   struct cay_user *out_user, struct cay_error *err)
{
    const struct cay_tool_tree as_root = {
        .root_fd = tree->root_fd, .id_base = tree->id_base, .is_own = tree->is_own};
    cay_auto(cay_tree_leave) struct cay_tree_visit visit = {};
    if (!cay_tree_enter(&as_root, &visit, err))
        return false;
    cay_autofree char *scratch = calloc(1, CAY_OWNER_FILE_BYTES_MAX);
    if (!scratch)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "out of memory");
    struct cay_str fields[PASSWD_FIELDS];
    struct cay_str text = cay_owner_read(&as_root, files[0], scratch);
    *out_user = (struct cay_user){};
    bool is_found = find_line(text, who, fields, out_user)
                        ? take_line(fields, out_user)
                        : take_builtin(who, any_number, out_user);
    if (!is_found)
        return cay_fail(err, CAY_R_USER_NOT_FOUND,
                        "user '%.*s' is not in the sandbox's /etc/passwd",
                        (int)CAY_MIN(who.len, (size_t)64), who.ptr);
    take_groups(cay_owner_read(&as_root, files[1], scratch), out_user);
    return true;
}

static bool stamp_files(int root_fd, struct cay_user_stamp *out_stamp)
{
    for (size_t i = 0; i < CAY_COUNT(files); i++) {
        struct stat st;
        cay_autoclose int fd = cay_resolve_open_cached(root_fd, files[i], O_PATH);
        if (fd == -ENOENT)
            continue; /* is known, too */
        if (fd < 0 || fstat(fd, &st) < 0)
            return false;
        out_stamp->files[i].dev = st.st_dev;
        out_stamp->files[i].ino = st.st_ino;
        out_stamp->files[i].size = (uint64_t)st.st_size;
        out_stamp->files[i].changed_s = st.st_ctim.tv_sec;
        out_stamp->files[i].changed_ns = st.st_ctim.tv_nsec;
    }
    return true;
}

/* As the sandbox's root: whoever does not own a directory may be asked for its access list, which
 * the kernel does not have at hand for a mapped layer, and then the lookup would have to wait. */
bool cay_user_stamp(const struct cay_tool_tree *tree, struct cay_user_stamp *out_stamp)
{
    *out_stamp = (struct cay_user_stamp){};
    uint32_t fsuid = cay_tree_set_fsuid(tree->id_base);
    bool is_known = stamp_files(tree->root_fd, out_stamp);
    (void)cay_tree_set_fsuid(fsuid);
    return is_known;
}
