/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How many sandboxes are worth having in reserve: as many as were asked for lately between two
 * moments at which it was full. Pure.
 */

#include "base/base.h"

struct cay_demand {
    size_t asked; /* since it was full */
    size_t peak;  /* of that, since the last look */
    size_t level; /* what is expected next */
};

/* Somebody needs one. */
void cay_demand_ask(struct cay_demand *demand);

/* As many wait as are wanted. */
void cay_demand_met(struct cay_demand *demand);

/* Time has passed: what nobody asked for meanwhile is expected less. */
void cay_demand_look(struct cay_demand *demand);

/* How many are to wait: never more than max, never less than min unless max is. */
[[nodiscard]] size_t cay_demand_wanted(const struct cay_demand *demand, size_t min, size_t max);

/* Whether a machine that has so much left of its memory can spare some for what nobody needs yet.
 */
[[nodiscard]] bool cay_demand_is_affordable(uint64_t available_bytes, uint64_t total_bytes);
