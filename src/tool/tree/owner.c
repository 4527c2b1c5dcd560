/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/tree/owner.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/utf8.h"

enum { PASSWD_HOME_FIELD = 5, FIELDS_MAX = 7 };

struct cay_str cay_owner_read(const struct cay_tool_tree *tree, const char *path, char *scratch)
{
    struct stat st;
    cay_autoclose int fd = cay_tree_open_file(tree, path, O_RDONLY, &st);
    size_t len = 0;
    while (fd >= 0 && len < CAY_OWNER_FILE_BYTES_MAX) {
        ssize_t got = read(fd, scratch + len, CAY_OWNER_FILE_BYTES_MAX - len);
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    return (struct cay_str){scratch, len};
}

static struct cay_str read_into(struct cay_arena *arena, const struct cay_tool_tree *tree,
                                const char *path)
{
    /* Without memory for it nobody has a name but a number, as where there is no such file. */
    cay_autofree char *scratch = calloc(1, CAY_OWNER_FILE_BYTES_MAX);
    return scratch ? cay_arena_str(arena, cay_owner_read(tree, path, scratch)) : (struct cay_str){};
}

/* Finds the line whose third field is `id` and gives its field number `field`. */
static bool find_field(struct cay_str file, uint32_t id, unsigned field, struct cay_str *out_value)
{
    struct cay_str line;
    while (cay_str_split(&file, '\n', &line)) {
        struct cay_str fields[FIELDS_MAX] = {};
        unsigned count = 0;
        while (count < FIELDS_MAX && cay_str_split(&line, ':', &fields[count]))
            count++;
        uint64_t found = 0;
        if (count <= field || count < 3 || cay_str_to_u64(fields[2], UINT32_MAX, &found) < 0)
            continue;
        if (found == id) {
            *out_value = fields[field];
            return true;
        }
    }
    return false;
}

void cay_owners_init(struct cay_owners *owners, const struct cay_tool_tree *tree,
                     struct cay_arena *arena)
{
    *owners = (struct cay_owners){.tree = tree, .arena = arena};
    owners->passwd = read_into(arena, tree, "/etc/passwd");
    owners->group = read_into(arena, tree, "/etc/group");
}

static struct cay_str name_of(struct cay_arena *arena, struct cay_str file, uint32_t id)
{
    struct cay_str name;
    if (find_field(file, id, 0, &name) && name.len && name.len < CAY_OWNER_NAME_BYTES_MAX &&
        cay_utf8_valid(name))
        return name;
    const char *number = cay_arena_printf(arena, "%u", id);
    return cay_str(number);
}

struct cay_str cay_owners_user(struct cay_owners *owners, uint32_t uid)
{
    if (!owners->last_user.len || owners->last_uid != uid)
        owners->last_user = name_of(owners->arena, owners->passwd, uid);
    owners->last_uid = uid;
    return owners->last_user;
}

struct cay_str cay_owners_group(struct cay_owners *owners, uint32_t gid)
{
    if (!owners->last_group.len || owners->last_gid != gid)
        owners->last_group = name_of(owners->arena, owners->group, gid);
    owners->last_gid = gid;
    return owners->last_group;
}

bool cay_owner_home(const struct cay_tool_tree *tree, struct cay_path *out_home)
{
    cay_autofree char *scratch = calloc(1, CAY_OWNER_FILE_BYTES_MAX);
    struct cay_str home = {};
    if (!scratch)
        return false;
    bool found = find_field(cay_owner_read(tree, "/etc/passwd", scratch), tree->uid,
                            PASSWD_HOME_FIELD, &home);
    if (!found || !home.len || home.ptr[0] != '/' || home.len >= sizeof(out_home->bytes) ||
        memchr(home.ptr, '\0', home.len))
        home = cay_str(tree->uid == 0 ? "/root" : "/");
    memcpy(out_home->bytes, home.ptr, home.len);
    out_home->bytes[home.len] = '\0';
    out_home->len = home.len;
    return true;
}
