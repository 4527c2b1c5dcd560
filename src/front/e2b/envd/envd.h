/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What clients expect to answer at port 49983 of a sandbox: health, files, and RPCs about processes
 * and files. It is all done from outside, by verbs of the hallway.
 */

#include "front/e2b/e2b.h"

/* Owns what is for that port; signed URLs of files; and what browsers ask before they send such a
 * request. */
extern const struct cay_door cay_e2b_envd_door;
