/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/cay_v1.h"
#include "host/session/host.h"

/* WriteFile whose first message announces an archive: takes over the call. False: it was not begun,
 * and the call is the caller's to fail. */
[[nodiscard]] bool cay_archive_write_start(struct cay_host *host, struct cay_call *call,
                                           const struct cay_v1_write_file_open *open,
                                           struct cay_error *err);
