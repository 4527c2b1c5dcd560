/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Between the parts of this room. */

#include "base/arena.h"
#include "egress/rules/guarded.h"
#include "egress/rules/rules.h"

enum rule_kind { RULE_NAME = 1, RULE_BELOW, RULE_EVERY_NAME, RULE_RANGE, RULE_SET };

struct ports {
    uint16_t first;
    uint16_t last;
};

struct rule {
    enum rule_kind kind;
    struct cay_str text;   /* as written in the list */
    struct cay_str member; /* as written in the set that `text` names */
    struct cay_str name;   /* of a set: without its '@' */
    struct cay_subnet range;
    enum cay_guard guard; /* of the range */
    struct ports ports[CAY_RULE_PORTS_MAX];
    size_t port_count; /* 0: all */
    /* Of requests: then it has one port, and says nothing of whole connections. */
    struct cay_str method; /* "*": every one; empty: it is no rule of requests */
    struct cay_str path;   /* with '*' for any text */
};

struct rules {
    struct rule *items;
    size_t count;
};

struct cay_policy {
    struct rules allow;
    struct rules deny;
    bool asks;
    struct cay_arena texts;
};

enum { RULE_WHY_SIZE = 200, RULE_REQUEST_PORT = 443 };

/* What is wrong with it, in out_why, or true. Its name is written to `name`. */
[[nodiscard]] bool rule_parse(struct cay_str text, struct rule *out,
                              char name[static CAY_NAME_SIZE], char out_why[static RULE_WHY_SIZE]);
/* request.c: "GET https://name/path". */
[[nodiscard]] bool rule_is_request(struct cay_str text);
[[nodiscard]] bool rule_parse_request(struct cay_str text, struct rule *out,
                                      char name[static CAY_NAME_SIZE],
                                      char out_why[static RULE_WHY_SIZE]);
/* Does it match in every way that a server may read the path? `is_any`: in one of them? */
[[nodiscard]] bool rule_covers_request(const struct rule *rule, struct cay_str method,
                                       struct cay_str path, bool is_any);
/* Spelt in one way. */
void rule_print(const struct rule *rule, struct cay_buf *out);

/* sets.c: "NAME=RULE" taken apart. */
[[nodiscard]] bool set_line_split(struct cay_str line, struct cay_str *out_name,
                                  struct cay_str *out_rule);
[[nodiscard]] bool set_name_is_good(struct cay_str name);
/* The members of a set that is built in, ended by NULL; NULL when there is none. */
[[nodiscard]] const char *const *set_builtin(struct cay_str name);
/* "@debian, @github …" */
void set_names(struct cay_buf *out);
