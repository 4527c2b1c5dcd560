/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Netlink, as far as it is needed: one request, its answer. A message is built in place and says at
 * the end whether it fitted. 0 or -errno. Nothing here waits for anybody but the kernel.
 */

#include <linux/netlink.h>

#include "base/base.h"

enum { CAY_NETLINK_BYTES = 1024 };

struct cay_netlink {
    union {
        struct nlmsghdr header;
        uint8_t bytes[CAY_NETLINK_BYTES];
    } data;
    bool is_full;
};

/* A socket of the calling thread's network namespace. `groups` is for news; 0: none. */
[[nodiscard]] int cay_netlink_open(int protocol, uint32_t group);

/* Begins a message with the header of its family. */
void cay_netlink_begin(struct cay_netlink *message, uint16_t type, uint16_t flags,
                       const void *header, size_t size);
void cay_netlink_put(struct cay_netlink *message, uint16_t type, const void *data, size_t len);
void cay_netlink_put_u32(struct cay_netlink *message, uint16_t type, uint32_t value);
void cay_netlink_put_text(struct cay_netlink *message, uint16_t type, const char *text);
/* What is put until the end is inside. */
[[nodiscard]] size_t cay_netlink_nest(struct cay_netlink *message, uint16_t type);
void cay_netlink_nest_end(struct cay_netlink *message, size_t nest);
/* Bytes without a header of their own. */
void cay_netlink_put_raw(struct cay_netlink *message, const void *data, size_t len);

/* Sends it and waits for the verdict. */
[[nodiscard]] int cay_netlink_do(int fd, struct cay_netlink *message);

/* Sends it; every answer is shown, until `visit` returns false. */
typedef bool cay_netlink_fn(void *context, const struct nlmsghdr *answer);
[[nodiscard]] int cay_netlink_ask(int fd, struct cay_netlink *message, cay_netlink_fn *visit,
                                  void *context);

/* Of an answer whose family's header has `header` bytes: the attribute, or NULL when it is missing
 * or shorter than `len_min`. */
[[nodiscard]] const void *cay_netlink_find(const struct nlmsghdr *answer, size_t header,
                                           uint16_t type, size_t len_min, size_t *out_len);
