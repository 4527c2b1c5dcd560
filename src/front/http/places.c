/* SPDX-License-Identifier: Apache-2.0 */
#include "front/http/places.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

void cay_places_init(struct cay_places *places, size_t most)
{
    *places = (struct cay_places){.most = most};
    cay_map_init(&places->parties);
}

void cay_places_finish(struct cay_places *places)
{
    assert(cay_map_count(&places->parties) == 0);
    cay_map_finish(&places->parties);
}

struct cay_party *cay_places_find(const struct cay_places *places, const char *name)
{
    return cay_map_get(&places->parties, cay_str(name));
}

static struct cay_party *find_or_make(struct cay_places *places, const char *name)
{
    struct cay_party *party = cay_map_get(&places->parties, cay_str(name));
    if (!party) {
        party = cay_new(struct cay_party);
        snprintf(party->name, sizeof(party->name), "%s", name);
        cay_list_init(&party->strangers);
        (void)cay_map_put(&places->parties, cay_str(party->name), party);
    }
    return party;
}

static void drop_if_empty(struct cay_places *places, struct cay_party *party)
{
    if (party->connections || party->calls)
        return;
    (void)cay_map_remove(&places->parties, cay_str(party->name));
    free(party);
}

static size_t held_back(const struct cay_places *places)
{
    return CAY_MIN(places->most / CAY_PLACES_HELD_BACK_PART, (size_t)CAY_PLACES_HELD_BACK_MAX);
}

/* When so many of all are taken. */
static bool may_have_more(const struct cay_places *places, const struct cay_party *party,
                          size_t taken)
{
    size_t shared = places->most - held_back(places);
    size_t free_count = shared - CAY_MIN(shared, taken);
    return party->connections < CAY_PLACES_TIMES_FREE * free_count;
}

struct cay_party *cay_places_grant(struct cay_places *places, const char *name)
{
    struct cay_party *party = find_or_make(places, name);
    party->connections++;
    places->taken++;
    return party;
}

struct cay_party *cay_places_take(struct cay_places *places, const char *name, bool is_admin,
                                  bool *out_is_full)
{
    *out_is_full = places->taken >= places->most;
    if (*out_is_full)
        return NULL;
    struct cay_party *party = find_or_make(places, name);
    if (is_admin || may_have_more(places, party, places->taken))
        return cay_places_grant(places, name);
    drop_if_empty(places, party);
    return NULL;
}

void cay_places_leave(struct cay_places *places, struct cay_party *party)
{
    assert(party->connections > 0 && places->taken > 0);
    party->connections--;
    places->taken--;
    drop_if_empty(places, party);
}

static bool may_call(const struct cay_places *places, const struct cay_party *party,
                     bool is_connection_new, const char *owner, struct cay_error *err)
{
    if (party->calls >= places->most)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "owner '%.64s' has %zu calls under way, as many as max_connections allows; "
                        "wait for some to end",
                        owner, party->calls);
    /* As if its peer gave it up for the owner to take. */
    if (is_connection_new && !may_have_more(places, party, places->taken - 1))
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "owner '%.64s' has %zu connections open, which leaves too few of "
                        "max_connections for others; close some, or send several calls over one",
                        owner, party->connections);
    return true;
}

bool cay_places_begin_call(struct cay_places *places, const char *owner, bool is_admin,
                           struct cay_party **connection, struct cay_party **call,
                           struct cay_error *err)
{
    char name[sizeof((*connection)->name)];
    snprintf(name, sizeof(name), "owner %s", owner);
    struct cay_party *party = find_or_make(places, name);
    if (!is_admin && !may_call(places, party, party != *connection, owner, err)) {
        drop_if_empty(places, party);
        return false;
    }
    if (!*call) {
        party->calls++;
        *call = party;
    }
    if (party != *connection) {
        party->connections++;
        (*connection)->connections--;
        drop_if_empty(places, *connection);
        *connection = party;
    }
    return true;
}

void cay_places_end_call(struct cay_places *places, struct cay_party *call)
{
    if (!call)
        return;
    assert(call->calls > 0);
    call->calls--;
    drop_if_empty(places, call);
}
