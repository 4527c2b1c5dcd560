/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The few plain pages, by their exact path: /healthz and /metrics. */

#include "front/http/door.h"

extern const struct cay_door cay_pages_door;
