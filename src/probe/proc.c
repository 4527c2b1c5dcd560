/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of /proc, /sys and /dev. Nothing is written: to be able to open it is enough. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <unistd.h>

#include "probe/attempts.h"

ATTEMPT(try_write)
{
    cay_autoclose int fd = open(attempt->path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return judge(world, fd, 0);
}

ATTEMPT(try_read)
{
    char bytes[8]; /* some files are of numbers, and give no less */
    cay_autoclose int fd = open(attempt->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return judge(world, -1, 0);
    ssize_t len = read(fd, bytes, sizeof(bytes));
    if (len == 0)
        return world->is_control ? absent("it is empty here") : denied("it is empty");
    return judge(world, len, 0);
}

ATTEMPT(try_list)
{
    DIR *dir = opendir(attempt->path);
    if (!dir)
        return judge(world, -1, 0);
    int count = 0;
    for (const struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    if (count)
        return reached("%d entries", count);
    return world->is_control ? absent("it is empty here") : denied("it is empty");
}

/* To read it would take lines away from whoever else does. */
ATTEMPT(kmsg)
{
    char byte = 0;
    cay_autoclose int fd = open("/proc/kmsg", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return judge(world, -1, 0);
    /* What covers it is a plain file, which has an end. */
    if (lseek(fd, 0, SEEK_END) == 0 && read(fd, &byte, 1) == 0)
        return denied("it is empty");
    return reached("it is open");
}

ATTEMPT(kallsyms)
{
    FILE *file = fopen("/proc/kallsyms", "re");
    if (!file)
        return judge(world, -1, 0);
    char line[256];
    struct outcome made =
        world->is_control ? absent("this kernel tells nobody") : denied("zeros, or nothing");
    while (made.verdict != PROBE_REACHED && fgets(line, sizeof(line), file)) {
        size_t zeros = strspn(line, "0");
        if (line[zeros] != ' ' && line[0] != '\n')
            made = reached("%.16s", line);
    }
    fclose(file);
    return made;
}

enum { DEPTH_MAX = 4 };

/* The first file of that name below a directory that can be opened for writing. */
static bool find_writable(const char *top, const char *name, int depth, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/%s", top, name);
    cay_autoclose int fd = open(out, O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        return true;
    DIR *dir = depth < DEPTH_MAX ? opendir(top) : NULL;
    bool is_found = false;
    for (const struct dirent *entry; dir && !is_found && (entry = readdir(dir));) {
        char below[PATH_MAX];
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        snprintf(below, sizeof(below), "%s/%s", top, entry->d_name);
        is_found = find_writable(below, name, depth + 1, out);
    }
    if (dir)
        closedir(dir);
    return is_found;
}

static struct outcome judge_groups(const struct world *world, const char *const *names,
                                   size_t count)
{
    char path[PATH_MAX];
    for (size_t i = 0; i < count; i++) {
        if (find_writable("/sys/fs/cgroup", names[i], 0, path))
            return reached("%.100s", path);
    }
    return world->is_control ? absent("no control group has one here")
                             : denied("none is there, or none can be written");
}

ATTEMPT(cgroup_procs)
{
    static const char *const names[] = {"cgroup.procs", "tasks"};
    return judge_groups(world, names, CAY_COUNT(names));
}

ATTEMPT(cgroup_limits)
{
    static const char *const names[] = {"pids.max", "memory.max", "memory.limit_in_bytes",
                                        "cgroup.subtree_control"};
    return judge_groups(world, names, CAY_COUNT(names));
}

ATTEMPT(release_agent)
{
    static const char *const names[] = {"release_agent", "notify_on_release", "devices.allow"};
    return judge_groups(world, names, CAY_COUNT(names));
}

/* Whether a process of that name is in /proc, and its number. */
static int find_process(const char *name)
{
    DIR *dir = opendir("/proc");
    int pid = 0;
    for (const struct dirent *entry; dir && !pid && (entry = readdir(dir));) {
        char path[64];
        char comm[32] = "";
        int number = 0;
        if (sscanf(entry->d_name, "%d", &number) != 1)
            continue;
        snprintf(path, sizeof(path), "/proc/%d/comm", number);
        cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t len = fd < 0 ? -1 : read(fd, comm, sizeof(comm) - 1);
        if (len > 0 && comm[len - 1] == '\n')
            comm[len - 1] = '\0';
        if (len > 0 && strcmp(comm, name) == 0)
            pid = number;
    }
    if (dir)
        closedir(dir);
    return pid;
}

ATTEMPT(host_processes)
{
    int pid = find_process(world->host.name);
    return pid ? reached("it is %d here", pid) : denied("it is not there");
}

ATTEMPT(neighbour_process)
{
    int pid = find_process(world->neighbour.name);
    return pid ? reached("it is %d here", pid) : denied("it is not there");
}

ATTEMPT(oom_score)
{
    if (control_lacks(world, CAP_SYS_RESOURCE))
        return absent("root of this machine may not, either");
    cay_autoclose int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    return judge(world, fd < 0 ? -1 : write(fd, "-1000", 5), 0);
}

ATTEMPT(boot_id)
{
    cay_autoclose int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return judge(world, -1, 0);
    return holds_token(fd, world->boot_id) ? reached("it is the host's") : denied("another one");
}

ATTEMPT(well_known_sockets)
{
    static const char *const paths[] = {"/run/docker.sock",
                                        "/var/run/docker.sock",
                                        "/run/containerd/containerd.sock",
                                        "/run/dbus/system_bus_socket",
                                        "/run/systemd/private",
                                        "/run/systemd/journal/socket",
                                        "/run/podman/podman.sock",
                                        "/tmp/.X11-unix",
                                        "/run/cay/cayd.sock",
                                        "/run/user/0",
                                        "/run/udev/control",
                                        "/dev/log"};
    if (world->is_control)
        return access(world->host.socket, F_OK) == 0 ? reached("%.100s", world->host.socket)
                                                     : denied("%s", strerror(errno));
    for (size_t i = 0; i < CAY_COUNT(paths); i++) {
        if (access(paths[i], F_OK) == 0)
            return reached("%s", paths[i]);
    }
    return denied("none is there");
}
