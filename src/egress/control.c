/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "egress/egress.h"

/*
 * The daemon. It may go and come back: what it must know waits for it, as far as there is
 * room. Whoever connects at the door is the daemon, since nobody else comes to it; the last
 * one counts.
 */

union rights {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(CAY_EGRESS_FDS_MAX * sizeof(int))];
};

bool egress_send(struct egress *egress, const struct cay_egress_frame *frame, const int *fds,
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
    return part.iov_len && egress->control.fd >= 0 &&
           sendmsg(egress->control.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) ==
               (ssize_t)part.iov_len;
}

/* --- what the daemon says --- */

struct parcel {
    int fds[CAY_EGRESS_FDS_MAX];
    size_t count;
};

static void drop(struct parcel *parcel)
{
    for (size_t i = 0; i < parcel->count; i++)
        cay_cleanup_close(&parcel->fds[i]);
    parcel->count = 0;
}

static bool start(struct egress *egress, const struct cay_egress_frame *frame,
                  struct parcel *parcel)
{
    int parts[CAY_EGRESS_PARTS];
    size_t at = CAY_EGRESS_START_FDS;
    size_t wanted = CAY_EGRESS_START_FDS + (size_t)__builtin_popcount(frame->parts);
    if (egress->is_started || frame->version != CAY_EGRESS_VERSION || parcel->count != wanted)
        return false;
    for (size_t i = 0; i < CAY_EGRESS_PARTS; i++)
        parts[i] = frame->parts & UINT32_C(1) << i ? parcel->fds[at++] : -1;
    parcel->count = 0;
    egress->is_started = true;
    egress->door.fd = parcel->fds[0];
    egress->link_fd = parts[CAY_EGRESS_LINK];
    egress->netns_fd = parts[CAY_EGRESS_NETNS];
    (void)egress_names_init(&egress->names, parcel->fds[1]);
    egress_names_read_totals(&egress->names, &egress->receipts.totals);
    egress->receipts.kept = egress->receipts.totals;
    /* Listening already: from now on the kernel tells whoever comes that it is we who do. */
    (void)listen(egress->door.fd, CAY_EGRESS_DOOR_BACKLOG);
    (void)egress_watch(egress, &egress->door, EPOLLIN);
    for (size_t i = 0; i < CAY_COUNT(egress->inlets); i++)
        egress->inlets[i].fd = parts[i];
    return true;
}

/* They are listened to when there is a policy; until then whoever comes waits. */
static void open_inlets(struct egress *egress)
{
    for (size_t i = 0; i < CAY_COUNT(egress->inlets); i++)
        (void)egress_watch(egress, &egress->inlets[i], EPOLLIN);
}

struct lists {
    struct cay_str items[CAY_EGRESS_SET][CAY_POLICY_RULES_MAX];
    size_t counts[CAY_EGRESS_SET];
};

static struct cay_policy *read_policy(struct cay_str text, bool asks)
{
    /* The daemon has looked at them: which guarded ranges may be named is decided there. */
    static const struct cay_subnet all[] = {{.first = {.family = 2}}, {.first = {.family = 10}}};
    cay_autofree struct lists *lists = cay_new(struct lists);
    struct cay_policy *policy = NULL;
    struct cay_error ignored = {};
    enum cay_egress_rule kind;
    struct cay_str rule;
    while (cay_egress_rule_next(&text, &kind, &rule)) {
        size_t *count = &lists->counts[kind - 1];
        if (*count == CAY_POLICY_RULES_MAX)
            return NULL;
        lists->items[kind - 1][(*count)++] = rule;
    }
    const struct cay_policy_source source = {
        .allow = lists->items[CAY_EGRESS_ALLOW - 1],
        .allow_count = lists->counts[CAY_EGRESS_ALLOW - 1],
        .deny = lists->items[CAY_EGRESS_DENY - 1],
        .deny_count = lists->counts[CAY_EGRESS_DENY - 1],
        .sets = lists->items[CAY_EGRESS_SET - 1],
        .set_count = lists->counts[CAY_EGRESS_SET - 1],
        .opened = all,
        .opened_count = CAY_COUNT(all),
        .asks = asks,
    };
    return !text.len && cay_policy_create(&source, &policy, &ignored) ? policy : NULL;
}

/* A policy that cannot be read is none: nothing is allowed. */
static void apply(struct egress *egress, const struct cay_egress_frame *frame, int fd)
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, CAY_EGRESS_POLICY_BYTES_MAX);
    ssize_t len = 1;
    while (len > 0 && !text.failed) {
        len = pread(fd, egress->scratch, EGRESS_PIECE_BYTES, (off_t)text.len);
        if (len > 0)
            cay_buf_append(&text, egress->scratch, (size_t)len);
    }
    cay_policy_destroy(cay_take_ptr(egress->policy));
    if (len == 0 && !text.failed)
        egress->policy = read_policy(cay_buf_str(&text), frame->asks_ms > 0);
    egress_asks_judge(egress, frame->asks_ms);
    const struct cay_egress_frame answer = {
        .kind = CAY_EGRESS_APPLIED, .serial = frame->serial, .count = egress_cut(egress)};
    open_inlets(egress);
    (void)egress_send(egress, &answer, NULL, 0);
}

static void answer_ping(struct egress *egress, uint64_t serial)
{
    const struct cay_egress_frame pong = {.kind = CAY_EGRESS_PONG, .serial = serial};
    egress_flush(egress);
    (void)egress_send(egress, &pong, NULL, 0);
}

static void obey(struct egress *egress, const struct cay_egress_frame *frame, struct parcel *parcel)
{
    bool has_file = parcel->count == 1 && egress->is_started;
    if (frame->kind == CAY_EGRESS_START)
        egress->is_over = !start(egress, frame, parcel);
    else if (frame->kind == CAY_EGRESS_POLICY && has_file)
        apply(egress, frame, parcel->fds[0]);
    else if (frame->kind == CAY_EGRESS_SECRETS && has_file)
        egress_secrets_apply(egress, parcel->fds[0]);
    else if (frame->kind == CAY_EGRESS_LEAF && has_file)
        egress_leaf_apply(egress, frame->name, parcel->fds[0]);
    else if (frame->kind == CAY_EGRESS_ANSWER)
        egress_asks_answer(egress, frame->ask.id, frame->is_allowed);
    else if (frame->kind == CAY_EGRESS_QUIT)
        egress->is_over = true;
    else if (frame->kind == CAY_EGRESS_PING)
        answer_ping(egress, frame->serial);
}

static void take_rights(struct msghdr *message, struct parcel *parcel)
{
    const struct cmsghdr *rights = CMSG_FIRSTHDR(message);
    if (!rights || rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS)
        return;
    parcel->count = CAY_MIN((rights->cmsg_len - CMSG_LEN(0)) / sizeof(int), CAY_COUNT(parcel->fds));
    memcpy(parcel->fds, CMSG_DATA(rights), parcel->count * sizeof(int));
}

void egress_on_control(struct egress_watch *watch, uint32_t)
{
    struct egress *egress = watch->egress;
    uint8_t bytes[CAY_EGRESS_FRAME_BYTES_MAX];
    union rights rights = {};
    struct cay_egress_frame frame = {};
    struct parcel parcel = {};
    struct iovec part = {bytes, sizeof(bytes)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &rights,
                             .msg_controllen = sizeof(rights)};
    ssize_t len = recvmsg(watch->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    take_rights(&message, &parcel);
    if (len <= 0) { /* it will come back, if it ever told what there is to do */
        egress_unwatch(egress, watch);
        egress->is_over = !egress->is_started;
    } else if (!(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) &&
               cay_egress_decode(bytes, (size_t)len, false, &frame)) {
        obey(egress, &frame, &parcel);
    }
    drop(&parcel);
}

static void say_hello(struct egress *egress)
{
    struct cay_egress_frame frame = {
        .kind = CAY_EGRESS_HELLO, .version = CAY_EGRESS_VERSION, .intercepts = egress_intercepts()};
    int fds[CAY_EGRESS_PARTS];
    size_t count = 0;
    for (size_t i = 0; i < CAY_EGRESS_PARTS; i++) {
        int fd = i < CAY_COUNT(egress->inlets) ? egress->inlets[i].fd
                 : i == CAY_EGRESS_LINK        ? egress->link_fd
                                               : egress->netns_fd;
        if (fd < 0)
            continue;
        frame.parts |= UINT32_C(1) << i;
        fds[count++] = fd;
    }
    (void)egress_send(egress, &frame, fds, count);
}

void egress_on_door(struct egress_watch *watch, uint32_t)
{
    struct egress *egress = watch->egress;
    int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    egress_unwatch(egress, &egress->control);
    egress->control.fd = fd;
    (void)egress_watch(egress, &egress->control, EPOLLIN);
    egress->receipts.told = (struct cay_egress_totals){};
    egress_asks_repeat(egress);
    say_hello(egress);
}
