/* SPDX-License-Identifier: Apache-2.0 */
#include "host/life/demand.h"

enum {
    FORGOTTEN_PART = 4, /* of what was expected, at each look: rounded up */
    SPARED_PART = 16,   /* of all memory that must be left */
};

void cay_demand_ask(struct cay_demand *demand)
{
    demand->asked++;
    demand->peak = CAY_MAX(demand->peak, demand->asked);
    demand->level = CAY_MAX(demand->level, demand->asked);
}

void cay_demand_met(struct cay_demand *demand)
{
    demand->asked = 0;
}

void cay_demand_look(struct cay_demand *demand)
{
    size_t less = demand->level - (demand->level + FORGOTTEN_PART - 1) / FORGOTTEN_PART;
    demand->level = CAY_MAX(demand->peak, less);
    demand->peak = demand->asked;
}

size_t cay_demand_wanted(const struct cay_demand *demand, size_t min, size_t max)
{
    return CAY_MIN(CAY_MAX(demand->level, min), max);
}

bool cay_demand_is_affordable(uint64_t available_bytes, uint64_t total_bytes)
{
    return available_bytes >= total_bytes / SPARED_PART;
}
