/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "egress/egress.h"
#include "egress/pool.h"
#include "wire/dns.h"

/*
 * Questions of programs inside. Nothing of them goes anywhere: a name that some rule allows gets an
 * address of the pool, whether it exists or not, and every other does not exist. Whether it does is
 * found out when somebody connects: a question could carry data to whom it is passed on.
 */

enum {
    TYPE_A = 1,
    TYPE_AAAA = 28,
    CODE_NO_NAME = 3,
    FLAG_RECURSION_AVAILABLE = 0x80,
    TTL_S = 60,
    POINTER_TO_QUESTION = 0xC000 | CAY_DNS_HEADER_BYTES,
    DATAGRAMS_PER_TURN = 64,
};

struct question {
    char name[CAY_NAME_SIZE];
    size_t end; /* behind it, in the message */
    unsigned type;
    bool is_good; /* the name */
};

/* The message was checked: its one question is whole. */
static struct question read_question(const uint8_t *bytes)
{
    struct question question = {};
    char text[CAY_NAME_SIZE];
    size_t len = 0;
    size_t at = CAY_DNS_HEADER_BYTES;
    bool has_odd = false;
    while (bytes[at]) {
        size_t label = bytes[at++];
        for (size_t i = 0; i < label; i++) {
            has_odd = has_odd || bytes[at + i] == '.' || len + 1 >= sizeof(text);
            if (len + 1 < sizeof(text))
                text[len++] = (char)bytes[at + i];
        }
        at += label;
        if (len + 1 < sizeof(text))
            text[len++] = '.';
    }
    const char *why = NULL;
    question.is_good =
        !has_odd && len && cay_name_normalise((struct cay_str){text, len}, question.name, &why);
    question.type = (unsigned)bytes[at + 1] << 8 | bytes[at + 2];
    question.end = at + 5;
    return question;
}

struct answer {
    uint8_t *bytes;
    size_t len;
};

static void put(struct answer *answer, uint64_t value, size_t bytes)
{
    for (size_t i = bytes; i-- > 0;)
        answer->bytes[answer->len++] = (uint8_t)(value >> 8 * i);
}

static void put_address(struct answer *answer, int family, uint32_t slot)
{
    struct cay_ip address;
    size_t size = family == AF_INET ? 4 : 16;
    egress_pool_address(family, slot, &address);
    put(answer, POINTER_TO_QUESTION, 2);
    put(answer, family == AF_INET ? TYPE_A : TYPE_AAAA, 2);
    put(answer, 1, 2);
    put(answer, TTL_S, 4);
    put(answer, size, 2);
    memcpy(answer->bytes + answer->len, address.bytes, size);
    answer->len += size;
    answer->bytes[7] = 1; /* one answer */
}

static void note_refusal(struct egress *egress, const struct question *question)
{
    struct cay_decision decision = {};
    if (egress->policy && question->is_good)
        cay_policy_decide_name(egress->policy, cay_str(question->name), 0, &decision);
    const struct cay_egress_receipt receipt = {
        .verdict = CAY_EGRESS_REFUSED,
        .why = decision.is_deny_rule ? CAY_EGRESS_BY_RULE : CAY_EGRESS_NO_RULE,
        .rule = decision.is_deny_rule ? decision.rule : (struct cay_str){},
        .is_question = true,
        .count = 1,
        .name = question->is_good ? cay_str(question->name) : (struct cay_str){},
    };
    egress_note(egress, &receipt);
}

size_t egress_answer(struct egress *egress, const uint8_t *bytes, size_t len,
                     uint8_t out[static EGRESS_ANSWER_BYTES_MAX])
{
    if (!cay_dns_is_question(bytes, len))
        return 0;
    enum cay_dns_code code = cay_dns_check(bytes, len);
    cay_dns_refuse(bytes, code, out);
    if (code != CAY_DNS_GOOD)
        return CAY_DNS_HEADER_BYTES;
    const struct question question = read_question(bytes);
    struct answer answer = {.bytes = out, .len = CAY_DNS_HEADER_BYTES};
    memcpy(out + answer.len, bytes + answer.len, question.end - answer.len);
    answer.len = question.end;
    out[3] |= FLAG_RECURSION_AVAILABLE;
    out[5] = 1;
    if (!question.is_good || !egress->policy ||
        !cay_policy_may_resolve(egress->policy, cay_str(question.name))) {
        out[3] |= CODE_NO_NAME;
        note_refusal(egress, &question);
        return answer.len;
    }
    if (question.type != TYPE_A && question.type != TYPE_AAAA)
        return answer.len; /* it has none of those */
    int slot = egress_names_give(&egress->names, question.name, (uint32_t)(egress->now_ms / 1000));
    if (slot < 0)
        out[3] |= CAY_DNS_FAILED;
    else if (question.type == TYPE_A)
        put_address(&answer, AF_INET, (uint32_t)slot);
    else if (egress->inlets[CAY_EGRESS_TCP6].fd >= 0)
        put_address(&answer, AF_INET6, (uint32_t)slot);
    return answer.len;
}

/* The answer comes from the address that was asked. */
static void reply(int fd, struct msghdr *message, const uint8_t *bytes, size_t len)
{
    struct cmsghdr *info = CMSG_FIRSTHDR(message);
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
    if (!info)
        return;
    if (info->cmsg_level == IPPROTO_IP && info->cmsg_type == IP_PKTINFO) {
        struct in_pktinfo *four = (struct in_pktinfo *)(void *)CMSG_DATA(info);
        four->ipi_spec_dst = four->ipi_addr;
        four->ipi_ifindex = 0;
    } else if (info->cmsg_level == IPPROTO_IPV6 && info->cmsg_type == IPV6_PKTINFO) {
        ((struct in6_pktinfo *)(void *)CMSG_DATA(info))->ipi6_ifindex = 0;
    } else {
        return;
    }
    message->msg_iov = &part;
    message->msg_iovlen = 1;
    message->msg_flags = 0;
    (void)sendmsg(fd, message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static bool take_one(struct egress *egress, int fd)
{
    uint8_t question[EGRESS_ANSWER_BYTES_MAX - 64];
    uint8_t answer[EGRESS_ANSWER_BYTES_MAX];
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
    } control = {};
    struct sockaddr_storage peer = {};
    struct iovec part = {question, sizeof(question)};
    struct msghdr message = {.msg_name = &peer,
                             .msg_namelen = sizeof(peer),
                             .msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    ssize_t len = recvmsg(fd, &message, MSG_DONTWAIT);
    if (len < 0)
        return errno != EAGAIN && errno != EINTR;
    if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
        return true;
    size_t answer_len = egress_answer(egress, question, (size_t)len, answer);
    if (answer_len)
        reply(fd, &message, answer, answer_len);
    return true;
}

void egress_on_questions(struct egress_watch *watch, uint32_t)
{
    for (int i = 0; i < DATAGRAMS_PER_TURN && take_one(watch->egress, watch->fd); i++)
        ;
}
