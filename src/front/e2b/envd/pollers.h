/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Watchers that are asked for news instead of telling them (envd's CreateWatcher). One is a call on
 * the hallway that no request owns: it lives until it is removed, nobody asked for long, or its
 * sandbox is gone. The door has a list of them.
 */

#include "front/e2b/visit.h"

void cay_e2b_pollers_close(struct cay_e2b *door);
