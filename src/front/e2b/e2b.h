/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What E2B's doors share. Clients made for E2B drive the hallway through three: a control plane
 * (JSON over REST), the services that they expect inside a sandbox ("envd", port 49983), and the
 * ports of programs in sandboxes.
 */

#include "base/conf.h"
#include "base/list.h"
#include "front/http/door.h"
#include "wire/e2b/target.h"

struct cay_e2b_cutter;

struct cay_e2b {
    struct cay_porch *porch;
    const struct cay_e2b_options *options;
    unsigned ref_count; /* one for each door */
    struct cay_e2b_cutter *cutter;
    struct cay_list inside;   /* requests that passed the gate of a sandbox */
    struct cay_list pollers;  /* watchers that clients ask for news */
    struct cay_list orders;   /* builds of templates that were asked for */
    unsigned char secret[32]; /* URLs for uploads are signed with it */
    uint64_t tries_second;    /* signed.c: since when these are counted */
    int64_t tries[64];        /* sandboxes tried in vain, by hash of the peer's address */
};

/* Places in the list of choices. */
enum { CAY_E2B_NETWORK_DEFAULT, CAY_E2B_NETWORK_NONE, CAY_E2B_NETWORK_OPEN };

/* What an administrator sets; the table of the configuration fills it. Stays as long as the doors.
 */
struct cay_e2b_options {
    bool is_on;
    const char *domain;   /* below which sandboxes have host names, a port included; NULL: none */
    const char *template; /* base that the template "base" stands for; NULL: one of that name */
    int network;          /* one of CAY_E2B_NETWORK_…; comes to what network_mode says */
    struct cay_conf_list images; /* IMAGE=BASE, as wire/e2b/template.h has it */
    /* These follow from what is set for all sessions. */
    const char *default_base; /* for `template`, when there is none of that name; NULL: none */
    int network_mode; /* enum cay_v1_network_mode where clients do not close it; 0: the host's */
};

/* Empty: there is none. */
static inline struct cay_str cay_e2b_domain(const struct cay_e2b *e2b)
{
    return cay_str(e2b->options->domain ? e2b->options->domain : "");
}

/* What of sandboxes, if anything, a request is about. */
[[nodiscard]] struct cay_e2b_target cay_e2b_target_of(const struct cay_e2b *e2b,
                                                      const struct cay_exchange *exchange);
