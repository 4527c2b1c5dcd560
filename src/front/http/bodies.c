/* SPDX-License-Identifier: Apache-2.0 */
#include "front/http/bodies.h"
#include "base/id.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/id.h"

/* Small ones are not worth counting: connections are limited, and so is what each may hold. */
enum { FREE_BYTES = 16 * 1024 };

struct cay_bodies_owner {
    char name[CAY_ID_SIZE];
    size_t bytes;
    size_t charges;
};

void cay_bodies_init(struct cay_bodies *bodies, size_t bytes_max, size_t owner_bytes_max)
{
    *bodies = (struct cay_bodies){.bytes_max = bytes_max, .owner_bytes_max = owner_bytes_max};
    cay_map_init(&bodies->owners);
}

void cay_bodies_finish(struct cay_bodies *bodies)
{
    assert(cay_map_count(&bodies->owners) == 0);
    cay_map_finish(&bodies->owners);
}

static struct cay_bodies_owner *find_owner(struct cay_bodies *bodies, const char *name)
{
    struct cay_bodies_owner *owner = cay_map_get(&bodies->owners, cay_str(name));
    if (!owner) {
        owner = cay_new(struct cay_bodies_owner);
        snprintf(owner->name, sizeof(owner->name), "%s", name);
        (void)cay_map_put(&bodies->owners, cay_str(owner->name), owner);
    }
    return owner;
}

bool cay_body_charge_to(struct cay_body_charge *charge, struct cay_bodies *bodies,
                        const char *owner, size_t bytes, struct cay_error *err)
{
    if (!bodies || bytes <= FREE_BYTES || bytes <= charge->bytes)
        return true;
    if (!charge->bodies) {
        charge->bodies = bodies;
        charge->owner = find_owner(bodies, owner);
        charge->owner->charges++;
    }
    size_t more = bytes - charge->bytes;
    if (bodies->owner_bytes_max && charge->owner->bytes + more > bodies->owner_bytes_max)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "requests of '%.64s' under way hold more than owner_body_memory, %zu MiB; "
                        "send fewer of them at a time",
                        charge->owner->name, bodies->owner_bytes_max >> 20);
    if (bodies->bytes_max && bodies->bytes + more > bodies->bytes_max)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "the requests under way hold more than body_memory, %zu MiB; try again "
                        "soon",
                        bodies->bytes_max >> 20);
    charge->bytes += more;
    charge->owner->bytes += more;
    bodies->bytes += more;
    return true;
}

void cay_body_release(struct cay_body_charge *charge)
{
    if (!charge->bodies)
        return;
    charge->owner->bytes -= charge->bytes;
    charge->bodies->bytes -= charge->bytes;
    if (--charge->owner->charges == 0) {
        (void)cay_map_remove(&charge->bodies->owners, cay_str(charge->owner->name));
        free(charge->owner);
    }
    *charge = (struct cay_body_charge){};
}
