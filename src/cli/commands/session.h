/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What commands share that name a session or a snapshot of it. */

#include "api/cay_v1.h"
#include "cli/command.h"

/* Creates it; as long as its base is being made, waits for that and says how far it is. */
[[nodiscard]] bool cay_session_make(struct cay_cli *cli,
                                    const struct cay_v1_create_session_request *request,
                                    struct cay_v1_create_session_response *out_response,
                                    struct cay_error *err);
