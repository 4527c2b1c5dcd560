/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What is written down of a sandbox, as `key=value` lines. */

#include "base/buf.h"
#include "host/runtime/runtime.h"
#include "wire/frame/frame.h"

struct cay_description {
    char id[CAY_SANDBOX_ID_BYTES_MAX + 1];
    pid_t pid;
    uint64_t start_ticks; /* with the pid, names the process for good */
    uint32_t uid_base;
    uint8_t token[CAY_FRAME_TOKEN_BYTES];
};

void cay_description_write(const struct cay_description *description, const char *runtime,
                           struct cay_buf *out_text);

/* False for anything that was not written by the above for the same runtime. */
[[nodiscard]] bool cay_description_read(struct cay_str text, const char *runtime,
                                        struct cay_description *out_description);
