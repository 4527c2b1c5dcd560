/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The control plane: its routes and their handlers, which run as the owner of the key. */

#include "front/e2b/request.h"

/* Is this a path of the control plane, whether or not there is such a call? */
[[nodiscard]] bool cay_e2b_control_owns(struct cay_str path);

/* NULL, and 404 or 405, when there is none. */
const struct cay_e2b_route *cay_e2b_control_route(struct cay_e2b_request *request, int *out_status);

cay_e2b_handler cay_e2b_create;
