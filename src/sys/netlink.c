/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/netlink.h"

#include <errno.h>
#include <stdalign.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_BYTES = 32 * 1024 }; /* the most in one datagram: net/netlink/af_netlink.c */

int cay_netlink_open(int protocol, uint32_t group)
{
    cay_autoclose int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
    if (fd < 0)
        return -errno;
    struct sockaddr_nl address = {.nl_family = AF_NETLINK};
    if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return -errno;
    if (group && setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)) < 0)
        return -errno;
    return cay_take_fd(fd);
}

void cay_netlink_put_raw(struct cay_netlink *message, const void *data, size_t len)
{
    size_t at = NLMSG_ALIGN(message->data.header.nlmsg_len);
    message->is_full = message->is_full || len > CAY_NETLINK_BYTES - at;
    if (message->is_full)
        return;
    memcpy(message->data.bytes + at, data, len);
    message->data.header.nlmsg_len = (uint32_t)(at + len);
}

void cay_netlink_begin(struct cay_netlink *message, uint16_t type, uint16_t flags,
                       const void *header, size_t size)
{
    memset(message, 0, sizeof(*message));
    message->data.header = (struct nlmsghdr){.nlmsg_len = NLMSG_LENGTH(0),
                                             .nlmsg_type = type,
                                             .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags),
                                             .nlmsg_seq = 1};
    cay_netlink_put_raw(message, header, size);
}

void cay_netlink_put(struct cay_netlink *message, uint16_t type, const void *data, size_t len)
{
    struct nlattr attribute = {.nla_len = (uint16_t)(NLA_HDRLEN + len), .nla_type = type};
    if (len > CAY_NETLINK_BYTES)
        message->is_full = true;
    cay_netlink_put_raw(message, &attribute, sizeof(attribute));
    if (len)
        cay_netlink_put_raw(message, data, len);
}

void cay_netlink_put_u32(struct cay_netlink *message, uint16_t type, uint32_t value)
{
    cay_netlink_put(message, type, &value, sizeof(value));
}

void cay_netlink_put_text(struct cay_netlink *message, uint16_t type, const char *text)
{
    cay_netlink_put(message, type, text, strlen(text) + 1);
}

size_t cay_netlink_nest(struct cay_netlink *message, uint16_t type)
{
    size_t at = NLMSG_ALIGN(message->data.header.nlmsg_len);
    cay_netlink_put(message, type, NULL, 0);
    return at;
}

void cay_netlink_nest_end(struct cay_netlink *message, size_t nest)
{
    if (message->is_full)
        return;
    uint16_t len = (uint16_t)(message->data.header.nlmsg_len - nest);
    memcpy(message->data.bytes + nest + offsetof(struct nlattr, nla_len), &len, sizeof(len));
}

static int send_message(int fd, const struct cay_netlink *message)
{
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    if (message->is_full)
        return -EMSGSIZE;
    ssize_t sent = sendto(fd, message->data.bytes, message->data.header.nlmsg_len, 0,
                          (const struct sockaddr *)&kernel, sizeof(kernel));
    return sent < 0 ? -errno : 0;
}

/* One of several answers: 1 when more are to come. */
static int take_answer(const struct nlmsghdr *answer, cay_netlink_fn *visit, void *context,
                       bool is_dump)
{
    if (answer->nlmsg_type == NLMSG_DONE)
        return 0;
    if (answer->nlmsg_type == NLMSG_ERROR) {
        int error = 0;
        if (answer->nlmsg_len >= NLMSG_LENGTH(sizeof(struct nlmsgerr)))
            memcpy(&error, NLMSG_DATA(answer), sizeof(error));
        return error;
    }
    bool goes_on = !visit || visit(context, answer);
    return goes_on && is_dump;
}

int cay_netlink_ask(int fd, struct cay_netlink *message, cay_netlink_fn *visit, void *context)
{
    bool is_dump = (message->data.header.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
    alignas(struct nlmsghdr) char answers[ANSWER_BYTES];
    int status = send_message(fd, message);
    if (status < 0)
        return status;
    for (;;) {
        ssize_t len = recv(fd, answers, sizeof(answers), 0);
        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0)
            return -errno;
        size_t left = (size_t)len;
        const struct nlmsghdr *answer = (const void *)answers;
        for (; left >= sizeof(*answer) && answer->nlmsg_len >= sizeof(*answer) &&
               answer->nlmsg_len <= left;) {
            status = take_answer(answer, visit, context, is_dump);
            if (status <= 0)
                return status;
            size_t step = CAY_MIN(left, NLMSG_ALIGN(answer->nlmsg_len));
            left -= step;
            answer = (const void *)((const char *)answer + step);
        }
    }
}

int cay_netlink_do(int fd, struct cay_netlink *message)
{
    message->data.header.nlmsg_flags |= NLM_F_ACK;
    return cay_netlink_ask(fd, message, NULL, NULL);
}

const void *cay_netlink_find(const struct nlmsghdr *answer, size_t header, uint16_t type,
                             size_t len_min, size_t *out_len)
{
    size_t at = NLMSG_LENGTH(0) + NLMSG_ALIGN(header);
    const char *bytes = (const void *)answer;
    while (at + NLA_HDRLEN <= answer->nlmsg_len) {
        struct nlattr attribute;
        memcpy(&attribute, bytes + at, sizeof(attribute));
        if (attribute.nla_len < NLA_HDRLEN || attribute.nla_len > answer->nlmsg_len - at)
            return NULL;
        size_t len = (size_t)attribute.nla_len - NLA_HDRLEN;
        if ((attribute.nla_type & NLA_TYPE_MASK) == type) {
            if (out_len)
                *out_len = len;
            return len >= len_min ? bytes + at + NLA_HDRLEN : NULL;
        }
        at += NLA_ALIGN(attribute.nla_len);
    }
    return NULL;
}
