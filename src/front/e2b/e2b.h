/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What E2B's doors share. Clients made for E2B drive the hallway through three: a control plane
 * (JSON over REST), the services that they expect inside a sandbox ("envd", port 49983), and the
 * ports of programs in sandboxes.
 */

#include "base/list.h"
#include "front/http/door.h"
#include "wire/e2b/target.h"

struct cay_e2b_cutter;

struct cay_e2b {
    struct cay_porch *porch;
    unsigned ref_count; /* one for each door */
    struct cay_e2b_cutter *cutter;
    struct cay_list inside;  /* requests that passed the gate of a sandbox */
    struct cay_list pollers; /* watchers that clients ask for news */
    struct cay_list orders;  /* builds of templates that were asked for */
    char *domain;         /* below which sandboxes have host names, a port included; may be empty */
    char *template;       /* base that the template "base" stands for; NULL: one of that name */
    char *default_base;   /* or this, when there is none */
    bool is_network_open; /* of sandboxes whose clients do not close it */
    const char *const *images; /* IMAGE=BASE, as wire/e2b/template.h has it */
    size_t image_count;
    unsigned char secret[32]; /* URLs for uploads are signed with it */
    uint64_t tries_second;    /* signed.c: since when these are counted */
    int64_t tries[64];        /* sandboxes tried in vain, by hash of the peer's address */
};

struct cay_e2b_options {
    bool is_on;
    const char *domain;        /* NULL: none */
    const char *template;      /* NULL: the base "base", or the next */
    const char *default_base;  /* NULL: none */
    const char *const *images; /* borrowed */
    size_t image_count;
    bool is_network_open;
};

/* For each door when it is made, and when it goes: their `self`. NULL: they are shut. */
void *cay_e2b_ref(struct cay_porch *porch);
void cay_e2b_unref(void *self);

/* What of sandboxes, if anything, a request is about. */
[[nodiscard]] struct cay_e2b_target cay_e2b_target_of(const struct cay_e2b *e2b,
                                                      const struct cay_exchange *exchange);
