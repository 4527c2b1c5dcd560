/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "host/base/base_keep.h"
#include "host/base/base_record.h"
#include "host/base/verbs.h"
#include "host/owner/account.h"
#include "host/session/host.h"

/* UpdateBase: further names of a base. */

struct update {
    struct cay_job job;
    struct cay_call *call;
    struct cay_host *host;
    char base[CAY_STORE_NAME_SIZE];
    char (*added)[CAY_STORE_NAME_SIZE]; /* in the call's arena */
    size_t added_count;
    bool is_done;
    struct cay_error err;
};

static void update_work(struct cay_job *job)
{
    struct update *self = CAY_CONTAINER_OF(job, struct update, job);
    struct cay_store *store = self->host->store;
    self->is_done = true;
    for (size_t i = 0; self->is_done && i < self->added_count; i++)
        self->is_done = cay_store_base_alias(store, self->added[i], self->base, &self->err);
}

static void update_done(struct cay_job *job)
{
    struct update *self = CAY_CONTAINER_OF(job, struct update, job);
    struct cay_call *call = self->call;
    struct cay_host *host = self->host;
    struct cay_error err = self->err;
    host->base_calls--;
    struct cay_v1_base *base = self->is_done ? cay_base_noun(host, call, self->base, &err) : NULL;
    cay_bases_sweep(host);
    free(self);
    struct cay_v1_update_base_response response = {.base = base};
    if (base)
        cay_call_done(call, &response);
    else
        cay_call_fail(call, &err);
}

static bool check(struct update *self, struct cay_error *err)
{
    const struct cay_v1_update_base_request *request = self->call->request;
    const struct cay_caller *caller = &self->call->caller;
    struct cay_base_found found;
    if (!cay_bases_look_up(self->host, caller, request->name, &found, err) ||
        !cay_host_is_still(self->host, err))
        return false;
    memcpy(self->base, found.name, sizeof(self->base));
    if (caller->role != CAY_ROLE_ADMIN && !(found.record && found.record->owner.len))
        return cay_fail(err, CAY_R_PERMISSION_DENIED,
                        "only an admin may change bases that are for everybody");
    self->added_count = request->add_aliases.count;
    for (size_t i = 0; i < self->added_count; i++) {
        if (!cay_base_check_owns_alias(caller, request->add_aliases.items[i], err))
            return false;
    }
    return cay_base_check_aliases(request->add_aliases, &self->call->arena, &self->added, err);
}

void cay_host_update_base(struct cay_service *service, struct cay_call *call)
{
    struct update *self = cay_new(struct update);
    self->call = call;
    self->host = cay_host_of(service);
    if (!check(self, &self->err)) {
        struct cay_error err = self->err;
        free(self);
        cay_call_fail(call, &err);
        return;
    }
    self->host->base_calls++;
    self->job.work = update_work;
    self->job.done = update_done;
    self->job.lane = &cay_account_of(self->host, self->call->caller.owner)->lane;
    cay_loop_submit(self->host->loop, &self->job);
}
