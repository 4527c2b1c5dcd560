/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "base/crash.h"
#include "base/log.h"
#include "host/base/base_record.h"
#include "host/base/host_base.h"
#include "host/session/host.h"
#include "host/session/tidy.h"

/* Bases that go with their last alias; and those that the base "host" was once, as soon as nobody
 * stands on them any more. */

struct sweep {
    struct cay_job job;
    struct cay_host *host;
    char (*names)[CAY_STORE_NAME_SIZE];
    bool *is_kept; /* an alias names it, or it could not be removed */
    size_t count;
    struct cay_store *store; /* the host's when it began */
};

static bool note_alias(void *context, const struct cay_store_item *item)
{
    struct sweep *self = context;
    for (size_t i = 0; item->kind == CAY_STORE_ITEM_ALIAS && i < self->count; i++)
        self->is_kept[i] = self->is_kept[i] || strcmp(self->names[i], item->target) == 0;
    return true;
}

static void add_name(struct sweep *self, const char *name)
{
    self->names = cay_realloc_array(self->names, self->count + 1, sizeof(*self->names));
    self->is_kept = cay_realloc_array(self->is_kept, self->count + 1, sizeof(bool));
    snprintf(self->names[self->count], sizeof(*self->names), "%s", name);
    self->is_kept[self->count++] = false;
}

static bool note_host_base(void *context, const struct cay_store_item *item)
{
    if (item->kind == CAY_STORE_ITEM_BASE && strncmp(item->name, "host-", 5) == 0)
        add_name(context, item->name);
    return true;
}

/* One that somebody has given settings or another name is theirs. What is being made has its alias
 * only at the end. */
static void add_old_host_bases(struct sweep *self)
{
    struct cay_host *host = self->host;
    struct cay_error ignored = {};
    size_t first = self->count;
    if (!host->host_base->has_old || host->host_base->job)
        return;
    bool is_listed = cay_store_list(host->store, note_host_base, self, &ignored) &&
                     cay_store_list(host->store, note_alias, self, &ignored);
    host->host_base->has_old = !is_listed;
    for (size_t i = first; i < self->count; i++) {
        bool is_old =
            is_listed && !self->is_kept[i] && !cay_map_get(&host->bases, cay_str(self->names[i]));
        bool is_used = is_old && cay_store_base_is_used(host->store, self->names[i]);
        self->is_kept[i] = !is_old || is_used;
        host->host_base->has_old = host->host_base->has_old || is_old;
    }
}

static void sweep_free(struct sweep *self)
{
    free(self->names);
    free(self->is_kept);
    free(self);
}

static void sweep_work(struct cay_job *job)
{
    struct sweep *self = CAY_CONTAINER_OF(job, struct sweep, job);
    for (size_t i = 0; i < self->count; i++) {
        struct cay_error err = {};
        if (self->is_kept[i])
            continue;
        self->is_kept[i] = !cay_store_base_remove(self->store, self->names[i], &err);
        CAY_CRASH_POINT("base.swept");
        if (self->is_kept[i] || !cay_base_record_delete(self->host->db, self->names[i], &err))
            cay_log(CAY_WARN, "base.sweep_failed", CAY_S("base", self->names[i]), CAY_ERR(&err));
    }
}

static void sweep_done(struct cay_job *job)
{
    struct sweep *self = CAY_CONTAINER_OF(job, struct sweep, job);
    for (size_t i = 0; i < self->count; i++) {
        if (!self->is_kept[i])
            cay_bases_remove(self->host, self->names[i]);
    }
    cay_host_collect_soon(self->host);
    sweep_free(self);
}

/* NULL: there is nothing to do. */
static struct sweep *find_unnamed(struct cay_host *host)
{
    struct sweep *self = cay_new(struct sweep);
    struct cay_error err = {};
    size_t cursor = 0;
    bool has_work = false;
    self->host = host;
    self->store = host->store;
    for (const struct cay_base_entry *entry; (entry = cay_map_next(&host->bases, &cursor));) {
        if (!entry->spec->goes_with_aliases)
            continue;
        add_name(self, entry->name);
    }
    add_old_host_bases(self);
    if (self->count && cay_store_list(host->store, note_alias, self, &err)) {
        for (size_t i = 0; i < self->count; i++)
            has_work = has_work || !self->is_kept[i];
    }
    if (has_work)
        return self;
    sweep_free(self);
    return NULL;
}

void cay_bases_sweep(struct cay_host *host)
{
    struct sweep *self = find_unnamed(host);
    if (!self)
        return;
    self->job.work = sweep_work;
    self->job.done = sweep_done;
    if (!cay_loop_try_submit(host->loop, &self->job))
        sweep_free(self); /* the daemon ends; the next start does it */
}

void cay_bases_sweep_now(struct cay_host *host)
{
    struct sweep *self = find_unnamed(host);
    if (!self)
        return;
    sweep_work(&self->job);
    sweep_done(&self->job);
}
