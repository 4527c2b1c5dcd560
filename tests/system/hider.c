/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Takes up disk space where no walk of the tree finds it: hider KIND MEBIBYTES. Says "full" when it
 * has written all, and then waits for its end.
 *   open     a file without a name, held by a descriptor
 *   mapped   by a mapping alone
 *   thread   by a descriptor that only a thread has
 *   message  by a message that nobody receives
 *   volume   in a subvolume of its own
 */

#include <fcntl.h>
#include <linux/btrfs.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static long bytes;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int make(void)
{
    static char block[1 << 20];
    int fd = open(".", O_TMPFILE | O_RDWR, 0600);
    if (fd < 0)
        die("open");
    for (long done = 0, len; done < bytes; done += len) {
        len = write(fd, block, sizeof(block));
        if (len < 0)
            die("write");
    }
    return fd;
}

static void rest(void)
{
    puts("full");
    fflush(stdout);
    for (;;)
        pause();
}

static void map(void)
{
    int fd = make();
    if (mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
        die("mmap");
    close(fd);
    rest();
}

static int in_thread(void *)
{
    make();
    rest();
    return 0;
}

static void start_thread(void)
{
    enum { STACK = 1 << 20 };
    char *stack = malloc(STACK);
    if (!stack || clone(in_thread, stack + STACK,
                        CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD, NULL) < 0)
        die("clone");
    for (;;)
        pause();
}

static void send_away(void)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
        die("socketpair");
    int fd = make();
    char room[CMSG_SPACE(sizeof(fd))] = "";
    char byte = 0;
    struct iovec data = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(fd));
    memcpy(CMSG_DATA(head), &fd, sizeof(fd));
    if (sendmsg(ends[0], &message, 0) != 1)
        die("sendmsg");
    close(fd);
    rest();
}

static void make_volume(void)
{
    struct btrfs_ioctl_vol_args args = {.name = "volume"};
    int fd = open(".", O_RDONLY | O_DIRECTORY);
    if (fd < 0 || ioctl(fd, BTRFS_IOC_SUBVOL_CREATE, &args) < 0)
        die("subvolume");
    if (chdir("volume") < 0)
        die("chdir");
    make();
    rest();
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    bytes = atol(argv[2]) << 20;
    if (!strcmp(argv[1], "open")) {
        make();
        rest();
    }
    if (!strcmp(argv[1], "mapped"))
        map();
    if (!strcmp(argv[1], "thread"))
        start_thread();
    if (!strcmp(argv[1], "message"))
        send_away();
    if (!strcmp(argv[1], "volume"))
        make_volume();
    return 2;
}
