/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/gone.h"

#include <assert.h>
#include <stdlib.h>

#include "api/limits.h"
#include "base/clock.h"
#include "base/id.h"
#include "host/session/access.h"

struct cay_gone_owner {
    char *name;
    size_t count;
};

static struct cay_gone_owner *enter_owner(struct cay_gone_table *table, const char *name)
{
    struct cay_gone_owner *owner = cay_map_get(&table->owners, cay_str(name));
    if (!owner) {
        owner = cay_new(struct cay_gone_owner);
        owner->name = cay_strdup(name);
        (void)cay_map_put(&table->owners, cay_str(owner->name), owner);
    }
    owner->count++;
    return owner;
}

static void forget(struct cay_gone_table *table, struct cay_gone *gone)
{
    struct cay_gone_owner *owner = cay_take_ptr(gone->owner);
    free(cay_take_ptr(gone->id));
    if (--owner->count > 0)
        return;
    (void)cay_map_remove(&table->owners, cay_str(owner->name));
    free(owner->name);
    free(owner);
}

/* The oldest of who has the most. */
static struct cay_gone *make_room(struct cay_gone_table *table)
{
    const struct cay_gone_owner *most = NULL;
    struct cay_gone *oldest = NULL;
    size_t cursor = 0;
    for (const struct cay_gone_owner *owner; (owner = cay_map_next(&table->owners, &cursor));) {
        if (!most || owner->count > most->count)
            most = owner;
    }
    for (size_t i = 0; i < table->count; i++) {
        struct cay_gone *gone = &table->items[i];
        if (gone->owner == most && (!oldest || gone->at_ns < oldest->at_ns))
            oldest = gone;
    }
    assert(oldest);
    forget(table, oldest);
    return oldest;
}

void cay_gone_add(struct cay_gone_table *table, const char *id, const char *owner, bool is_public,
                  const char *why)
{
    if (!table->items)
        table->items = cay_alloc(CAY_GONE_MAX * sizeof(*table->items));
    struct cay_gone *gone =
        table->count < CAY_GONE_MAX ? &table->items[table->count++] : make_room(table);
    *gone = (struct cay_gone){.id = cay_strdup(id),
                              .owner = enter_owner(table, owner),
                              .is_public = is_public,
                              .at_ns = cay_clock_wall_ns(),
                              .why = why};
}

void cay_gone_finish(struct cay_gone_table *table)
{
    for (size_t i = 0; i < table->count; i++)
        forget(table, &table->items[i]);
    table->count = 0;
    free(cay_take_ptr(table->items));
    cay_map_finish(&table->owners);
}

static const struct cay_gone *find(const struct cay_gone_table *table,
                                   const struct cay_caller *caller, struct cay_str id)
{
    const struct cay_gone *found = NULL;
    for (size_t i = 0; i < table->count; i++) {
        const struct cay_gone *gone = &table->items[i];
        if (cay_str_is(id, gone->id) && cay_may_know_session(caller, id, gone->owner->name) &&
            (gone->is_public || !caller->is_door) && (!found || gone->at_ns > found->at_ns))
            found = gone;
    }
    return found;
}

struct ending {
    const char *why;
    const char *word; /* for programs */
    const char *sentence;
};

static const struct ending *ending_of(const char *why)
{
    static const struct ending endings[] = {
        {"requested", "destroyed", "was destroyed"},
        {"expired", "expired", "was destroyed at its deadline"},
        {"idle", "idle", "was destroyed because nobody used it"},
        {"", "gone", "is gone"},
    };
    size_t i = 0;
    while (i + 1 < CAY_COUNT(endings) && strcmp(endings[i].why, why) != 0)
        i++;
    return &endings[i];
}

bool cay_gone_fail(const struct cay_gone_table *table, const struct cay_caller *caller,
                   struct cay_str id, struct cay_error *err)
{
    const struct cay_gone *gone = find(table, caller, id);
    char at[CAY_TIME_BYTES];
    if (!gone && caller->is_door)
        return cay_fail(err, CAY_R_SESSION_NOT_FOUND, NULL);
    if (!gone && !id.len)
        return cay_fail(err, CAY_R_SESSION_NOT_FOUND,
                        "no session is named; 'cay ls' lists the sessions");
    if (!gone) {
        cay_fail(err, CAY_R_SESSION_NOT_FOUND,
                 "there is no session '%.*s'; 'cay ls' lists the sessions",
                 (int)CAY_MIN(id.len, (size_t)CAY_LIMIT_ID_BYTES), id.len ? id.ptr : "");
        return cay_id_valid(id) ? cay_error_fact(err, "session_id", "%.*s", (int)id.len, id.ptr)
                                : false;
    }
    const struct ending *ending = ending_of(gone->why);
    cay_time_format(gone->at_ns, 0, at);
    cay_fail(err, CAY_R_SESSION_NOT_FOUND, "session '%s' %s on %s", gone->id, ending->sentence, at);
    cay_error_fact(err, "session_id", "%s", gone->id);
    return cay_error_fact(err, "gone", "%s", ending->word);
}
