/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Can sandboxes work on this machine, with this configuration? What `cayd --check` prints and `cay
 * doctor` shows. Needs no running daemon; what needs root is left out without.
 */

#include "base/buf.h"
#include "host/net/filter/filter.h"

struct cay_doctor_options {
    const char *data_dir;
    const char *init_path;
    const char *runsc; /* of the runtime gvisor; NULL or empty: looked for */
    const char *runsc_platform;
    bool needs_gvisor;                    /* sessions are offered it */
    enum cay_filter_way network_steering; /* as configured */
};

/* One line per finding: verdict (ok, warn, fail), name, text and fix, with a tab between them; the
 * fix may be empty. False when something failed. */
[[nodiscard]] bool cay_doctor_run(const struct cay_doctor_options *options, struct cay_buf *out);
