/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tool/tree/tree_internal.h"

/*
 * The system calls are made raw: the wrappers of the C library change all threads of a process, and
 * here only this one is to become somebody else. Leaving uid 0 takes the capabilities over files
 * out of the effective set and coming back puts them in again; the kernel does both by itself. The
 * others are taken here: files of /proc ask for them, and no sandbox has what the daemon has.
 */

#define CAPS_OVER_FILES                                                           \
    ((1u << CAP_CHOWN) | (1u << CAP_DAC_OVERRIDE) | (1u << CAP_DAC_READ_SEARCH) | \
     (1u << CAP_FOWNER) | (1u << CAP_FSETID))

uint32_t cay_tree_set_fsuid(uint32_t uid)
{
    return (uint32_t)syscall(SYS_setfsuid, uid);
}

static uint32_t current_fsuid(void)
{
    return cay_tree_set_fsuid((uint32_t)-1);
}

static uint32_t current_fsgid(void)
{
    return (uint32_t)syscall(SYS_setfsgid, -1);
}

static int set_caps(const struct __user_cap_data_struct *data)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

/* Sets the effective capabilities to some of the permitted ones; *out_old is what there was. */
static int reduce_caps(uint32_t wanted, struct cay_tree_caps *out_old)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    if (syscall(SYS_capget, &header, out_old->data) < 0)
        return -errno;
    struct cay_tree_caps reduced = *out_old;
    reduced.data[0].effective = wanted & reduced.data[0].permitted;
    reduced.data[1].effective = 0;
    return set_caps(reduced.data);
}

int cay_tree_bare(struct cay_tree_caps *out_caps)
{
    return reduce_caps(0, out_caps);
}

void cay_tree_unbare(const struct cay_tree_caps *caps)
{
    if (set_caps(caps->data) < 0)
        abort();
}

static bool is(uint32_t uid, uint32_t gid)
{
    return current_fsuid() == uid && current_fsgid() == gid;
}

/* An ordinary user working on files of its own keeps its groups: they are its own, too. */
static int take_groups(const struct cay_tool_tree *tree, struct cay_tree_visit *visit,
                       bool same_user)
{
    gid_t wanted[CAY_TREE_USER_GROUPS_MAX];
    for (uint32_t i = 0; i < tree->group_count; i++)
        wanted[i] = tree->id_base + tree->groups[i];
    long groups = syscall(SYS_getgroups, CAY_TREE_GROUPS_MAX, visit->groups);
    if (groups < 0)
        return -errno;
    if (groups == 0 && tree->group_count == 0)
        return 0;
    if (syscall(SYS_setgroups, (size_t)tree->group_count, wanted) < 0)
        return same_user && errno == EPERM ? 0 : -errno;
    visit->group_count = (int)groups;
    visit->regrouped = true;
    return 0;
}

bool cay_tree_enter(const struct cay_tool_tree *tree, struct cay_tree_visit *out_visit,
                    struct cay_error *err)
{
    if (tree->is_own) {
        *out_visit = (struct cay_tree_visit){};
        return true;
    }
    assert(tree->uid < CAY_TREE_IDS && tree->gid < CAY_TREE_IDS);
    assert(tree->group_count <= CAY_TREE_USER_GROUPS_MAX);
    uint32_t uid = tree->id_base + tree->uid;
    uint32_t gid = tree->id_base + tree->gid;
    *out_visit = (struct cay_tree_visit){
        .entered = true,
        .fsgid = (uint32_t)syscall(SYS_setfsgid, gid),
        .fsuid = (uint32_t)syscall(SYS_setfsuid, uid),
    };
    if (!is(uid, gid)) {
        cay_tree_leave(out_visit);
        return cay_fail(err, CAY_R_INTERNAL, "the daemon may not act as user %u; run it as root",
                        uid);
    }
    bool same_user = out_visit->fsuid == uid && out_visit->fsgid == gid;
    int taken = take_groups(tree, out_visit, same_user);
    if (taken < 0) {
        cay_tree_leave(out_visit);
        return cay_fail_errno(err, CAY_R_INTERNAL, taken, "take on the user's groups");
    }
    if (uid != 0) {
        int reduced =
            reduce_caps(tree->uid == 0 || tree->is_as_root ? CAPS_OVER_FILES : 0, &out_visit->caps);
        out_visit->reduced = reduced == 0;
        if (reduced < 0) {
            cay_tree_leave(out_visit);
            return cay_fail_errno(err, CAY_R_INTERNAL, reduced, "act as a user of the sandbox");
        }
    }
    return true;
}

void cay_tree_leave(struct cay_tree_visit *visit)
{
    if (visit->entered) {
        /* Their old values are the thread's own ids, to which the kernel lets everybody return. */
        bool ok = !visit->reduced || set_caps(visit->caps.data) == 0;
        syscall(SYS_setfsgid, visit->fsgid);
        syscall(SYS_setfsuid, visit->fsuid);
        if (visit->regrouped)
            ok = syscall(SYS_setgroups, (size_t)visit->group_count, visit->groups) == 0 && ok;
        if (!ok)
            abort();
    }
    *visit = (struct cay_tree_visit){};
}
