/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "api/cay_v1.h"
#include "api/noun.h"
#include "base/id.h"
#include "base/log.h"
#include "host/live/network.h"
#include "host/service/service_internal.h"
#include "host/service/verbs.h"
#include "host/session/access.h"
#include "host/session/host.h"

/* A write to the table of secrets, on a worker, which sees them sealed only. */
struct secret_job {
    struct cay_job job;
    struct cay_host *host;
    struct cay_call *call;         /* NULL in the background */
    struct cay_vault_entry *entry; /* to be kept; owned */
    char owner[CAY_ID_SIZE];
    char name[CAY_ID_SIZE];
    int64_t last_used_ns;
    bool is_done;
    struct cay_error err;
};

static struct secret_job *job_new(struct cay_host *host, struct cay_call *call, const char *owner,
                                  const char *name)
{
    struct secret_job *self = cay_new(struct secret_job);
    self->host = host;
    self->call = call;
    snprintf(self->owner, sizeof(self->owner), "%s", owner);
    snprintf(self->name, sizeof(self->name), "%s", name);
    return self;
}

static void job_start(struct secret_job *self, void (*work)(struct cay_job *job),
                      void (*done)(struct cay_job *job))
{
    self->job.work = work;
    self->job.done = done;
    self->job.lane = &self->host->vault.lane;
    cay_loop_submit(self->host->loop, &self->job);
}

static void job_free(struct secret_job *self)
{
    cay_vault_entry_free(self->entry);
    free(self);
}

static struct cay_v1_secret to_message(struct cay_call *call, const struct cay_vault_entry *entry)
{
    return (struct cay_v1_secret){
        .owner = cay_arena_str(&call->arena, cay_str(entry->owner)),
        .name = cay_arena_str(&call->arena, cay_str(entry->name)),
        .created_at = cay_noun_time(&call->arena, entry->created_ns),
        .changed_at = cay_noun_time(&call->arena, entry->changed_ns),
        .last_used_at = cay_noun_time(&call->arena, entry->last_used_ns),
    };
}

/* Whose, as a text. */
static bool find_owner(const struct cay_call *call, struct cay_str wanted, char owner[CAY_ID_SIZE],
                       struct cay_error *err)
{
    struct cay_str text = wanted.len ? wanted : cay_str(call->caller.owner);
    if (!cay_may_know_owned(&call->caller, text))
        return cay_fail(err, CAY_R_NOT_FOUND, "there is no owner '%.*s' that this key knows of",
                        (int)CAY_MIN(text.len, (size_t)64), text.len ? text.ptr : "");
    if (!cay_id_check(text, "owner", err))
        return false;
    snprintf(owner, CAY_ID_SIZE, "%.*s", (int)text.len, text.ptr);
    return true;
}

static bool find_name(struct cay_str text, char name[CAY_ID_SIZE], struct cay_error *err)
{
    if (!cay_id_check(text, "name", err))
        return false;
    snprintf(name, CAY_ID_SIZE, "%.*s", (int)text.len, text.ptr);
    return true;
}

/* --- set --- */

static void put_work(struct cay_job *job)
{
    struct secret_job *self = CAY_CONTAINER_OF(job, struct secret_job, job);
    self->is_done = cay_vault_put(self->entry, self->host->db, &self->err);
}

static void put_done(struct cay_job *job)
{
    struct secret_job *self = CAY_CONTAINER_OF(job, struct secret_job, job);
    if (!self->is_done) {
        cay_call_fail(self->call, &self->err);
    } else {
        struct cay_vault_entry *entry =
            cay_vault_add(&self->host->vault, cay_take_ptr(self->entry));
        cay_network_renew_secret(self->host, self->owner, cay_str(self->name));
        cay_log(CAY_INFO, "secret.set", CAY_S("owner", self->owner), CAY_S("name", self->name));
        struct cay_v1_secret secret = to_message(self->call, entry);
        struct cay_v1_set_secret_response response = {.secret = &secret};
        cay_call_done(self->call, &response);
    }
    job_free(self);
}

/* The call's own copy of the value is not needed any more. */
static void wipe(struct cay_str value)
{
    cay_wipe((char *)(uintptr_t)value.ptr, value.len);
}

void cay_host_set_secret(struct cay_service *service, struct cay_call *call)
{
    struct cay_host *host = cay_host_of(service);
    const struct cay_v1_set_secret_request *request = call->request;
    struct cay_vault_entry *entry = NULL;
    struct cay_error err = {};
    char owner[CAY_ID_SIZE];
    char name[CAY_ID_SIZE];
    bool is_sealed = find_owner(call, request->owner, owner, &err) &&
                     find_name(request->name, name, &err) &&
                     cay_vault_entry_make(&host->vault, owner, name, request->value, &entry, &err);
    wipe(request->value);
    if (!is_sealed) {
        cay_call_fail(call, &err);
        return;
    }
    struct secret_job *self = job_new(host, call, owner, name);
    self->entry = entry;
    job_start(self, put_work, put_done);
}

/* --- list --- */

void cay_host_list_secrets(struct cay_service *service, struct cay_call *call)
{
    const struct cay_vault *vault = &cay_host_of(service)->vault;
    const struct cay_v1_list_secrets_request *request = call->request;
    struct cay_error err = {};
    char owner[CAY_ID_SIZE];
    if (!find_owner(call, request->owner, owner, &err)) {
        cay_call_fail(call, &err);
        return;
    }
    struct cay_v1_list_secrets_response response = {
        .secrets.items =
            cay_arena_array(&call->arena, CAY_VAULT_OWNER_MAX, sizeof(struct cay_v1_secret))};
    const struct cay_vault_entry *entry = NULL;
    while (response.secrets.items && response.secrets.count < CAY_VAULT_OWNER_MAX &&
           (entry = cay_vault_next(vault, owner, entry)))
        response.secrets.items[response.secrets.count++] = to_message(call, entry);
    cay_call_done(call, &response);
}

/* --- delete --- */

static void delete_work(struct cay_job *job)
{
    struct secret_job *self = CAY_CONTAINER_OF(job, struct secret_job, job);
    self->is_done = cay_vault_delete(self->owner, self->name, self->host->db, &self->err);
}

static void delete_done(struct cay_job *job)
{
    struct secret_job *self = CAY_CONTAINER_OF(job, struct secret_job, job);
    if (!self->is_done) {
        cay_call_fail(self->call, &self->err);
    } else {
        cay_vault_remove(&self->host->vault, self->owner, self->name);
        cay_network_renew_secret(self->host, self->owner, cay_str(self->name));
        cay_log(CAY_INFO, "secret.deleted", CAY_S("owner", self->owner), CAY_S("name", self->name));
        cay_call_done(self->call, &(struct cay_v1_delete_secret_response){});
    }
    job_free(self);
}

void cay_host_delete_secret(struct cay_service *service, struct cay_call *call)
{
    struct cay_host *host = cay_host_of(service);
    const struct cay_v1_delete_secret_request *request = call->request;
    struct cay_error err = {};
    char owner[CAY_ID_SIZE];
    char name[CAY_ID_SIZE];
    bool is_known =
        find_owner(call, request->owner, owner, &err) && find_name(request->name, name, &err);
    if (is_known && !cay_vault_find(&host->vault, owner, cay_str(name)))
        is_known = cay_fail(&err, CAY_R_SECRET_NOT_FOUND,
                            "there is no secret '%s'; 'cay secret ls' lists the secrets", name);
    if (!is_known) {
        cay_call_fail(call, &err);
        return;
    }
    job_start(job_new(host, call, owner, name), delete_work, delete_done);
}

/* --- times of use --- */

static void use_work(struct cay_job *job)
{
    struct secret_job *self = CAY_CONTAINER_OF(job, struct secret_job, job);
    self->is_done = cay_vault_write_use(self->owner, self->name, self->last_used_ns, self->host->db,
                                        &self->err);
}

static void use_done(struct cay_job *job)
{
    struct secret_job *self = CAY_CONTAINER_OF(job, struct secret_job, job);
    if (!self->is_done)
        cay_log(CAY_WARN, "secrets.flush_failed", CAY_ERR(&self->err));
    job_free(self);
}

void cay_host_flush_secrets(struct cay_host *host, bool is_final)
{
    cay_list_for_each (struct cay_vault_entry, entry, &host->vault.list, in_vault) {
        struct cay_error err = {};
        if (!entry->is_dirty)
            continue;
        entry->is_dirty = false;
        if (!is_final) {
            struct secret_job *self = job_new(host, NULL, entry->owner, entry->name);
            self->last_used_ns = entry->last_used_ns;
            job_start(self, use_work, use_done);
        } else if (!cay_vault_write_use(entry->owner, entry->name, entry->last_used_ns, host->db,
                                        &err)) {
            cay_log(CAY_WARN, "secrets.flush_failed", CAY_ERR(&err));
        }
    }
}
