/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cay-egress, the process at which everything ends that a sandbox with a filtered network connects
 * to (src/egress): how it is started, found again by the next daemon, and spoken to
 * (wire/egress). It outlives the daemon. Nothing here waits for it.
 */

#include "base/error.h"
#include "host/net/filter/filter.h"
#include "wire/egress/egress.h"

struct cay_helper {
    int control_fd; /* -1: none */
    int pidfd;      /* -1: not known before it has said hello */
};

#define CAY_HELPER_NONE ((struct cay_helper){-1, -1})

struct cay_helper_options {
    int image_fd;           /* the program */
    int dir_fd;             /* where its door is, */
    uint32_t slot;          /* by this number */
    int netns_fd;           /* where it dials from */
    int names_fd;           /* the file of names */
    uint32_t uid;           /* somebody's who is nobody else */
    const char *trust_path; /* who vouches for servers, in PEM: for the image that asks */
    const struct cay_filter *filter;
};

/* Starts one, and tells it all but the rules. Reason: UNAVAILABLE. */
[[nodiscard]] bool cay_helper_start(const struct cay_helper_options *options,
                                    struct cay_helper *out_helper, struct cay_error *err);
/* One that another daemon has started: HELLO follows. -errno when there is none. */
[[nodiscard]] int cay_helper_find(int dir_fd, uint32_t slot, struct cay_helper *out_helper);
/* It ends, as soon as it hears it. The descriptors stay. */
void cay_helper_quit(const struct cay_helper *helper);
/* Whether it has ended or not, it is no more. */
void cay_helper_kill(struct cay_helper *helper);
/* It goes on without us. */
void cay_helper_leave(struct cay_helper *helper);

/* Rules as cay_egress_rule_put writes them; asks_ms as POLICY has it. 0 or -errno. */
[[nodiscard]] int cay_helper_set_policy(const struct cay_helper *helper, uint64_t serial,
                                        uint32_t asks_ms, struct cay_str rules);
/* To an ASK. */
[[nodiscard]] int cay_helper_answer(const struct cay_helper *helper, uint32_t id, bool is_allowed);

/* The same of secrets, as cay_egress_secret_put writes them; the caller wipes its copy. */
[[nodiscard]] int cay_helper_set_secrets(const struct cay_helper *helper, struct cay_str secrets);
/* What LEAF_WANTED asks for: cay_authority_leaf. */
[[nodiscard]] int cay_helper_give_leaf(const struct cay_helper *helper, struct cay_str name,
                                       struct cay_str pem);

/* PONG follows, if it is at work. What it has no room for is lost. */
void cay_helper_ping(const struct cay_helper *helper, uint64_t serial);

struct cay_helper_news {
    struct cay_egress_frame frame;
    uint8_t bytes[CAY_EGRESS_FRAME_BYTES_MAX]; /* its texts are here */
    struct cay_filter filter;                  /* of HELLO, the caller's now */
    int netns_fd;                              /* the same */
};

/* 1, 0 when there is nothing, -errno when it is gone or talks nonsense. */
[[nodiscard]] int cay_helper_receive(struct cay_helper *helper, struct cay_helper_news *out_news);

/* Doors that are there. `visit` returns false to stop. */
typedef bool cay_helper_fn(void *context, uint32_t slot);
void cay_helper_list(int dir_fd, cay_helper_fn *visit, void *context);
void cay_helper_remove_door(int dir_fd, uint32_t slot);
