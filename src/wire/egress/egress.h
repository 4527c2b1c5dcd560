/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the daemon and cay-egress, the helper of a filtered network, say to each other: datagrams
 * that keep their order (SOCK_SEQPACKET), one frame each. Descriptors travel beside a frame.
 *
 * To the helper: START once, with its listener for daemons to come, the file of names, and then
 * what HELLO brings back; POLICY with a file of rules, as often as they change; SECRETS with a file
 * of them (secrets.h), the same; LEAF with a file that has a certificate for a name, in PEM, and
 * its key; ANSWER to a question; QUIT; PING, to hear whether it is still at work. From the helper:
 * HELLO to a daemon that connects, with all that the next helper needs; APPLIED when a policy is in
 * force; RECEIPT, and TOTALS of all that happened, those before it included; LEAF_WANTED, again
 * when nothing comes; USED, the placeholder whose value was put into a request; ASK, whether
 * somebody may be connected to, as often as it changes; PONG, when all that it had to tell is told.
 */

#include "base/buf.h"

enum {
    CAY_EGRESS_VERSION = 6,
    CAY_EGRESS_FRAME_BYTES_MAX = 1024,
    CAY_EGRESS_DOOR_BACKLOG = 4,
    CAY_EGRESS_NAME_BYTES_MAX = 253,
    CAY_EGRESS_RULE_BYTES_MAX = 400,
    CAY_EGRESS_METHOD_BYTES_MAX = 16,
    CAY_EGRESS_PATH_BYTES_MAX = 256, /* a longer one is cut */
    CAY_EGRESS_POLICY_BYTES_MAX = 2 << 20,
    CAY_EGRESS_LEAF_BYTES_MAX = 16 * 1024,
    CAY_EGRESS_ASKS_MAX = 32, /* questions of a helper at once */
    /* A file of names: totals, at the beginning of the first slot, and then slot n is the name at
     * address n + CAY_EGRESS_NAMES_FIRST of the pool, one byte of length before it. */
    CAY_EGRESS_NAMES_MAX = 8192,
    CAY_EGRESS_NAMES_FIRST = 256,
    CAY_EGRESS_NAME_SLOT_BYTES = 256,
    CAY_EGRESS_NAMES_AT = CAY_EGRESS_NAME_SLOT_BYTES, /* of slot 0 */
    CAY_EGRESS_NAMES_BYTES_MAX =
        CAY_EGRESS_NAMES_AT + CAY_EGRESS_NAMES_MAX * CAY_EGRESS_NAME_SLOT_BYTES,
    CAY_EGRESS_TOTALS_BYTES = 56,
};

enum cay_egress_kind {
    CAY_EGRESS_START = 1,
    CAY_EGRESS_POLICY,
    CAY_EGRESS_QUIT,
    CAY_EGRESS_PING,
    CAY_EGRESS_SECRETS,
    CAY_EGRESS_LEAF,
    CAY_EGRESS_ANSWER,
    CAY_EGRESS_HELLO = 16, /* from here on they come from the helper */
    CAY_EGRESS_APPLIED,
    CAY_EGRESS_RECEIPT,
    CAY_EGRESS_TOTALS,
    CAY_EGRESS_PONG,
    CAY_EGRESS_LEAF_WANTED,
    CAY_EGRESS_USED,
    CAY_EGRESS_ASK,
};

/* Descriptors of HELLO, in this order; a bit each says which are there. START has the listener and
 * the file of names before them. */
enum cay_egress_part {
    CAY_EGRESS_TCP4,
    CAY_EGRESS_TCP6,
    CAY_EGRESS_DNS4,
    CAY_EGRESS_DNS6,
    CAY_EGRESS_LINK,
    CAY_EGRESS_NETNS, /* where it dials from */
    CAY_EGRESS_PARTS,
};

enum { CAY_EGRESS_START_FDS = 2, CAY_EGRESS_FDS_MAX = CAY_EGRESS_START_FDS + CAY_EGRESS_PARTS };

enum cay_egress_verdict { CAY_EGRESS_REFUSED = 1, CAY_EGRESS_ALLOWED, CAY_EGRESS_FAILED };

/* Why a connection was refused, or ended before it was one. */
enum cay_egress_why {
    CAY_EGRESS_BY_RULE = 1,
    CAY_EGRESS_NO_RULE,
    CAY_EGRESS_NOT_GIVEN, /* an address that is no name's */
    CAY_EGRESS_NOT_FOUND, /* nobody knows an address of the name */
    CAY_EGRESS_GUARDED,   /* it has none but guarded ones */
    CAY_EGRESS_WRONG_SNI,
    CAY_EGRESS_WRONG_HOST,
    CAY_EGRESS_HIDDEN, /* the name in the hello is encrypted */
    CAY_EGRESS_MALFORMED,
    CAY_EGRESS_UNREACHABLE,
    CAY_EGRESS_TOO_MANY,
    CAY_EGRESS_CUT,        /* it was open when the rules changed */
    CAY_EGRESS_OTHER_PORT, /* a rule allows it on others */
    CAY_EGRESS_LEFT,       /* by who connected, before anybody was reached */
    CAY_EGRESS_UNANSWERED, /* it was asked about, and nobody answered */
    CAY_EGRESS_REJECTED,   /* somebody did, by no */
    /* Of connections that are looked into: */
    CAY_EGRESS_UNTRUSTED,   /* the server's certificate is not good for the name */
    CAY_EGRESS_PLACEHOLDER, /* a placeholder stands where it may not go */
    CAY_EGRESS_HANDSHAKE,   /* the client does not take our certificate, or speaks no HTTP/1.1 */
    CAY_EGRESS_WHYS,
};

struct cay_egress_receipt {
    enum cay_egress_verdict verdict;
    enum cay_egress_why why; /* 0: it was a good end */
    bool is_question;        /* of DNS; otherwise a connection */
    uint8_t family;          /* of the address upstream: 4, 6, or 0 for none */
    uint8_t address[16];
    uint16_t port;
    uint32_t count;        /* of the same, one after the other */
    uint32_t duration_ms;  /* of several the longest */
    uint32_t began_ago_ms; /* the first of them, when this is sent, */
    uint32_t ended_ago_ms; /* and the last */
    uint64_t sent_bytes;   /* by the sandbox */
    uint64_t received_bytes;
    struct cay_str name; /* empty: it connected to the address itself */
    struct cay_str rule; /* empty: none */
    /* Of a request that was read: then there is one for each, not one for its connection. */
    struct cay_str method; /* empty: it is of no request */
    struct cay_str path;   /* without the query: that is where secrets are */
    uint16_t status;       /* of the answer; 0: there was none */
};

/* What is true however many receipts there were. */
struct cay_egress_totals {
    uint64_t allowed; /* connections */
    uint64_t refused;
    uint64_t failed;
    uint64_t questions; /* of DNS that were refused */
    uint64_t sent_bytes;
    uint64_t received_bytes;
    uint64_t lost; /* that have no receipt: there were too many at once */
};

/* May it be connected to? Who does waits for the answer. */
struct cay_egress_ask {
    uint32_t id;      /* never 0; of ANSWER, the same */
    uint32_t left_ms; /* then it is refused. 0: it is no question any more */
    uint32_t count;   /* connections that wait */
    uint16_t port;
    struct cay_str name;
};

struct cay_egress_frame {
    enum cay_egress_kind kind;
    uint32_t version;    /* of START and HELLO */
    uint32_t parts;      /* the same: bits of cay_egress_part */
    uint64_t serial;     /* of POLICY and APPLIED, of PING and PONG */
    uint64_t count;      /* APPLIED: connections that were cut */
    uint32_t asks_ms;    /* of POLICY: how long there is for an answer; 0: nobody is asked */
    bool intercepts;     /* of HELLO: it is the image that can */
    bool is_allowed;     /* of ANSWER */
    struct cay_str name; /* of LEAF and LEAF_WANTED, a placeholder of USED */
    struct cay_egress_ask ask;
    struct cay_egress_receipt receipt;
    struct cay_egress_totals totals;
};

/* How many bytes it took; 0 when a text is too long. */
[[nodiscard]] size_t cay_egress_encode(const struct cay_egress_frame *frame,
                                       uint8_t out[static CAY_EGRESS_FRAME_BYTES_MAX]);
/* Texts are borrowed from the bytes. False for what is no frame of that direction. */
[[nodiscard]] bool cay_egress_decode(const uint8_t *bytes, size_t len, bool is_from_helper,
                                     struct cay_egress_frame *out_frame);

/* Adds what a receipt tells, but its bytes. */
void cay_egress_totals_count(struct cay_egress_totals *totals,
                             const struct cay_egress_receipt *receipt);
void cay_egress_totals_add(struct cay_egress_totals *totals, const struct cay_egress_totals *more);
/* False, and nothing done, when there is less of something. */
[[nodiscard]] bool cay_egress_totals_subtract(struct cay_egress_totals *totals,
                                              const struct cay_egress_totals *less);
/* As they are in a file of names. */
void cay_egress_totals_write(const struct cay_egress_totals *totals,
                             uint8_t out[static CAY_EGRESS_TOTALS_BYTES]);
void cay_egress_totals_read(const uint8_t bytes[static CAY_EGRESS_TOTALS_BYTES],
                            struct cay_egress_totals *out_totals);

enum cay_egress_rule { CAY_EGRESS_ALLOW = 1, CAY_EGRESS_DENY, CAY_EGRESS_SET };

/* The file that comes with POLICY is a list of these. */
void cay_egress_rule_put(struct cay_buf *out, enum cay_egress_rule kind, struct cay_str text);
/* Cuts the next from *rest; false at the end, and when there is no whole one: then *rest is not
 * empty. */
[[nodiscard]] bool cay_egress_rule_next(struct cay_str *rest, enum cay_egress_rule *out_kind,
                                        struct cay_str *out_text);
