/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The helper of one sandbox whose network is filtered. All that programs inside connect to arrives
 * here; it knows the names, because it made up their addresses, decides by the rules, and dials
 * from a namespace of its own. One thread, one epoll; nothing in it waits for anybody.
 *
 * Order: init -> start, or take START from the daemon -> turn, again and again -> finish.
 */

#include "base/list.h"
#include "egress/names.h"
#include "egress/rules/rules.h"
#include "wire/egress/egress.h"

enum {
    EGRESS_CONNECTIONS_MAX = 1024,
    EGRESS_SOCKET_BYTES = 256 * 1024, /* that the kernel keeps for one, in each direction */
    EGRESS_PIECE_BYTES = 64 * 1024,   /* that we keep, for whoever does not take it */
    EGRESS_HELLO_MS = 3000,           /* how long a client of HTTP may take to begin */
    EGRESS_DIAL_MS = 15'000,          /* finding an address and connecting */
    EGRESS_QUESTION_MS = 10'000,      /* idle, by TCP */
    EGRESS_UPSTREAM_MAX = 16,         /* addresses of a name */
    EGRESS_ASK_AGAIN_MS = 1000,       /* when nobody has answered */
    EGRESS_KNOWN_MAX = 64,            /* names whose addresses are kept for want of a resolver, */
    EGRESS_KNOWN_ADDRESSES = 4,       /* some of them, */
    EGRESS_KNOWN_MS = 60 * 60 * 1000, /* and not longer than this */
    EGRESS_TICK_MS = 250,
    EGRESS_RECEIPTS_MAX = 64,   /* that wait for the daemon; */
    EGRESS_DENIALS_MAX = 48,    /* so many of what was not allowed, */
    EGRESS_DENIALS_AT_ONCE = 4, /* and so many of the same are told without waiting */
    EGRESS_HELD_MAX = 256,      /* connections that wait for answers */
    EGRESS_DNS_PORT = 53,
};

struct egress;

/* Something that epoll tells of. -1: nothing. */
struct egress_watch {
    int fd;
    uint32_t events;
    struct egress *egress;
    void (*ready)(struct egress_watch *watch, uint32_t events);
};

struct egress_receipts {
    struct kept_receipt {
        struct cay_egress_receipt what; /* its texts are below; a count of 0: all was told */
        unsigned told_count;            /* since the last tick, at once */
        uint64_t began_ms, ended_ms;    /* the first and the last that it counts */
        char name[CAY_EGRESS_NAME_BYTES_MAX];
        char rule[CAY_EGRESS_RULE_BYTES_MAX];
        char method[CAY_EGRESS_METHOD_BYTES_MAX];
        char path[CAY_EGRESS_PATH_BYTES_MAX];
    } * items; /* a ring */
    size_t first, count;
    struct cay_egress_totals totals;
    struct cay_egress_totals told; /* of them, to this daemon, */
    struct cay_egress_totals kept; /* and in the file of names */
};

/* What a name had for addresses when it was last asked for. */
struct egress_known {
    char name[CAY_NAME_SIZE];
    uint64_t at_ms;
    struct cay_ip addresses[EGRESS_KNOWN_ADDRESSES];
    size_t count;
};

struct egress_asks {
    struct egress_ask *items; /* CAY_EGRESS_ASKS_MAX of them; NULL: none yet */
    size_t held_count;
    uint32_t limit_ms;
};

struct egress {
    int epoll_fd;
    struct egress_watch control; /* the daemon; may be away */
    struct egress_watch door;    /* where the next daemon comes to */
    struct egress_watch inlets[CAY_EGRESS_LINK];
    int link_fd;
    int netns_fd;
    bool is_started;
    bool is_over;
    struct egress_names names;
    struct cay_policy *policy; /* NULL: nothing is allowed */
    struct cay_list conns;
    struct cay_list dead; /* until the end of the turn */
    size_t conn_count;
    uint64_t now_ms;
    uint64_t ticked_ms;
    struct egress_receipts receipts;
    struct egress_asks asks;
    struct egress_known *known;               /* EGRESS_KNOWN_MAX of them; NULL: none yet */
    struct egress_interception *interception; /* NULL: this image cannot, or has not begun to */
    uint16_t resolver_port;                   /* of 127.0.0.1, where we are; 53 but in tests */
    char *scratch;                            /* EGRESS_PIECE_BYTES, used within one callback */
};

/* 0 or -errno. Takes the descriptor over. */
[[nodiscard]] int egress_init(struct egress *egress, int control_fd);
/* What has happened by now, at most `wait_ms` from now. False when it is over. */
[[nodiscard]] bool egress_turn(struct egress *egress, int wait_ms);
void egress_finish(struct egress *egress);

/* Level-triggered; a watch of no descriptor is taken off. 0 or -errno. */
int egress_watch(struct egress *egress, struct egress_watch *watch, uint32_t events);
/* Takes it off and closes it. */
void egress_unwatch(struct egress *egress, struct egress_watch *watch);

/* control.c */
void egress_on_control(struct egress_watch *watch, uint32_t events);
void egress_on_door(struct egress_watch *watch, uint32_t events);
/* False when the daemon is away, or does not take it now. */
bool egress_send(struct egress *egress, const struct cay_egress_frame *frame, const int *fds,
                 size_t fd_count);

/* receipts.c: call it before the program inside can know: then the daemon, which looks here when
 * a command has ended, knows what it was refused. */
void egress_note(struct egress *egress, const struct cay_egress_receipt *receipt);
/* Sends what waits, as far as the daemon takes it. */
void egress_flush(struct egress *egress);
[[nodiscard]] bool egress_has_news(const struct egress *egress);
void egress_receipts_finish(struct egress_receipts *receipts);

/* questions.c: the answer to a question of DNS; 0 bytes when there is to be none. */
enum { EGRESS_ANSWER_BYTES_MAX = 512 };
[[nodiscard]] size_t egress_answer(struct egress *egress, const uint8_t *question, size_t len,
                                   uint8_t out[static EGRESS_ANSWER_BYTES_MAX]);
void egress_on_questions(struct egress_watch *watch, uint32_t events);

/* asks.c: an answer lets those through that wait for it, or ends them. */
void egress_asks_answer(struct egress *egress, uint32_t id, bool is_allowed);
/* When the policy has changed: what it decides is no question any more. */
void egress_asks_judge(struct egress *egress, uint32_t limit_ms);
/* For another daemon. */
void egress_asks_repeat(struct egress *egress);
void egress_asks_tick(struct egress *egress);
[[nodiscard]] bool egress_asks_wait(const struct egress *egress);
void egress_asks_finish(struct egress_asks *asks);

/* intercept.c, or plain.c in the image that cannot: */
[[nodiscard]] bool egress_intercepts(void);
/* Before the process is confined; `trust_path`: who vouches for servers. 0 or -errno. */
[[nodiscard]] int egress_interception_open(const char *trust_path,
                                           struct egress_interception **out);
void egress_interception_close(struct egress *egress);
void egress_secrets_apply(struct egress *egress, int fd);
void egress_leaf_apply(struct egress *egress, struct cay_str name, int fd);

/* conn.c */
void egress_on_listener(struct egress_watch *watch, uint32_t events);
/* Deadlines. */
void egress_tick(struct egress *egress);
/* Ends what the policy does not allow any more; how many there were. */
[[nodiscard]] size_t egress_cut(struct egress *egress);
void egress_drop_all(struct egress *egress);
void egress_bury(struct egress *egress);
