/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The host on this machine: what stands behind the hallway in cayd. Owns the database and
 * everything that is recorded there.
 *
 * Order: create -> serve calls -> cut (with the doors) -> drain (after them) -> stop -> destroy.
 */

#include "api/service.h"
#include "host/session/settings.h"
#include "io/loop.h"

/* What is not for an administrator to set, beside what is. */
struct cay_host_options {
    const struct cay_host_settings *settings; /* stays as long as the host */
    const char *init_path;                    /* the cay-init binary */
    const char *egress_path;                  /* the cay-egress binary */
    const char *interpreter_path;             /* code_interpreter.py; NULL: none */
    const char *host_root; /* what the base "host" is made of; NULL: this machine */
    /* Below which the daemon's own HTTP proxy has host names of ports, PORT-SESSION.DOMAIN; NULL or
     * empty: nowhere. */
    const char *port_domain;
    bool is_port_domain_https;
    bool serves_e2b; /* there is a door for its clients */
};

struct cay_host;

[[nodiscard]] bool cay_host_create(struct cay_loop *loop, const struct cay_host_options *options,
                                   struct cay_host **out_host, struct cay_error *err);
/* Gives up what takes long and is for later: before jobs are waited for. Accepts NULL. */
void cay_host_stop(struct cay_host *host);
/* The daemon is about to stop: calls that would never end are told to come back, now and until it
 * has stopped. */
void cay_host_cut(struct cay_host *host);

/* The daemon goes on in another program: sessions stay, whatever the settings say. */
void cay_host_keep_sessions(struct cay_host *host);

/* The doors are drained: builds that still run end now, and `on_quiet` is called when all have,
 * maybe inside. */
void cay_host_drain(struct cay_host *host, void (*on_quiet)(void *context), void *context);
void cay_host_destroy(struct cay_host *host);

struct cay_service *cay_host_service(struct cay_host *host);
