/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Requests to programs behind the other ports of a sandbox, passed on as they are. */

#include "front/http/door.h"

/* Owns whatever else is for a sandbox. */
extern const struct cay_door cay_e2b_proxy_door;
