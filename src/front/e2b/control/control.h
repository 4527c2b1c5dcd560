/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The door of the control plane. */

#include "front/e2b/e2b.h"

/* Owns what begins as paths of the control plane do, whether or not there is such a call. */
extern const struct cay_door cay_e2b_control_door;
