/* SPDX-License-Identifier: Apache-2.0 */
#include "host/runtime/launch.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdalign.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sys/clone.h"
#include "sys/pidfd.h"
#include "sys/raw.h"
#include "wire/frame/decode.h"
#include "wire/frame/encode.h"

enum { CHANNEL_FD = 3 }; /* where cay-init looks for it */

struct child {
    int image_fd;
    int channel_fd;
    int netns_fd;
    int low_end; /* it takes nothing along from here on */
    long result; /* -errno when exec did not happen: we share memory */
};

/* On a stack of its own in the daemon's memory: raw calls only. */
CAY_CLONE_CHILD static int child_main(void *arg)
{
    struct child *child = arg;
    static const char name[] = "cay-init";
    const char *args[] = {name, NULL};
    const char *env[] = {NULL};
    int image_fd = child->image_fd;
    long result = 0;
    if (child->netns_fd >= 0)
        result = cay_raw2(SYS_setns, child->netns_fd, CLONE_NEWNET);
    if (result >= 0)
        result = cay_raw3(SYS_close_range, child->low_end, UINT_MAX, CLOSE_RANGE_UNSHARE);
    if (result >= 0 && image_fd <= CHANNEL_FD)
        result = image_fd = (int)cay_raw3(SYS_fcntl, image_fd, F_DUPFD_CLOEXEC, CHANNEL_FD + 1);
    if (result >= 0)
        result = child->channel_fd == CHANNEL_FD
                     ? cay_raw3(SYS_fcntl, CHANNEL_FD, F_SETFD, 0)
                     : cay_raw3(SYS_dup3, child->channel_fd, CHANNEL_FD, 0);
    /* The channel stands in for 0 to 2 until init has /dev/null. */
    for (int fd = 0; fd < CHANNEL_FD && result >= 0; fd++)
        result = cay_raw3(SYS_dup3, CHANNEL_FD, fd, 0);
    if (result >= 0)
        result = cay_raw3(SYS_close_range, CHANNEL_FD + 1, UINT_MAX, CLOSE_RANGE_CLOEXEC);
    if (result >= 0)
        result = cay_raw5(SYS_execveat, image_fd, "", args, env, AT_EMPTY_PATH);
    child->result = result;
    return 127;
}

static int send_start(int channel_fd, const struct cay_init_launch *launch)
{
    uint8_t data[256];
    struct cay_frame_writer writer = {.data = data, .cap = sizeof(data)};
    if (!cay_frame_put_start(&writer, &launch->start))
        return -E2BIG;
    alignas(struct cmsghdr) char control[CMSG_SPACE(CAY_FRAME_START_FDS_MAX * sizeof(int))] = {};
    struct iovec part = {.iov_base = data, .iov_len = writer.len};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (launch->fd_count) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(launch->fd_count * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        assert(header);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(launch->fd_count * sizeof(int));
        memcpy(CMSG_DATA(header), launch->fds, launch->fd_count * sizeof(int));
    }
    return sendmsg(channel_fd, &message, MSG_NOSIGNAL) == (ssize_t)writer.len ? 0 : -errno;
}

static int spawn(const struct cay_init_launch *launch, int channel_fd,
                 struct cay_launched *out_launched)
{
    int low_fd = cay_low_fds_take(launch->low_fds, channel_fd);
    if (low_fd < 0)
        return low_fd;
    struct child child = {.image_fd = launch->image_fd,
                          .channel_fd = low_fd,
                          .netns_fd = launch->netns_fd,
                          .low_end = launch->low_fds->end};
    /* No exit signal: the daemon learns of the end from the pidfd, not from SIGCHLD. */
    struct cay_clone how = {
        .flags = launch->namespaces | CLONE_FILES,
        .cgroup_fd = launch->cgroup_fd,
        .out_pidfd = &out_launched->pidfd,
    };
    pid_t pid = cay_clone_shared(&how, child_main, &child);
    cay_low_fds_give(launch->low_fds, low_fd);
    if (pid < 0)
        return pid;
    out_launched->pid = pid;
    return (int)CAY_MIN(child.result, 0);
}

int cay_launch_begin(const struct cay_init_launch *launch, struct cay_launched *out_launched)
{
    int ends[2];
    *out_launched = (struct cay_launched){.pidfd = -1, .channel_fd = -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    cay_autoclose int ours = ends[0];
    cay_autoclose int theirs = ends[1];
    int result = fcntl(ours, F_SETFL, O_NONBLOCK) < 0 ? -errno : send_start(ours, launch);
    if (result == 0)
        result = spawn(launch, theirs, out_launched);
    if (result == 0) {
        out_launched->channel_fd = cay_take_fd(ours);
    } else if (out_launched->pidfd >= 0) {
        (void)cay_pidfd_wait(out_launched->pidfd, -1);
        cay_pidfd_reap(out_launched->pidfd);
        close(cay_take_fd(out_launched->pidfd));
    }
    return result;
}

int cay_launch_finish(struct cay_launched *launched, int timeout_ms, uint32_t *out_stage)
{
    enum { READY_BYTES = CAY_FRAME_HEADER_BYTES + 12 };
    uint8_t data[READY_BYTES];
    *out_stage = CAY_STAGE_NONE;
    struct pollfd entry = {.fd = launched->channel_fd, .events = POLLIN};
    int ready = 0;
    do {
        ready = poll(&entry, 1, timeout_ms);
    } while (ready < 0 && errno == EINTR);
    if (ready <= 0)
        return ready < 0 ? -errno : -ETIMEDOUT;
    ssize_t len = recv(launched->channel_fd, data, sizeof(data), 0);
    if (len <= 0)
        return len < 0 ? -errno : -EPIPE;
    struct cay_frame frame;
    struct cay_frame_ready answer;
    if (cay_frame_next(data, (size_t)len, CAY_FRAME_FROM_INIT, &frame) != len ||
        frame.type != CAY_FRAME_READY || !cay_frame_get_ready(&frame, &answer))
        return -EPROTO;
    *out_stage = answer.stage;
    launched->version = answer.version;
    return answer.stage ? -(int)answer.error : 0;
}
