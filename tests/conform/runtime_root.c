/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conform/runtime_root.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/mount.h"

static const char *busybox(void)
{
    static const char *const places[] = {"/bin/busybox", "/usr/bin/busybox"};
    for (size_t i = 0; i < CAY_COUNT(places); i++) {
        if (access(places[i], X_OK) == 0)
            return places[i];
    }
    return NULL;
}

const char *root_missing(void)
{
    if (geteuid() != 0)
        return "needs root";
    return busybox() ? NULL : "needs a static busybox (package busybox-static)";
}

static bool copy_file(const char *from, int root_fd, const char *to)
{
    cay_autoclose int in = open(from, O_RDONLY | O_CLOEXEC);
    cay_autoclose int out = openat(root_fd, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    struct stat info;
    if (in < 0 || out < 0 || fstat(in, &info) < 0)
        return false;
    for (off_t left = info.st_size; left > 0;) {
        ssize_t moved = sendfile(out, in, NULL, (size_t)left);
        if (moved <= 0)
            return false;
        left -= moved;
    }
    return true;
}

static bool write_text(int root_fd, const char *path, const char *text)
{
    cay_autoclose int fd = openat(root_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

bool root_make(struct root *root, const char *probe)
{
    static const char *const dirs[] = {"bin", "dev",  "proc", "sys",
                                       "etc", "root", "home", "workspace"};
    static const char *const links[] = {
        "sh",       "ash",   "cat",    "echo",  "sleep",   "id",       "ls",     "ps",
        "true",     "false", "kill",   "mount", "umount",  "mknod",    "yes",    "head",
        "tail",     "dd",    "env",    "pwd",   "wc",      "touch",    "rm",     "mkdir",
        "chown",    "chmod", "seq",    "nc",    "date",    "ip",       "setsid", "chroot",
        "hostname", "uname", "grep",   "tr",    "stat",    "readlink", "nproc",  "printf",
        "usleep",   "ln",    "mkfifo", "dmesg", "unshare", "sync"};
    snprintf(root->path, sizeof(root->path), "/var/tmp/cay-root-XXXXXX");
    if (!mkdtemp(root->path) || chmod(root->path, 0755) < 0)
        return false;
    cay_autoclose int fd = open(root->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool made = fd >= 0;
    for (size_t i = 0; i < CAY_COUNT(dirs) && made; i++)
        made = mkdirat(fd, dirs[i], 0755) == 0;
    made = made && mkdirat(fd, "tmp", 0777) == 0 && fchmodat(fd, "tmp", 01777, 0) == 0 &&
           fchownat(fd, "workspace", 1000, 1000, 0) == 0 && copy_file(busybox(), fd, "bin/busybox");
    for (size_t i = 0; i < CAY_COUNT(links) && made; i++) {
        char path[64];
        snprintf(path, sizeof(path), "bin/%s", links[i]);
        made = symlinkat("busybox", fd, path) == 0;
    }
    return made && (!probe || copy_file(probe, fd, "bin/probe")) &&
           write_text(fd, "etc/passwd",
                      "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home:/bin/sh\n");
}

static int remove_one(const char *path, const struct stat *, int, struct FTW *)
{
    (void)remove(path);
    return 0;
}

void root_remove(struct root *root)
{
    if (root->path[0])
        nftw(root->path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    root->path[0] = '\0';
}

/* A layer as overlayfs sees it: a detached id-mapped copy, named through /proc. */
static int open_layer(const char *path, int userns_fd, char out_name[32])
{
    int fd = cay_mount_clone(AT_FDCWD, path, false);
    int result = fd < 0 ? fd : cay_mount_set_idmap(fd, userns_fd);
    snprintf(out_name, 32, "/proc/self/fd/%d", fd);
    if (result < 0)
        cay_cleanup_close(&fd);
    return result < 0 ? result : fd;
}

int root_overlay(const struct root *root, const struct root *scratch, int userns_fd,
                 uint32_t uid_base)
{
    char lower[32];
    char scratch_name[32];
    char upper[64];
    char work[64];
    char path[ROOT_PATH_BYTES + 16];
    snprintf(path, sizeof(path), "%s/upper", scratch->path);
    if (mkdir(path, 0755) < 0)
        return -errno;
    snprintf(path, sizeof(path), "%s/work", scratch->path);
    if (mkdir(path, 0755) < 0)
        return -errno;
    cay_autoclose int lower_fd = open_layer(root->path, userns_fd, lower);
    cay_autoclose int scratch_fd = open_layer(scratch->path, userns_fd, scratch_name);
    if (lower_fd < 0 || scratch_fd < 0)
        return lower_fd < 0 ? lower_fd : scratch_fd;
    snprintf(upper, sizeof(upper), "%s/upper", scratch_name);
    snprintf(work, sizeof(work), "%s/work", scratch_name);
    const struct cay_mount_option options[] = {
        {"lowerdir", lower}, {"upperdir", upper}, {"workdir", work}, {"redirect_dir", "on"},
        {"index", "off"},    {"metacopy", "off"}, {"volatile", NULL}};
    /* The mounter's file-system ids must be mapped, or the overlay is read-only; but it must keep
     * the capabilities that go with root's, or files of others cannot be copied up. */
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2];
    syscall(SYS_capget, &header, caps);
    setfsgid(uid_base);
    setfsuid(uid_base);
    syscall(SYS_capset, &header, caps);
    int fd = cay_mount_new("overlay", options, CAY_COUNT(options), MOUNT_ATTR_NODEV);
    setfsuid(0);
    setfsgid(0);
    return fd;
}
