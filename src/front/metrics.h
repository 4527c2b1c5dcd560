/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The /metrics page, in Prometheus' text format. */

#include "front/router.h"

void cay_metrics_write(const struct cay_router *router, struct cay_buf *out);
