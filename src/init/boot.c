/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <stdalign.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "init/init.h"
#include "sys/caps.h"
#include "sys/raw.h"

enum { TASKS_MAX = 4 };

/* What came with START, by role. */
struct gifts {
    int root_fd;
    int userns_fd;
    int tasks_fd[TASKS_MAX];
    struct view_groups groups;
};

/* START is small and comes with all its descriptors in one message. */
static ssize_t receive(int fd, uint8_t *data, size_t size, int *out_fds, uint32_t *out_count)
{
    alignas(struct cmsghdr) char control[CMSG_SPACE(CAY_FRAME_START_FDS_MAX * sizeof(int))];
    struct iovec part = {.iov_base = data, .iov_len = size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *first = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    *out_count = 0;
    if (first && first->cmsg_level == SOL_SOCKET && first->cmsg_type == SCM_RIGHTS) {
        *out_count = (uint32_t)((first->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(out_fds, CMSG_DATA(first), *out_count * sizeof(int));
    }
    return got < 0 ? -errno : got;
}

static int read_start(struct init *init, int channel_fd, struct gifts *gifts)
{
    uint8_t data[CAY_FRAME_HEADER_BYTES + 1024];
    int fds[CAY_FRAME_START_FDS_MAX];
    uint32_t fd_count = 0;
    ssize_t len = channel_fd >= 0 ? receive(channel_fd, data, sizeof(data), fds, &fd_count)
                                  : pipe_read_first(init, data, sizeof(data));
    struct cay_frame frame;
    if (len <= 0 || cay_frame_next(data, (size_t)len, CAY_FRAME_FROM_DAEMON, &frame) != len ||
        frame.type != CAY_FRAME_START || !cay_frame_get_start(&frame, &init->spec))
        return -EPROTO;
    memcpy(init->hostname, init->spec.hostname.ptr, init->spec.hostname.len);
    int *roles[] = {&init->listen_fd,        &gifts->root_fd,          &gifts->userns_fd,
                    &gifts->tasks_fd[0],     &gifts->tasks_fd[1],      &gifts->tasks_fd[2],
                    &gifts->tasks_fd[3],     &gifts->groups.memory_fd, &gifts->groups.cpu_fd,
                    &gifts->groups.usage_fd, &init->view.cgroups_fd};
    uint32_t used = 0;
    for (size_t i = 0; i < CAY_COUNT(roles); i++) {
        if (!(init->spec.fds & 1u << i))
            continue;
        if (used == fd_count)
            return -EPROTO;
        *roles[i] = fds[used++];
    }
    return used == fd_count ? 0 : -EPROTO;
}

static int join_cgroups(const struct gifts *gifts)
{
    for (int i = 0; i < TASKS_MAX; i++) {
        if (gifts->tasks_fd[i] < 0)
            continue;
        if (write(gifts->tasks_fd[i], "0", 1) != 1)
            return -errno;
        close(gifts->tasks_fd[i]);
    }
    return 0;
}

static int open_null(struct init *init)
{
    init->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (init->null_fd < 0)
        return -errno;
    for (int fd = 0; fd < 3; fd++) {
        if (dup2(init->null_fd, fd) < 0)
            return -errno;
    }
    return 0;
}

static int load_filter(struct init *init)
{
    struct cay_seccomp filter;
    unsigned flags = CAY_SECCOMP_LISTENS | (init->spec.nesting ? CAY_SECCOMP_NESTING : 0u);
    int result = cay_seccomp_build(&filter, flags);
    if (result == 0)
        result = init->told_fd = cay_seccomp_load_listening(&filter);
    return CAY_MIN(result, 0);
}

static int start_plain(struct init *init, const struct gifts *gifts, uint32_t *out_stage)
{
    *out_stage = CAY_STAGE_SPEC;
    init->root_fd = gifts->root_fd;
    /* Orphans of commands come to us, and we can tell what is left (prctl(2)). */
    return prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ? -errno : 0;
}

static int start(struct init *init, int channel_fd, uint32_t *out_stage)
{
    struct gifts gifts = {
        .root_fd = -1, .userns_fd = -1, .tasks_fd = {-1, -1, -1, -1}, .groups = {-1, -1, -1}};
    *out_stage = CAY_STAGE_SPEC;
    int result = read_start(init, channel_fd, &gifts);
    if (result < 0)
        return result;
    *out_stage = CAY_STAGE_CGROUP;
    result = join_cgroups(&gifts);
    if (result < 0)
        return result;
    bool is_gvisor = init->spec.mode == CAY_FRAME_MODE_GVISOR;
    if (is_gvisor != (channel_fd < 0))
        return -EPROTO;
    if (init->spec.mode == CAY_FRAME_MODE_PLAIN) {
        result = start_plain(init, &gifts, out_stage);
    } else if (is_gvisor) {
        result = setup_gvisor(init, out_stage);
    } else {
        /* A keyring of its own, or commands would find the daemon's (session-keyring(7)). */
        (void)cay_raw2(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0);
        view_open(&init->view, &gifts.groups);
        result = setup_namespaces(init, gifts.root_fd, gifts.userns_fd, out_stage);
    }
    if (result < 0)
        return result;
    *out_stage = CAY_STAGE_STDIO;
    result = open_null(init);
    if (result < 0 || init->spec.mode != CAY_FRAME_MODE_NAMESPACES)
        return result;
    *out_stage = CAY_STAGE_SECCOMP;
    cay_seccomp_build_gate(&init->gate);
    result = load_filter(init);
    if (result < 0)
        return result;
    /* What is left to do to commands it may do as the owner of their namespace. */
    *out_stage = CAY_STAGE_CAPS;
    return cay_caps_set(0);
}

int boot(struct init *init, int channel_fd)
{
    uint32_t stage = CAY_STAGE_NONE;
    int out_fd = channel_fd;
    if (channel_fd < 0) {
        if (pipe_take_over(init) < 0)
            return -1;
        out_fd = init->pipe_out_fd;
    }
    int result = start(init, channel_fd, &stage);
    struct cay_frame_ready ready = {.version = CAY_FRAME_VERSION};
    if (result < 0) {
        ready.stage = stage;
        ready.error = (uint32_t)-result;
    }
    uint8_t data[64];
    struct cay_frame_writer writer = {.data = data, .cap = sizeof(data)};
    if (!cay_frame_put_ready(&writer, &ready) ||
        write(out_fd, data, writer.len) != (ssize_t)writer.len)
        return -1;
    if (result < 0)
        return -1;
    /* The channel we were started with is the first connection. */
    if (channel_fd < 0 ? pipe_watch(init) < 0 : fcntl(channel_fd, F_SETFD, FD_CLOEXEC) < 0)
        return -1;
    link_open(init, &init->link, out_fd);
    return 0;
}
