/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a sandbox with a filtered network may reach: lists of rules as people write them, read once,
 * and then asked for every name and every address. What no rule allows is refused; a rule that
 * denies beats all that allow. Pure functions; a policy never changes, so any thread may ask it.
 *
 * A rule is one of these, each but the last with ports behind it (":443", ":443,8443",
 * ":1000-2000"); without, it is for every port:
 *
 *     pack.example.org      that name
 *     *.github.com          every name below it, not the name itself
 *     *                     every name
 *     10.1.0.0/16           addresses; [2001:db8::]/32, the brackets only where ports follow
 *     @pypi                 the rules of a set
 *     GET https://api.github.com/user
 *                           requests of HTTP: a method, or '*' for all, and a path in which '*' is
 *                           any text; on port 443, or the one behind the name
 *
 * A rule of requests allows, or denies, nothing but those; connections to its names are read then,
 * by whoever can, and every request is judged for itself. A rule of names says nothing of
 * addresses, and a name that is allowed may still not lead to an address that is guarded
 * (guarded.h) or denied.
 *
 * Order: cay_policy_create -> cay_policy_decide_* -> cay_policy_destroy.
 */

#include "base/buf.h"
#include "base/error.h"
#include "base/subnet.h"

enum {
    CAY_POLICY_RULES_MAX = 1000,    /* of one list, as written */
    CAY_POLICY_EXPANDED_MAX = 4096, /* of one list, with what its sets stand for */
    CAY_POLICY_SETS_MAX = 256,      /* lines of sets */
    CAY_RULE_BYTES_MAX = 400,
    CAY_RULE_PORTS_MAX = 16,
    CAY_NAME_SIZE = 254, /* a name in text, and a zero behind it */
};

struct cay_policy;

struct cay_policy_source {
    const struct cay_str *allow;
    size_t allow_count;
    const struct cay_str *deny;
    size_t deny_count;
    /* Sets besides those that are built in, which they may replace: "NAME=RULE", several of one
     * name add up. */
    const struct cay_str *sets;
    size_t set_count;
    /* Guarded ranges that rules may open: what the host's configuration says. With 0.0.0.0/0 and
     * ::/0 here every rule is taken that could ever be. */
    const struct cay_subnet *opened;
    size_t opened_count;
    bool asks; /* somebody is asked about names that no rule decides */
};

/* Reasons: INVALID_ARGUMENT with the rule, what is wrong with it and what to write instead;
 * PERMISSION_DENIED when a rule opens a guarded range that the host does not. */
[[nodiscard]] bool cay_policy_create(const struct cay_policy_source *source,
                                     struct cay_policy **out_policy, struct cay_error *err);
void cay_policy_destroy(struct cay_policy *policy);

/* Is this a list of sets? Reason: INVALID_ARGUMENT. */
[[nodiscard]] bool cay_policy_check_sets(const struct cay_str *sets, size_t set_count,
                                         struct cay_error *err);

/* The rules, spelt in one way ("Example.ORG." is "example.org"), a line each, sets by their
 * members: read again they say the same. */
void cay_policy_print(const struct cay_policy *policy, bool is_deny, struct cay_buf *out);

enum cay_verdict { CAY_VERDICT_REFUSED = 1, CAY_VERDICT_ALLOWED, CAY_VERDICT_ASKED };

enum cay_why {
    CAY_WHY_RULE = 1, /* `rule` says so */
    CAY_WHY_NO_RULE,  /* nothing allows it */
    CAY_WHY_PORT,     /* `rule` allows it on other ports only */
    CAY_WHY_GUARDED,  /* not the internet, and no rule names it; `detail` says what it is */
    CAY_WHY_NAME,     /* not the name of a host; `detail` says what is wrong with it */
    CAY_WHY_UPSTREAM, /* an address of the internet, of a name that is allowed */
    CAY_WHY_REQUEST,  /* `rule` allows other requests to it */
};

/* Texts are the policy's, or constants. */
struct cay_decision {
    enum cay_verdict verdict;
    enum cay_why why;
    struct cay_str rule;   /* as written; empty when there is none */
    struct cay_str member; /* the rule of the set that `rule` is; empty when it is none */
    bool is_deny_rule;
    bool is_partial; /* allowed are some requests only */
    const char *detail;
};

/* A name as somebody asked for it: in any case, with or without a dot at its end. */
void cay_policy_decide_name(const struct cay_policy *policy, struct cay_str name, uint16_t port,
                            struct cay_decision *out);
/* An address that somebody connects to by itself. */
void cay_policy_decide_address(const struct cay_policy *policy, const struct cay_ip *address,
                               uint16_t port, struct cay_decision *out);
/* An address that a name was found to have which is allowed. */
void cay_policy_decide_upstream(const struct cay_policy *policy, const struct cay_ip *address,
                                uint16_t port, struct cay_decision *out);

/* Are there rules of requests to this name and port? Then connections to it are to be read; what
 * is decided of its name is true of some requests only. */
[[nodiscard]] bool cay_policy_reads_requests(const struct cay_policy *policy, struct cay_str name,
                                             uint16_t port);
/* Of a connection that may be. The path is as it was sent, without the query. */
void cay_policy_decide_request(const struct cay_policy *policy, struct cay_str name, uint16_t port,
                               struct cay_str method, struct cay_str path,
                               struct cay_decision *out);
/* Are there any rules of requests? */
[[nodiscard]] bool cay_policy_has_requests(const struct cay_policy *policy);

/* The ranges of addresses that some rule allows on some port: start with a *cursor of 0. False at
 * the end. */
[[nodiscard]] bool cay_policy_next_range(const struct cay_policy *policy, size_t *cursor,
                                         struct cay_subnet *out_range);

/* May some port of it be allowed, or asked about? What is not, is not looked up: questions carry
 * data, too. */
[[nodiscard]] bool cay_policy_may_resolve(const struct cay_policy *policy, struct cay_str name);

/* "no rule allows it"; a clause, for sentences. */
void cay_decision_explain(const struct cay_decision *decision, struct cay_buf *out);

/* Lower case, without a dot at the end. False when no host has such a name; *out_why is what is
 * wrong then. */
[[nodiscard]] bool cay_name_normalise(struct cay_str text, char out_name[static CAY_NAME_SIZE],
                                      const char **out_why);
