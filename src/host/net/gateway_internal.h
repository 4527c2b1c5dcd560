/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Between the parts of the gateway. All of them block and hold its lock. */

#include "host/net/gateway.h"
#include "sys/netdev.h"

/* gateway_rules.c. Reason: NOT_SUPPORTED. */
[[nodiscard]] bool cay_gateway_put_rules(struct cay_gateway *gateway, struct cay_error *err);
[[nodiscard]] bool cay_gateway_drop_rules(struct cay_gateway *gateway, struct cay_error *err);
/* Has `nft` take a text; `what` is what could not be done otherwise. */
[[nodiscard]] bool cay_gateway_apply(const char *text, const char *what, struct cay_error *err);
/* The text for `nft`. */
void cay_gateway_write_rules(const struct cay_gateway *gateway, struct cay_buf *out_text);

/* gateway_neighbours.c: reads them anew. Reason: RUNTIME_FAILED. */
[[nodiscard]] bool cay_gateway_find_neighbours(struct cay_gateway *gateway, bool *out_changed,
                                               struct cay_error *err);
/* Puts them into the rules that are there. */
[[nodiscard]] bool cay_gateway_put_neighbours(struct cay_gateway *gateway, struct cay_error *err);
/* Elements of a set, "a, b", of one family; empty when there is none. */
void cay_gateway_write_neighbours(const struct cay_gateway *gateway, int family,
                                  struct cay_buf *out);

/* gateway_link.c: device, addresses, neighbours and routes of one sandbox. */
[[nodiscard]] bool cay_gateway_put_link(const struct cay_gateway *gateway, int netns_fd,
                                        uint32_t slot, bool has_six, struct cay_error *err);
void cay_gateway_link_name(const struct cay_gateway *gateway, uint32_t slot,
                           char out_name[CAY_NETDEV_NAME_SIZE]);

/* forwarding.c: makes the host pass packets on. Reason: NOT_SUPPORTED. *out_six: IPv6 too. */
[[nodiscard]] bool cay_gateway_set_forwarding(struct cay_gateway_notes *out_notes,
                                              struct cay_error *err);
