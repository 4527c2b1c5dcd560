/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe/attempts.h"

/* Of the C library's own header, which does not go with the kernel's. */
int mount(const char *source, const char *target, const char *type, unsigned long flags,
          const void *data);
int umount2(const char *target, int flags);

enum { UNMOUNT_DETACH = 2, PROC_MAGIC = 0x9fa0 };

/* A directory of ours to mount on. */
static bool make_place(const struct world *world, const char *name, char out[PROBE_PATH_BYTES])
{
    scratch_path(world, name, out);
    return mkdir(out, 0777) == 0 || errno == EEXIST;
}

/* Tries, and takes it away again. */
static struct outcome judge_mount(const struct world *world, int result, const char *place)
{
    struct outcome made = judge(world, result, 0);
    if (result == 0)
        (void)umount2(place, UNMOUNT_DETACH);
    return made;
}

ATTEMPT(try_mount)
{
    char place[PROBE_PATH_BYTES];
    if (!make_place(world, "place", place))
        return denied("no directory: %s", strerror(errno));
    return judge_mount(world, mount("probe", place, attempt->path, 0, NULL), place);
}

ATTEMPT(mount_overlay)
{
    char place[PROBE_PATH_BYTES];
    char options[PROBE_PATH_BYTES * 2 + 32];
    if (!make_place(world, "place", place))
        return denied("no directory: %s", strerror(errno));
    snprintf(options, sizeof(options), "lowerdir=%s:/", place);
    return judge_mount(world, mount("probe", place, "overlay", 0, options), place);
}

ATTEMPT(mount_bind)
{
    char place[PROBE_PATH_BYTES];
    if (!make_place(world, "place", place))
        return denied("no directory: %s", strerror(errno));
    return judge_mount(world, mount("/", place, NULL, MS_BIND, NULL), place);
}

ATTEMPT(fsopen_tmpfs)
{
    return judge(world, syscall(SYS_fsopen, "tmpfs", 0), 0);
}

ATTEMPT(fsmount_tmpfs)
{
    char place[PROBE_PATH_BYTES];
    long config = syscall(SYS_fsopen, "tmpfs", 0);
    if (config < 0 || syscall(SYS_fsconfig, config, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return judge(world, -1, 0);
    long fd = syscall(SYS_fsmount, config, 0, 0);
    if (fd < 0 || !make_place(world, "place", place))
        return judge(world, -1, 0);
    return judge_mount(
        world, (int)syscall(SYS_move_mount, fd, "", AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH),
        place);
}

ATTEMPT(open_tree_clone)
{
    return judge(world, syscall(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE | AT_RECURSIVE), 0);
}

ATTEMPT(mount_attributes)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID};
    const char *place = world->is_control ? world->scratch : "/";
    return judge(world, syscall(SYS_mount_setattr, AT_FDCWD, place, 0, &attr, sizeof(attr)), 0);
}

/* Without sense, as both names are the same: EINVAL or EBUSY come behind the check of rights. */
ATTEMPT(pivot)
{
    long result = syscall(SYS_pivot_root, "/", "/");
    return judge(world, result, errno == EBUSY ? EBUSY : EINVAL);
}

ATTEMPT(unmount_masks)
{
    if (world->is_control)
        (void)mount("/proc/sys", "/proc/sys", NULL, MS_BIND, NULL);
    return judge(world, umount2("/proc/sys", UNMOUNT_DETACH), 0);
}

ATTEMPT(remount)
{
    if (world->is_control &&
        (mount("/proc/sys", "/proc/sys", NULL, MS_BIND, NULL) < 0 ||
         mount(NULL, "/proc/sys", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) < 0))
        return denied("no read-only mount: %s", strerror(errno));
    return judge(world, mount(NULL, "/proc/sys", NULL, MS_REMOUNT | MS_BIND, NULL), 0);
}

/* In the control the mount on the scratch directory is a shared one. */
ATTEMPT(propagation)
{
    if (world->is_control && mount(NULL, world->scratch, NULL, MS_SHARED, NULL) < 0)
        return denied("no shared mount: %s", strerror(errno));
    FILE *file = fopen("/proc/self/mountinfo", "re");
    char line[4096];
    struct outcome made = denied("all are private");
    while (file && made.verdict != PROBE_REACHED && fgets(line, sizeof(line), file)) {
        char *end = strstr(line, " - ");
        if (end)
            *end = '\0';
        if (strstr(line, " shared:") || strstr(line, " master:"))
            made = reached("%.100s", line);
    }
    if (file)
        fclose(file);
    return made;
}

ATTEMPT(proc_is_ours)
{
    struct statfs proc;
    struct statvfs sys;
    if (statfs("/proc", &proc) < 0 || statvfs("/proc/sys", &sys) < 0)
        return denied("there is none: %s", strerror(errno));
    if (proc.f_type != PROC_MAGIC)
        return reached("/proc is of the type %lx", (unsigned long)proc.f_type);
    return sys.f_flag & ST_RDONLY ? denied("it is read-only") : reached("/proc/sys is writable");
}

/* Those of its own namespace are in /proc, too; the call is what a filter of mounts forgets. */
ATTEMPT(list_mounts)
{
    enum { CALL_LISTMOUNT = 458 };
    struct {
        uint32_t size;
        uint32_t spare;
        uint64_t mount_id;
        uint64_t param;
    } request = {.size = sizeof(request), .mount_id = UINT64_MAX};
    uint64_t ids[8];
    return judge(world, syscall(CALL_LISTMOUNT, &request, ids, CAY_COUNT(ids), 0), 0);
}
