/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A session's tree as one user of the sandbox sees it. Whoever can write to the tree is hostile, so
 * nothing here looks a name up twice and nothing is done by path: every lookup is one openat2 that
 * cannot leave the root, and every access is judged by the kernel with the user's own rights.
 *
 * Order: enter -> open | below | parent | ... -> leave, on one thread. The functions that return
 * int give a descriptor (O_CLOEXEC) or 0, or -errno; cay_tree_fail makes an error of it.
 */

#include <linux/capability.h>
#include <sys/stat.h>

#include "base/base.h"
#include "base/error.h"

enum {
    CAY_TREE_IDS = 65536,          /* user and group numbers that a sandbox has */
    CAY_TREE_ID_NOBODY = 65534,    /* how an owner from outside that range is shown */
    CAY_TREE_GROUPS_MAX = 64,      /* supplementary groups of the daemon */
    CAY_TREE_USER_GROUPS_MAX = 32, /* and of the sandbox's user */
    CAY_TREE_LINKS_MAX = 40,       /* symbolic links followed in a row, as in the kernel */
    CAY_TREE_NAME_BYTES = 256,     /* one name and its NUL */
};

struct cay_tool_tree {
    int root_fd;            /* borrowed; the session's root directory */
    uint32_t id_base;       /* host id of the sandbox's id 0 */
    uint32_t uid, gid;      /* the user, as numbered in the sandbox */
    const uint32_t *groups; /* borrowed; supplementary ones, numbered in the sandbox */
    uint32_t group_count;
    struct cay_str cwd; /* absolute, plain bytes; relative paths begin there; empty: /workspace */
    bool has_mounts;    /* the root is that of a running sandbox, with what is mounted in it */
    bool is_as_root;    /* with the rights of the sandbox's root; what is made is the user's */

    /* A directory of this host that stands for a tree: all paths are below its name, nothing leads
     * out of it, and whoever calls is the user, with the rights that it has. */
    bool is_own;
    struct cay_str name;      /* borrowed, here and below; absolute, no slash at its end */
    struct cay_str host_name; /* where it is on this host, which is as good; empty: not known */
};

/* What is left of an absolute path below `top`; ptr is NULL when it is not below it, and when
 * `top` is empty. */
[[nodiscard]] struct cay_str cay_tree_rest(struct cay_str path, struct cay_str top);

/* Capabilities of a thread. */
struct cay_tree_caps {
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
};

/* What a thread was before it entered; belongs to the tree functions. */
struct cay_tree_visit {
    bool entered;
    bool reduced;
    bool regrouped;
    struct cay_tree_caps caps; /* when they were reduced */
    uint32_t fsuid, fsgid;
    int group_count;
    gid_t groups[CAY_TREE_GROUPS_MAX];
};

/* Gives this thread the file-system identity of the tree's user: uid, gid, its groups, and no
 * capabilities. The sandbox's root, and who acts as it, gets those over files that it has inside.
 * Calls do not nest. */
[[nodiscard]] bool cay_tree_enter(const struct cay_tool_tree *tree,
                                  struct cay_tree_visit *out_visit, struct cay_error *err);

/* Back to what the thread was; aborts when that fails, since nothing may go on with wrong rights.
 * A zeroed visit is left as it is. */
void cay_tree_leave(struct cay_tree_visit *visit);

/* Opens `path`, absolute in the tree, following links inside it. O_NONBLOCK and O_NOCTTY are added,
 * so that no fifo, terminal or lease can hold us up. Never creates: see tool/write.h. */
[[nodiscard]] int cay_tree_open(const struct cay_tool_tree *tree, const char *path, int flags);

/* The same for a regular file: -EISDIR for a directory, -ENXIO for anything else. A file of /proc,
 * which has no size and says to each reader what that one may know, is read as the user at once:
 * the descriptor is a copy, *out_stat has its length and what else the file says. */
[[nodiscard]] int cay_tree_open_file(const struct cay_tool_tree *tree, const char *path, int flags,
                                     struct stat *out_stat);

/* What is mounted in the sandbox only: /dev and /proc. Paths there need one that runs. */
[[nodiscard]] bool cay_tree_is_mounted(struct cay_str path);

/* Opens what is below a directory without following any link or crossing a mount. Not for `..`, and
 * not for what is in /proc: -EXDEV. */
[[nodiscard]] int cay_tree_below(int dir_fd, const char *path, int flags);

/* Opens (O_PATH) the directory that holds the last name of `path` and copies that name, which is
 * not looked up. With `create`, missing directories are made, mode 0755. -EISDIR when the path has
 * no last name ("/", "a/..", "a/."). A trailing slash is dropped: *out_slash says there was one. */
[[nodiscard]] int cay_tree_parent(const struct cay_tool_tree *tree, const char *path, bool create,
                                  char out_name[CAY_TREE_NAME_BYTES], bool *out_slash);

/* The same for the file that `path` leads to: a link as last name is followed, also when nothing is
 * at its end. *out_stat is what is there (never a link); st_nlink is 0 when there is nothing. */
[[nodiscard]] int cay_tree_target(const struct cay_tool_tree *tree, const char *path, bool create,
                                  char out_name[CAY_TREE_NAME_BYTES], struct stat *out_stat);

/* -EBUSY when something is mounted at that name in a running sandbox. The kernel keeps nobody
 * outside from removing or renaming it, and takes the mount away with it. */
[[nodiscard]] int cay_tree_keep_mount(const struct cay_tool_tree *tree, int parent_fd,
                                      const char *name);

/* mkdirat, then exactly `mode`, whatever the umask is. */
[[nodiscard]] int cay_tree_make_dir(int parent_fd, const char *name, uint32_t mode);

/* Numbers as seen in the sandbox. */
[[nodiscard]] uint32_t cay_tree_id(const struct cay_tool_tree *tree, uint32_t host_id);

/* The reason for an errno of a file operation. */
[[nodiscard]] enum cay_reason cay_tree_reason(int neg_errno);

/* Fills *err with that reason and a sentence about `path` (plain bytes); returns false. */
bool cay_tree_fail(struct cay_error *err, int neg_errno, struct cay_str path);
