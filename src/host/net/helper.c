/* SPDX-License-Identifier: Apache-2.0 */
#include "host/net/helper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <linux/nsfs.h>

#include "sys/clone.h"
#include "sys/pidfd.h"
#include "sys/raw.h"

enum { CONTROL_FD = 3 };

/* --- the door --- */

static void door_address(int dir_fd, uint32_t slot, struct sockaddr_un *out_address)
{
    *out_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(out_address->sun_path, sizeof(out_address->sun_path), "/proc/self/fd/%d/%x", dir_fd,
             slot);
}

void cay_helper_remove_door(int dir_fd, uint32_t slot)
{
    char name[16];
    snprintf(name, sizeof(name), "%x", slot);
    (void)unlinkat(dir_fd, name, 0);
}

static int open_door(int dir_fd, uint32_t slot)
{
    struct sockaddr_un address;
    door_address(dir_fd, slot, &address);
    cay_helper_remove_door(dir_fd, slot);
    cay_autoclose int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(fd, CAY_EGRESS_DOOR_BACKLOG) < 0)
        return -errno;
    return cay_take_fd(fd);
}

void cay_helper_list(int dir_fd, cay_helper_fn *visit, void *context)
{
    int copy_fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy_fd < 0 ? NULL : fdopendir(copy_fd);
    if (!dir)
        return;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        char *end = NULL;
        unsigned long slot = strtoul(entry->d_name, &end, 16);
        if (entry->d_name[0] != '.' && end && *end == '\0' && slot <= UINT32_MAX &&
            !visit(context, (uint32_t)slot))
            break;
    }
    closedir(dir);
}

/* --- frames with descriptors --- */

union rights {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(CAY_EGRESS_FDS_MAX * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
};

static int send_frame(int control_fd, const struct cay_egress_frame *frame, const int *fds,
                      size_t fd_count)
{
    uint8_t bytes[CAY_EGRESS_FRAME_BYTES_MAX];
    union rights rights = {};
    struct iovec part = {bytes, cay_egress_encode(frame, bytes)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd_count) {
        message.msg_control = &rights;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        rights.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                                         .cmsg_type = SCM_RIGHTS,
                                         .cmsg_len = CMSG_LEN(fd_count * sizeof(int))};
        memcpy(CMSG_DATA(&rights.header), fds, fd_count * sizeof(int));
    }
    return sendmsg(control_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

static int send_start(int control_fd, const struct cay_helper_options *options, int door_fd)
{
    struct cay_egress_frame frame = {.kind = CAY_EGRESS_START, .version = CAY_EGRESS_VERSION};
    int fds[CAY_EGRESS_FDS_MAX] = {door_fd, options->names_fd};
    size_t count = CAY_EGRESS_START_FDS;
    for (size_t i = 0; i < CAY_EGRESS_PARTS; i++) {
        int fd = i == CAY_EGRESS_NETNS  ? options->netns_fd
                 : i == CAY_EGRESS_LINK ? options->filter->link_fd
                                        : options->filter->sockets[i];
        if (fd < 0)
            continue;
        frame.parts |= UINT32_C(1) << i;
        fds[count++] = fd;
    }
    return send_frame(control_fd, &frame, fds, count);
}

/* --- the process --- */

struct child {
    int image_fd, control_fd, netns_fd;
    const char *const *args;
    long result;
};

/* On a stack of its own in the daemon's memory: raw calls only. */
CAY_CLONE_CHILD static int child_main(void *arg)
{
    struct child *child = arg;
    const char *env[] = {NULL};
    int image_fd = child->image_fd;
    long result = cay_raw2(SYS_setns, child->netns_fd, CLONE_NEWNET);
    if (result >= 0 && image_fd <= CONTROL_FD)
        result = image_fd = (int)cay_raw3(SYS_fcntl, image_fd, F_DUPFD_CLOEXEC, CONTROL_FD + 1);
    if (result >= 0)
        result = child->control_fd == CONTROL_FD
                     ? cay_raw3(SYS_fcntl, CONTROL_FD, F_SETFD, 0)
                     : cay_raw3(SYS_dup3, child->control_fd, CONTROL_FD, 0);
    for (int fd = 0; fd < CONTROL_FD && result >= 0; fd++)
        (void)cay_raw1(SYS_close, fd); /* there is nothing to say but there */
    if (result >= 0)
        result = cay_raw3(SYS_close_range, CONTROL_FD + 1, UINT_MAX, CLOSE_RANGE_CLOEXEC);
    if (result >= 0)
        result = cay_raw0(SYS_setsid);
    if (result >= 0)
        result = cay_raw5(SYS_execveat, image_fd, "", child->args, env, AT_EMPTY_PATH);
    child->result = result;
    return 127;
}

static int spawn(const struct cay_helper_options *options, int control_fd, int *out_pidfd)
{
    char uid[16];
    snprintf(uid, sizeof(uid), "%u", options->uid);
    const char *trust_path = options->trust_path ? options->trust_path : "";
    const char *const args[] = {"cay-egress", uid, trust_path, NULL};
    struct child child = {.image_fd = options->image_fd,
                          .control_fd = control_fd,
                          .netns_fd = options->netns_fd,
                          .args = args};
    struct cay_clone how = {.cgroup_fd = -1, .out_pidfd = out_pidfd};
    pid_t pid = cay_clone_shared(&how, child_main, &child);
    if (pid < 0)
        return pid;
    return (int)CAY_MIN(child.result, 0);
}

bool cay_helper_start(const struct cay_helper_options *options, struct cay_helper *out_helper,
                      struct cay_error *err)
{
    struct cay_helper helper = CAY_HELPER_NONE;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
        return cay_fail_errno(err, CAY_R_UNAVAILABLE, -errno, "network filtered: socket");
    cay_autoclose int theirs = ends[1];
    helper.control_fd = ends[0];
    cay_autoclose int door_fd = open_door(options->dir_fd, options->slot);
    int status = door_fd < 0 ? door_fd : send_start(helper.control_fd, options, door_fd);
    if (status == 0)
        status = spawn(options, theirs, &helper.pidfd);
    if (status == 0) {
        *out_helper = helper;
        return true;
    }
    cay_helper_kill(&helper);
    return cay_fail_errno(err, CAY_R_UNAVAILABLE, status, "network filtered: start its helper");
}

/* Who listens at the door, so that one which does not say hello can be ended; -1 when it has not
 * come so far that it is known. Not hung up after its number became a descriptor: it is it. */
static int find_holder(int fd)
{
    struct ucred who = {};
    socklen_t len = sizeof(who);
    struct pollfd end = {.fd = fd};
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 || who.uid == geteuid())
        return -1;
    cay_autoclose int pidfd = cay_pidfd_open(who.pid);
    return pidfd >= 0 && poll(&end, 1, 0) == 0 ? cay_take_fd(pidfd) : -1;
}

int cay_helper_find(int dir_fd, uint32_t slot, struct cay_helper *out_helper)
{
    struct sockaddr_un address;
    const int on = 1;
    door_address(dir_fd, slot, &address);
    cay_autoclose int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* Who it is, it does not say; the kernel does. */
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
        connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return -errno;
    *out_helper = (struct cay_helper){.control_fd = -1, .pidfd = find_holder(fd)};
    out_helper->control_fd = cay_take_fd(fd);
    return 0;
}

void cay_helper_quit(const struct cay_helper *helper)
{
    const struct cay_egress_frame quit = {.kind = CAY_EGRESS_QUIT};
    if (helper->control_fd >= 0)
        (void)send_frame(helper->control_fd, &quit, NULL, 0);
}

void cay_helper_leave(struct cay_helper *helper)
{
    cay_cleanup_close(&helper->control_fd);
    cay_cleanup_close(&helper->pidfd);
    *helper = CAY_HELPER_NONE;
}

void cay_helper_kill(struct cay_helper *helper)
{
    cay_helper_quit(helper);
    if (helper->pidfd >= 0) {
        (void)cay_pidfd_signal(helper->pidfd, SIGKILL);
        (void)cay_pidfd_wait(helper->pidfd, -1); /* a killed process has nothing to wait for */
        cay_pidfd_reap(helper->pidfd);
    }
    cay_helper_leave(helper);
}

/* A file that nobody can change, beside a frame: it is in memory, and gone when both are done. */
static int send_file(const struct cay_helper *helper, const struct cay_egress_frame *frame,
                     struct cay_str text)
{
    enum { SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE };
    cay_autoclose int fd = memfd_create("cay-egress", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    while (text.len) {
        ssize_t len = write(fd, text.ptr, text.len);
        if (len < 0)
            return -errno;
        text.ptr += len;
        text.len -= (size_t)len;
    }
    return fcntl(fd, F_ADD_SEALS, SEALS) < 0 ? -errno
                                             : send_frame(helper->control_fd, frame, &fd, 1);
}

int cay_helper_set_policy(const struct cay_helper *helper, uint64_t serial, uint32_t asks_ms,
                          struct cay_str rules)
{
    const struct cay_egress_frame frame = {
        .kind = CAY_EGRESS_POLICY, .serial = serial, .asks_ms = asks_ms};
    return send_file(helper, &frame, rules);
}

int cay_helper_answer(const struct cay_helper *helper, uint32_t id, bool is_allowed)
{
    const struct cay_egress_frame frame = {
        .kind = CAY_EGRESS_ANSWER, .ask.id = id, .is_allowed = is_allowed};
    return send_frame(helper->control_fd, &frame, NULL, 0);
}

int cay_helper_set_secrets(const struct cay_helper *helper, struct cay_str secrets)
{
    const struct cay_egress_frame frame = {.kind = CAY_EGRESS_SECRETS};
    return send_file(helper, &frame, secrets);
}

int cay_helper_give_leaf(const struct cay_helper *helper, struct cay_str name, struct cay_str pem)
{
    const struct cay_egress_frame frame = {.kind = CAY_EGRESS_LEAF, .name = name};
    return send_file(helper, &frame, pem);
}

void cay_helper_ping(const struct cay_helper *helper, uint64_t serial)
{
    const struct cay_egress_frame ping = {.kind = CAY_EGRESS_PING, .serial = serial};
    (void)send_frame(helper->control_fd, &ping, NULL, 0);
}

/* --- what it says --- */

static void close_all(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        cay_cleanup_close(&fds[i]);
}

/* One that a sandbox has got hold of could send anything: only a namespace that is this host's is
 * taken for one. */
static bool is_our_netns(int fd)
{
    if (ioctl(fd, NS_GET_NSTYPE) != CLONE_NEWNET)
        return false;
    cay_autoclose int owner = ioctl(fd, NS_GET_USERNS);
    cay_autoclose int above = owner < 0 ? -1 : ioctl(owner, NS_GET_PARENT);
    return owner >= 0 && above < 0;
}

static bool take_hello(struct cay_helper_news *news, const int *fds, size_t count)
{
    size_t at = 0;
    if (news->frame.version != CAY_EGRESS_VERSION ||
        count != (size_t)__builtin_popcount(news->frame.parts))
        return false;
    for (size_t i = 0; i < CAY_EGRESS_PARTS; i++) {
        int fd = news->frame.parts & UINT32_C(1) << i ? fds[at++] : -1;
        *(i == CAY_EGRESS_NETNS  ? &news->netns_fd
          : i == CAY_EGRESS_LINK ? &news->filter.link_fd
                                 : &news->filter.sockets[i]) = fd;
    }
    return news->netns_fd >= 0 && is_our_netns(news->netns_fd);
}

static void take_control(struct msghdr *message, struct cay_helper *helper, int *fds,
                         size_t *out_count)
{
    for (struct cmsghdr *one = CMSG_FIRSTHDR(message); one; one = CMSG_NXTHDR(message, one)) {
        if (one->cmsg_level == SOL_SOCKET && one->cmsg_type == SCM_RIGHTS) {
            *out_count =
                CAY_MIN((one->cmsg_len - CMSG_LEN(0)) / sizeof(int), (size_t)CAY_EGRESS_FDS_MAX);
            memcpy(fds, CMSG_DATA(one), *out_count * sizeof(int));
        } else if (one->cmsg_level == SOL_SOCKET && one->cmsg_type == SCM_CREDENTIALS &&
                   helper->pidfd < 0) {
            struct ucred who;
            memcpy(&who, CMSG_DATA(one), sizeof(who));
            int pidfd = cay_pidfd_open(who.pid);
            helper->pidfd = CAY_MAX(pidfd, -1);
        }
    }
}

int cay_helper_receive(struct cay_helper *helper, struct cay_helper_news *out_news)
{
    int fds[CAY_EGRESS_FDS_MAX];
    size_t count = 0;
    union rights rights = {};
    struct iovec part = {out_news->bytes, sizeof(out_news->bytes)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &rights,
                             .msg_controllen = sizeof(rights)};
    out_news->filter = CAY_FILTER_CLOSED;
    out_news->netns_fd = -1;
    ssize_t len = recvmsg(helper->control_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (len < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    if (len == 0)
        return -EPIPE;
    take_control(&message, helper, fds, &count);
    if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ||
        !cay_egress_decode(out_news->bytes, (size_t)len, true, &out_news->frame)) {
        close_all(fds, count);
        return -EPROTO;
    }
    if (out_news->frame.kind != CAY_EGRESS_HELLO) {
        close_all(fds, count);
        return 1;
    }
    if (take_hello(out_news, fds, count))
        return 1;
    close_all(fds, count);
    out_news->filter = CAY_FILTER_CLOSED;
    out_news->netns_fd = -1;
    return -EPROTO;
}
