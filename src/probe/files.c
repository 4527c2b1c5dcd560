/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the host, and ways around the session's root. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "probe/attempts.h"

ATTEMPT(host_file)
{
    return judge_secret(world, world->host.secret, world->host.token);
}

ATTEMPT(host_file_upwards)
{
    char path[PATH_MAX];
    int len = 0;
    for (int i = 0; i < 64; i++)
        len += snprintf(path + len, sizeof(path) - (size_t)len, "../");
    snprintf(path + len, sizeof(path) - (size_t)len, "%s", world->host.secret + 1);
    return judge_secret(world, path, world->host.token);
}

ATTEMPT(root_of_processes)
{
    static const char *const links[] = {"root", "cwd", "cwd/../../../../../../../.."};
    DIR *dir = opendir("/proc");
    struct outcome made = denied("no process has another root");
    for (struct dirent *entry; dir && made.verdict != PROBE_REACHED && (entry = readdir(dir));) {
        for (size_t i = 0; i < CAY_COUNT(links) && made.verdict != PROBE_REACHED; i++) {
            char path[PATH_MAX];
            if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
                continue;
            snprintf(path, sizeof(path), "/proc/%s/%s%s", entry->d_name, links[i],
                     world->host.secret);
            struct outcome one = judge_secret(world, path, world->host.token);
            if (one.verdict == PROBE_REACHED)
                made = one;
        }
    }
    if (dir)
        closedir(dir);
    return made;
}

/* A program that runs cannot be written to (ETXTBSY): the rights are asked for first. */
ATTEMPT(program_of_init)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/exe", world->supervisor);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    return judge(world, fd, ETXTBSY);
}

ATTEMPT(descriptors)
{
    for (int fd = 3; fd < 1024; fd++) {
        char path[64];
        char target[128] = "";
        if (fcntl(fd, F_GETFD) < 0)
            continue;
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        (void)!readlink(path, target, sizeof(target) - 1);
        return reached("%d is %.90s", fd, target);
    }
    return denied("0, 1 and 2 only");
}

ATTEMPT(environment)
{
    for (char **entry = environ; *entry; entry++) {
        if (strstr(*entry, world->host.token))
            return reached("%.40s", *entry);
    }
    return denied("nothing of it");
}

/* The oldest escape: a descriptor of a directory above, kept while the root is moved below. */
ATTEMPT(chroot_escape)
{
    char jail[PROBE_PATH_BYTES];
    scratch_path(world, "jail", jail);
    int above = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (mkdir(jail, 0755) < 0 && errno != EEXIST)
        return denied("no jail: %s", strerror(errno));
    if (chroot(jail) < 0)
        return denied("%s", strerror(errno));
    if (above < 0 || fchdir(above) < 0)
        return denied("no way back: %s", strerror(errno));
    for (int i = 0; i < 64; i++)
        (void)!chdir("..");
    if (chroot(".") < 0)
        return denied("%s", strerror(errno));
    return judge_secret(world, world->host.secret, world->host.token);
}

/* Makes the node and opens it. */
static struct outcome open_new_node(const struct world *world, const char *name, mode_t kind,
                                    dev_t device)
{
    char path[PROBE_PATH_BYTES];
    scratch_path(world, name, path);
    (void)unlink(path);
    if (mknod(path, kind | 0600, device) < 0)
        return judge(world, -1, 0);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct outcome made = judge(world, fd, 0);
    if (world->is_control && fd < 0 && errno == EPERM)
        made = absent("root of this machine may not open it, either");
    (void)unlink(path);
    return made;
}

ATTEMPT(node_of_disk)
{
    char *end = NULL;
    long major = world->disk ? strtol(world->disk, &end, 10) : 0;
    if (!end || *end != ':')
        return absent("the host has no disk that is known");
    return open_new_node(world, "disk", S_IFBLK,
                         makedev((unsigned)major, (unsigned)strtol(end + 1, NULL, 10)));
}

ATTEMPT(node_of_memory)
{
    return open_new_node(world, "memory", S_IFCHR, makedev(1, 1));
}

/* In the control, that of the directory the image was made of. */
ATTEMPT(node_of_image)
{
    char path[PROBE_PATH_BYTES] = "/planted/zero";
    if (world->is_control) {
        scratch_path(world, "zero", path);
        if (mknod(path, S_IFCHR | 0666, makedev(1, 5)) < 0)
            return denied("%s", strerror(errno));
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return denied("the image came without it");
    return judge(world, fd, 0);
}

struct handle {
    unsigned int bytes;
    int type;
    unsigned char data[128];
};

/* Inode 2 is the root of most file systems. A handle that does not fit is stale, but only for whom
 * may open one. */
ATTEMPT(file_handle)
{
    struct handle handle = {.bytes = 8, .type = 1, .data = {2}};
    int dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long fd = syscall(SYS_open_by_handle_at, dir, &handle, O_RDONLY);
    return judge(world, fd, ESTALE);
}

ATTEMPT(file_handle_name)
{
    struct handle handle = {.bytes = sizeof(handle.data)};
    int mount_id = 0;
    return judge(world, syscall(SYS_name_to_handle_at, AT_FDCWD, "/", &handle, &mount_id, 0),
                 EOPNOTSUPP);
}

ATTEMPT(attribute_trusted)
{
    char path[PROBE_PATH_BYTES];
    scratch_path(world, "opaque", path);
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return denied("no directory: %s", strerror(errno));
    struct outcome made = judge(world, setxattr(path, "trusted.overlay.opaque", "y", 1, 0), 0);
    (void)rmdir(path);
    return made;
}

ATTEMPT(whiteout)
{
    char path[PROBE_PATH_BYTES];
    scratch_path(world, "whiteout", path);
    struct outcome made = judge(world, mknod(path, S_IFCHR | 0600, makedev(0, 0)), 0);
    (void)unlink(path);
    return made;
}

ATTEMPT(watch_host)
{
    int fd = inotify_init1(IN_CLOEXEC);
    if (fd < 0)
        return denied("%s", strerror(errno));
    int watch = inotify_add_watch(fd, world->host.secret, IN_OPEN);
    return watch >= 0 ? reached("it is watched") : denied("%s", strerror(errno));
}

ATTEMPT(memory_program)
{
    int fd = (int)syscall(SYS_memfd_create, "probe", 0);
    cay_autoclose int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    char piece[65536];
    ssize_t len = -1;
    while (fd >= 0 && self >= 0 && (len = read(self, piece, sizeof(piece))) > 0)
        if (write(fd, piece, (size_t)len) != len)
            break;
    if (len != 0)
        return denied("no program in memory: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        char path[64];
        char word[] = "read";
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        char *argv[] = {path, word, cay_strdup(world->host.secret), cay_strdup(world->host.token),
                        NULL};
        execv(path, argv);
        _exit(127);
    }
    int status = 0;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return reached("it reads the file");
    return denied("it ends with %d", WEXITSTATUS(status));
}
