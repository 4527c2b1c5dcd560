/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/quantity.h"
#include "host/doctor/checks.h"
#include "host/pool/pool.h"
#include "host/store/base.h"
#include "host/store/store.h"
#include "sys/cgroup.h"
#include "sys/nftables.h"

enum {
    REMOVE_MS = 2000,
    DESCRIPTORS_MIN = 4096,
    PATH_BYTES = 4096,
};

#define FREE_BYTES_LOW (UINT64_C(2) << 30)

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif
#ifndef ZFS_SUPER_MAGIC
#define ZFS_SUPER_MAGIC 0x2fc12fc1
#endif

/* The data directory, or what it will be made in. */
static void nearest_dir(const char *path, char out[PATH_BYTES])
{
    struct stat info;
    snprintf(out, PATH_BYTES, "%s", path);
    while (stat(out, &info) < 0 || !S_ISDIR(info.st_mode)) {
        char *slash = strrchr(out, '/');
        if (!slash) {
            snprintf(out, PATH_BYTES, ".");
            return;
        }
        if (slash == out) {
            out[1] = '\0';
            return;
        }
        *slash = '\0';
    }
}

/* What sessions will be kept in, and what that can do. */
void cay_doctor_check_store(struct cay_doctor *doctor)
{
    struct cay_error err = {};
    if (!doctor->is_root)
        return;
    cay_autofree char *dir = cay_asprintf("%s/store", doctor->data_dir);
    const char *kind = cay_store_pick(dir);
    if (!cay_store_check(kind, dir, &err))
        cay_doctor_say(doctor, "store", CAY_VERDICT_FAIL,
                       "load the module (modprobe overlay), and put the data directory on ext4, "
                       "xfs or btrfs (cayd --data DIR)",
                       "%s: %.160s", kind, err.text);
    else if (!strcmp(kind, "local-disk"))
        cay_doctor_say(doctor, "store", CAY_VERDICT_WARN,
                       "for turns, put the data directory on ext4, xfs or btrfs (cayd --data DIR) "
                       "and load the module overlay",
                       "local-disk: no snapshots, no rollback, no forks");
    else
        cay_doctor_say(doctor, "store", CAY_VERDICT_OK, NULL,
                       "%s works in %.100s: snapshots, rollback, forks; disk limits are kept by %s",
                       kind, doctor->data_dir,
                       cay_store_keeps_limits(kind) ? "the kernel" : "measuring");
}

static const char *layout_of(const struct cay_cgroup_host *host)
{
    bool has_v1 = false;
    for (int i = 0; i < CAY_CGROUP_CONTROLLERS; i++)
        has_v1 = has_v1 || host->v1[i][0];
    if (!host->unified[0])
        return "version 1";
    return has_v1 ? "hybrid (version 1 and 2)" : "version 2";
}

static bool has_controller(const struct cay_cgroup_host *host, enum cay_cgroup_controller which)
{
    return host->v1[which][0] || (host->unified[0] && host->unified_has[which]);
}

/* Makes a group with limits and removes it. 0 or -errno; which limits hold in *out_applied. */
static int try_group(const struct cay_cgroup_host *host, unsigned *out_applied)
{
    const struct cay_cgroup_limits limits = {
        .memory_bytes = 64 << 20, .pids = 64, .cpu_millis = 500};
    char parent[64];
    char name[80];
    struct cay_cgroup group;
    snprintf(parent, sizeof(parent), "cay-doctor-%d", (int)getpid());
    snprintf(name, sizeof(name), "%s/try", parent);
    int status = cay_cgroup_create(host, name, &limits, 0, &group);
    if (status == 0) {
        *out_applied = group.applied;
        cay_cgroup_close(&group);
    }
    (void)cay_cgroup_remove(host, name, REMOVE_MS);
    (void)cay_cgroup_remove(host, parent, REMOVE_MS);
    return status;
}

void cay_doctor_check_cgroups(struct cay_doctor *doctor)
{
    static const char *const names[CAY_CGROUP_CONTROLLERS] = {
        [CAY_CGROUP_MEMORY] = "memory", [CAY_CGROUP_PIDS] = "pids", [CAY_CGROUP_CPU] = "cpu"};
    static struct cay_cgroup_host host;
    unsigned applied = 0;
    if (cay_cgroup_detect(&host) < 0) {
        cay_doctor_say(doctor, "cgroups", CAY_VERDICT_FAIL,
                       "mount them: mount -t cgroup2 none /sys/fs/cgroup",
                       "no control groups are mounted");
        return;
    }
    int status = doctor->is_root ? try_group(&host, &applied) : 0;
    if (status < 0) {
        cay_doctor_say(doctor, "cgroups", CAY_VERDICT_FAIL,
                       "make /sys/fs/cgroup writable (in a container: its own cgroup namespace, "
                       "mounted read-write; in a unit: Delegate=yes)",
                       "%s, but no group can be made: %s", layout_of(&host),
                       strerrordesc_np(-status));
        return;
    }
    cay_doctor_say(doctor, "cgroups", CAY_VERDICT_OK, NULL, "%s", layout_of(&host));
    for (int i = 0; i < CAY_CGROUP_CONTROLLERS; i++) {
        bool holds = doctor->is_root ? applied & 1u << i
                                     : has_controller(&host, (enum cay_cgroup_controller)i);
        if (names[i] && !holds)
            cay_doctor_say(doctor, "cgroups", CAY_VERDICT_WARN,
                           "enable the controller: in cgroup.subtree_control of the root group, "
                           "or on the kernel's command line (cgroup_enable=memory)",
                           "limits of %s cannot be set", names[i]);
    }
    if (!host.unified[0] && !host.v1[CAY_CGROUP_FREEZER][0])
        cay_doctor_say(doctor, "cgroups", CAY_VERDICT_WARN,
                       "mount them: mount -t cgroup2 none /sys/fs/cgroup/unified",
                       "processes cannot be frozen for a snapshot");
}

/* What a data directory on that file system means. */
static const char *describe_fs(long type, enum cay_verdict *out_verdict, const char **out_fix)
{
    static const struct {
        long type;
        const char *name;
        enum cay_verdict verdict;
        const char *fix;
    } known[] = {
        {EXT4_SUPER_MAGIC, "ext4", CAY_VERDICT_OK, NULL},
        {XFS_SUPER_MAGIC, "xfs", CAY_VERDICT_OK, NULL},
        {BTRFS_SUPER_MAGIC, "btrfs", CAY_VERDICT_OK, NULL},
        {ZFS_SUPER_MAGIC, "zfs", CAY_VERDICT_OK, NULL},
        {TMPFS_MAGIC, "tmpfs", CAY_VERDICT_WARN,
         "all is lost at a reboot; use a disk (--data DIR)"},
        {OVERLAYFS_SUPER_MAGIC, "overlay", CAY_VERDICT_FAIL,
         "layers cannot be kept on an overlay; use a volume of the host (--data DIR)"},
        {NFS_SUPER_MAGIC, "nfs", CAY_VERDICT_FAIL,
         "layers cannot be kept on a network file system; use a local disk (--data DIR)"},
    };
    for (size_t i = 0; i < CAY_COUNT(known); i++) {
        if (known[i].type == type) {
            *out_verdict = known[i].verdict;
            *out_fix = known[i].fix;
            return known[i].name;
        }
    }
    *out_verdict = CAY_VERDICT_WARN;
    *out_fix = "ext4, xfs and btrfs are known to work (--data DIR)";
    return "an unknown file system";
}

void cay_doctor_check_disk(struct cay_doctor *doctor)
{
    char dir[PATH_BYTES];
    char free_text[CAY_SIZE_BYTES];
    struct statfs info;
    enum cay_verdict verdict = CAY_VERDICT_OK;
    const char *fix = NULL;
    nearest_dir(doctor->data_dir, dir);
    if (statfs(dir, &info) < 0) {
        cay_doctor_say(doctor, "disk", CAY_VERDICT_FAIL, "name another directory with --data",
                       "%.100s: %s", dir, strerrordesc_np(errno));
        return;
    }
    const char *name = describe_fs((long)info.f_type, &verdict, &fix);
    uint64_t free_bytes = (uint64_t)info.f_bavail * (uint64_t)info.f_frsize;
    cay_size_format(free_bytes, free_text);
    if (verdict == CAY_VERDICT_OK && free_bytes < FREE_BYTES_LOW) {
        verdict = CAY_VERDICT_WARN;
        fix = "sandboxes will soon fill it; free some or use another disk (--data DIR)";
    }
    cay_doctor_say(doctor, "disk", verdict, fix, "%.100s on %s, %s free", doctor->data_dir, name,
                   free_text);
}

/* A pool whose file is not reserved dies as a whole with the disk below it. */
void cay_doctor_check_pool(struct cay_doctor *doctor)
{
    struct cay_pool_space space = {};
    char wanted[CAY_SIZE_BYTES];
    char left[CAY_SIZE_BYTES];
    cay_autofree char *file = cay_pool_file(doctor->data_dir);
    if (!file)
        return;
    cay_pool_look_behind(file, &space);
    cay_size_format(space.unreserved_bytes, wanted);
    cay_size_format(space.behind_bytes, left);
    if (!space.unreserved_bytes)
        cay_doctor_say(doctor, "pool", CAY_VERDICT_OK, NULL, "%.100s, wholly reserved", file);
    else if (space.unreserved_bytes <= space.behind_bytes)
        cay_doctor_say(doctor, "pool", CAY_VERDICT_OK, NULL,
                       "%.100s may still grow by %s; its disk has %s left", file, wanted, left);
    else
        cay_doctor_say(doctor, "pool", CAY_VERDICT_WARN,
                       "keep the disk free: when it is full, everything in the pool is in danger",
                       "%.100s may still grow by %s, but its disk has only %s left", file, wanted,
                       left);
}

/* On another file system than the machine's programs the base "host" is a copy of them. */
void cay_doctor_check_base(struct cay_doctor *doctor)
{
    char dir[PATH_BYTES];
    char size[CAY_SIZE_BYTES];
    char free_text[CAY_SIZE_BYTES];
    struct stat data;
    struct stat programs;
    struct statfs fs;
    struct cay_copy_stats cost;
    struct cay_error err = {};
    cay_autofree char *pool = cay_pool_file(doctor->data_dir);
    nearest_dir(doctor->data_dir, dir);
    if (stat(dir, &data) < 0 || stat("/usr", &programs) < 0 || statfs(dir, &fs) < 0)
        return;
    if (!pool && data.st_dev == programs.st_dev) {
        cay_doctor_say(doctor, "base", CAY_VERDICT_OK, NULL,
                       "the base 'host' is made of links to /usr and takes no space");
        return;
    }
    if (!doctor->is_root || !cay_base_host_cost(NULL, "/", &cost, &err))
        return;
    uint64_t free_bytes = (uint64_t)fs.f_bavail * (uint64_t)fs.f_frsize;
    cay_size_format(cost.bytes, size);
    cay_size_format(free_bytes, free_text);
    bool has_room = pool || cost.bytes < free_bytes;
    cay_doctor_say(doctor, "base", has_room ? CAY_VERDICT_OK : CAY_VERDICT_WARN,
                   has_room ? NULL
                            : "use a larger disk (--data DIR), or a smaller base ('cay base build "
                              "debian') as default_base",
                   "the base 'host' is a copy of /usr in %s: %s%s%s%s",
                   pool ? "the pool" : doctor->data_dir, size, pool ? "" : ", and ",
                   pool ? "" : free_text, pool ? "" : " are free");
}

void cay_doctor_check_init(struct cay_doctor *doctor)
{
    cay_autofree char *real = realpath(doctor->init_path, NULL);
    if (access(doctor->init_path, X_OK) == 0)
        cay_doctor_say(doctor, "cay-init", CAY_VERDICT_OK, NULL, "%.180s",
                       real ? real : doctor->init_path);
    else
        cay_doctor_say(doctor, "cay-init", CAY_VERDICT_FAIL,
                       "install it ('./dev install'), or name it with cayd --init-path FILE",
                       "%.100s: %s", doctor->init_path, strerrordesc_np(errno));
}

/* cayd raises its own limit as far as it may. */
void cay_doctor_check_descriptors(struct cay_doctor *doctor)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    bool is_enough = limit.rlim_max >= DESCRIPTORS_MIN;
    cay_doctor_say(doctor, "descriptors", is_enough ? CAY_VERDICT_OK : CAY_VERDICT_WARN,
                   is_enough ? NULL : "raise it: LimitNOFILE=524288 in the unit, or 'ulimit -Hn'",
                   "up to %llu open files per process", (unsigned long long)limit.rlim_max);
}

/* Only sessions with an open or a filtered network need it. */
void cay_doctor_check_network(struct cay_doctor *doctor)
{
    int tables = cay_nft_has_table("cay");
    bool has_program = cay_nft_is_installed();
    enum cay_filter_way way = CAY_FILTER_ANY_WAY;
    struct cay_error why = {};
    if (tables < 0)
        cay_doctor_say(doctor, "network", CAY_VERDICT_WARN,
                       "use a kernel with nf_tables, or load it: modprobe nf_tables",
                       "no packet filter: sessions have no network but loopback");
    else if (!has_program)
        cay_doctor_say(doctor, "network", CAY_VERDICT_WARN, "install the package nftables",
                       "nft is not there: sessions have no network but loopback");
    else if (!cay_filter_check(doctor->network_steering, &way, &why))
        cay_doctor_say(
            doctor, "network", CAY_VERDICT_WARN,
            "as root, use a kernel from 5.9 on with BPF (CONFIG_BPF_SYSCALL), or one with "
            "CONFIG_NFT_NAT and CONFIG_NFT_CONNLIMIT, and 'network_steering = auto'",
            "sessions can have an open network, but no filtered one: %s", why.text);
    else
        cay_doctor_say(doctor, "network", CAY_VERDICT_OK, NULL,
                       "sessions can have an open network, and a filtered one by %s",
                       way == CAY_FILTER_BY_BPF ? "bpf" : "nft");
}

/* Only the recipe 'debian' needs it. */
void cay_doctor_check_debootstrap(struct cay_doctor *doctor)
{
    bool is_there = access("/usr/sbin/debootstrap", X_OK) == 0;
    cay_doctor_say(doctor, "debootstrap", is_there ? CAY_VERDICT_OK : CAY_VERDICT_WARN,
                   is_there ? NULL : "install the package debootstrap to build Debian bases",
                   is_there ? "'cay base build debian' can work"
                            : "not there: 'cay base build debian' cannot work");
}
