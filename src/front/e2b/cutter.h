/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Cuts what is open to a sandbox when that is paused or destroyed, by whatever door or deadline,
 * and what is open by its tokens when those are revoked: clients of this wire learn it by a
 * connection that breaks off, and look again. It hears of it as everybody does, by watching events.
 */

#include "front/e2b/visit.h"

void cay_e2b_cutter_open(struct cay_e2b *door);
void cay_e2b_cutter_close(struct cay_e2b *door);

/* For a request that has passed the gate. It is forgotten when it ends. */
void cay_e2b_cutter_add(struct cay_rest_request *request);
