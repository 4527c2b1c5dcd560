/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a request is about, from its head alone: the control plane, or a port of a sandbox. A
 * connection carries both, so it is asked for every request. Pure functions over borrowed bytes.
 */

#include "base/base.h"
#include "wire/http.h"

enum {
    CAY_E2B_ENVD_PORT = 49983, /* the port at which the sandbox's own services answer */
    CAY_E2B_ID_LEN_MAX = 56,   /* with a port before it, a label of a host name */
};

enum cay_e2b_place {
    CAY_E2B_NOWHERE = 0, /* neither headers nor host name speak of a sandbox */
    CAY_E2B_SANDBOX,
    CAY_E2B_BAD, /* they do, but make no sense; `fault` says why */
};

struct cay_e2b_target {
    enum cay_e2b_place place;
    struct cay_str id; /* borrowed from the headers or the host; well-formed */
    uint16_t port;
    const char *fault;
};

/* Headers win over the host's name: `E2b-Sandbox-Id` with `E2b-Sandbox-Port`, or PORT-ID.DOMAIN. An
 * empty domain: host names say nothing. */
[[nodiscard]] struct cay_e2b_target cay_e2b_target(const struct cay_http_headers *headers,
                                                   struct cay_str host, struct cay_str domain);

/* Lower-case letters and digits, CAY_E2B_ID_LEN_MAX at most. */
[[nodiscard]] bool cay_e2b_id_valid(struct cay_str id);

/* Old clients append "-" and the id of a machine: what counts is before it. */
[[nodiscard]] struct cay_str cay_e2b_id_cut(struct cay_str id);
