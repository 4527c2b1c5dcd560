/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The E2B door: clients made for E2B drive the hallway. It serves a control plane (JSON over REST),
 * the services that those clients expect inside a sandbox ("envd", port 49983), and the ports of
 * programs in sandboxes.
 */

#include "api/service.h"
#include "base/list.h"
#include "front/http/exchange.h"

struct cay_e2b_cutter;

struct cay_e2b_door {
    struct cay_service *service;
    struct cay_bodies *bodies; /* set by the router; NULL: bodies have no budget */
    struct cay_e2b_cutter *cutter;
    struct cay_list inside;  /* requests that passed the gate of a sandbox */
    struct cay_list pollers; /* watchers that clients ask for news */
    struct cay_list orders;  /* builds of templates that were asked for */
    bool is_on;
    bool allow_anonymous;
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

void cay_e2b_door_init(struct cay_e2b_door *door, struct cay_service *service,
                       const struct cay_e2b_options *options, bool allow_anonymous);
void cay_e2b_door_finish(struct cay_e2b_door *door);

/* Takes the exchange if its headers or its host name speak of a sandbox: whatever its path, it is
 * for that. False: not its business. */
[[nodiscard]] bool cay_e2b_door_open_sandbox(struct cay_e2b_door *door,
                                             struct cay_exchange *exchange);
/* Takes the exchange if its path is the control plane's. */
[[nodiscard]] bool cay_e2b_door_open_control(struct cay_e2b_door *door,
                                             struct cay_exchange *exchange);
