/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "api/cay_v1.h"
#include "api/limits.h"
#include "api/noun.h"
#include "base/id.h"
#include "base/log.h"
#include "base/utf8.h"
#include "host/owner/account.h"
#include "host/service/service_internal.h"
#include "host/service/verbs.h"
#include "host/session/access.h"
#include "host/session/host.h"

/* A write to the keys table, on a worker. The record is a copy, so the loop may go on with its own.
 */
struct key_job {
    struct cay_job job;
    struct cay_host *host;
    struct cay_call *call; /* NULL in the background */
    struct cay_key *key;   /* owned; on success of an insert the table takes it */
    char secret[CAY_KEY_SECRET_BYTES];
    bool is_insert;
    bool is_done;
    struct cay_error err;
};

static void work(struct cay_job *job)
{
    struct key_job *self = CAY_CONTAINER_OF(job, struct key_job, job);
    self->is_done = self->is_insert ? cay_key_insert(self->key, self->host->db, &self->err)
                                    : cay_key_update(self->key, self->host->db, &self->err);
}

static struct cay_v1_key to_message(struct cay_call *call, const struct cay_key *key)
{
    return (struct cay_v1_key){
        .id = cay_arena_str(&call->arena, cay_str(key->id)),
        .owner = cay_arena_str(&call->arena, cay_str(key->owner)),
        .role = key->role == CAY_ROLE_ADMIN ? CAY_V1_KEY_ROLE_ADMIN : CAY_V1_KEY_ROLE_USER,
        .name = cay_arena_str(&call->arena, cay_str(key->name)),
        .prefix = cay_arena_str(&call->arena, cay_str(key->prefix)),
        .e2b = key->e2b,
        .created_at = cay_noun_time(&call->arena, key->created_ns),
        .last_used_at = cay_noun_time(&call->arena, key->last_used_ns),
        .expires_at = cay_noun_time(&call->arena, key->expires_ns),
        .revoked = key->revoked_ns != 0,
        .revoked_at = cay_noun_time(&call->arena, key->revoked_ns),
        .may_vouch = key->may_vouch,
    };
}

static void job_free(struct key_job *self)
{
    cay_wipe(self->secret, sizeof(self->secret));
    free(self->key);
    free(self);
}

static void job_start(struct cay_host *host, struct cay_call *call, struct cay_key *key,
                      void (*done)(struct cay_job *job), struct key_job *self)
{
    self->host = host;
    self->call = call;
    self->key = key;
    self->job.work = work;
    self->job.done = done;
    /* In the background it is the work of whose key it is. */
    self->job.lane = &cay_account_of(host, call ? call->caller.owner : key->owner)->lane;
    cay_loop_submit(host->loop, &self->job);
}

static void created(struct cay_job *job)
{
    struct key_job *self = CAY_CONTAINER_OF(job, struct key_job, job);
    struct cay_call *call = self->call;
    if (!self->is_done) {
        cay_call_fail(call, &self->err);
        job_free(self);
        return;
    }
    struct cay_v1_key key = to_message(call, self->key);
    struct cay_v1_create_key_response response = {.key = &key, .secret = cay_str(self->secret)};
    cay_keys_add(&self->host->keys, cay_take_ptr(self->key));
    cay_call_done(call, &response);
    job_free(self);
}

/* Text a person gave: no control characters, valid UTF-8, bounded. */
static bool is_name(struct cay_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        if ((unsigned char)name.ptr[i] < 0x20 || name.ptr[i] == 0x7F)
            return false;
    }
    return name.len <= CAY_LIMIT_KEY_NAME_BYTES && cay_utf8_valid(name);
}

static bool check_create(const struct cay_call *call, struct cay_str owner, int64_t *out_expires_ns,
                         struct cay_error *err)
{
    const struct cay_v1_create_key_request *request = call->request;
    if (call->caller.role != CAY_ROLE_ADMIN)
        return cay_fail(err, CAY_R_PERMISSION_DENIED, "only an admin key may make keys");
    if (!cay_id_check(owner, "owner", err))
        return false;
    if (!is_name(request->name))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "name: %d bytes at most, no control characters", CAY_LIMIT_KEY_NAME_BYTES);
    if (request->role != CAY_V1_KEY_ROLE_UNSPECIFIED && request->role != CAY_V1_KEY_ROLE_USER &&
        request->role != CAY_V1_KEY_ROLE_ADMIN)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "role must be KEY_ROLE_USER or KEY_ROLE_ADMIN");
    if (request->expires_at) {
        int64_t seconds = request->expires_at->seconds;
        if (seconds <= cay_clock_wall_ns() / CAY_NS_PER_SEC ||
            __builtin_mul_overflow(seconds, CAY_NS_PER_SEC, out_expires_ns))
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "expires_at must be in the future, before the year 2262");
    }
    return true;
}

void cay_host_create_key(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_create_key_request *request = call->request;
    struct cay_str owner = request->owner.len ? request->owner : cay_str(call->caller.owner);
    int64_t expires_ns = 0;
    struct cay_error err = {};
    if (!check_create(call, owner, &expires_ns, &err)) {
        cay_call_fail(call, &err);
        return;
    }
    char owner_text[CAY_ID_SIZE];
    char name_text[CAY_LIMIT_KEY_NAME_BYTES + 1];
    snprintf(owner_text, sizeof(owner_text), "%.*s", (int)owner.len, owner.ptr);
    snprintf(name_text, sizeof(name_text), "%.*s", (int)request->name.len,
             request->name.len ? request->name.ptr : "");
    struct key_job *self = cay_new(struct key_job);
    self->is_insert = true;
    enum cay_role role = request->role == CAY_V1_KEY_ROLE_ADMIN ? CAY_ROLE_ADMIN : CAY_ROLE_USER;
    struct cay_key *key =
        cay_key_make(owner_text, role, name_text, request->e2b, expires_ns, self->secret);
    key->may_vouch = request->may_vouch;
    job_start(cay_host_of(service), call, key, created, self);
}

static bool is_listed(const struct cay_call *call, const struct cay_key *key, int64_t now_ns)
{
    const struct cay_v1_list_keys_request *request = call->request;
    bool is_dead = key->revoked_ns || (key->expires_ns && key->expires_ns <= now_ns);
    return cay_may_know_owned(&call->caller, cay_str(key->owner)) &&
           (request->include_revoked || !is_dead) &&
           (!request->owner.len || cay_str_is(request->owner, key->owner));
}

/* The token is the id of the last key of the previous page; new keys come in front and disturb
 * nothing. */
static bool find_page(const struct cay_host *host, const struct cay_caller *caller,
                      struct cay_str token, struct cay_list_node **out_node, struct cay_error *err)
{
    *out_node = cay_list_first(&host->keys.list);
    if (!token.len)
        return true;
    const struct cay_key *last = cay_keys_find(&host->keys, token);
    if (!last || !cay_may_know_owned(caller, cay_str(last->owner)))
        return cay_fail(
            err, CAY_R_INVALID_ARGUMENT,
            "page_token: this list gave no such token; begin again with the first page");
    *out_node = cay_list_next(&host->keys.list, &last->in_keys);
    return true;
}

void cay_host_list_keys(struct cay_service *service, struct cay_call *call)
{
    struct cay_host *host = cay_host_of(service);
    const struct cay_v1_list_keys_request *request = call->request;
    struct cay_error err = {};
    struct cay_list_node *node = NULL;
    if (request->page_size < 0 || request->page_size > CAY_LIMIT_PAGE_SIZE)
        cay_fail(&err, CAY_R_INVALID_ARGUMENT, "page_size must be 1 to %d", CAY_LIMIT_PAGE_SIZE);
    else
        (void)find_page(host, &call->caller, request->page_token, &node, &err);
    if (err.reason) {
        cay_call_fail(call, &err);
        return;
    }
    size_t page_size =
        request->page_size ? (size_t)request->page_size : CAY_LIMIT_PAGE_SIZE_DEFAULT;
    struct cay_v1_list_keys_response response = {
        .keys.items = cay_arena_array(&call->arena, page_size, sizeof(struct cay_v1_key))};
    int64_t now_ns = cay_clock_wall_ns();
    for (; node && response.keys.items; node = cay_list_next(&host->keys.list, node)) {
        const struct cay_key *key = CAY_CONTAINER_OF(node, struct cay_key, in_keys);
        if (!is_listed(call, key, now_ns))
            continue;
        if (response.keys.count == page_size) {
            response.next_page_token = response.keys.items[page_size - 1].id;
            break;
        }
        response.keys.items[response.keys.count++] = to_message(call, key);
    }
    cay_call_done_kept(call, &response);
}

static void revoked(struct cay_job *job)
{
    struct key_job *self = CAY_CONTAINER_OF(job, struct key_job, job);
    if (!self->is_done) {
        cay_call_fail(self->call, &self->err);
    } else {
        struct cay_v1_key key = to_message(self->call, self->key);
        struct cay_v1_revoke_key_response response = {.key = &key};
        cay_call_done(self->call, &response);
    }
    cay_host_lapse_keys(self->host);
    job_free(self);
}

/* A key that takes itself away hears how that went. */
static bool is_own(const struct cay_call *call, const struct cay_key *key)
{
    return !strcmp(call->caller.key_id, key->id) || !strcmp(call->caller.voucher, key->id);
}

void cay_host_revoke_key(struct cay_service *service, struct cay_call *call)
{
    struct cay_host *host = cay_host_of(service);
    const struct cay_v1_revoke_key_request *request = call->request;
    struct cay_key *key = cay_keys_find(&host->keys, request->key_id);
    if (!key || !cay_may_know_owned(&call->caller, cay_str(key->owner))) {
        struct cay_error err = {};
        cay_fail(&err, CAY_R_KEY_NOT_FOUND, "there is no key '%.*s'; 'cay key ls' lists the keys",
                 (int)CAY_MIN(request->key_id.len, (size_t)64),
                 request->key_id.len ? request->key_id.ptr : "");
        cay_call_fail(call, &err);
        return;
    }
    if (key->role == CAY_ROLE_ADMIN && call->caller.role != CAY_ROLE_ADMIN) {
        struct cay_error err = {};
        cay_fail(&err, CAY_R_PERMISSION_DENIED, "only an admin key may revoke an admin key");
        cay_call_fail(call, &err);
        return;
    }
    /* In memory first: from here on it opens nothing, even if the disk is slow to hear of it. */
    if (!key->revoked_ns)
        key->revoked_ns = cay_clock_wall_ns();
    if (!is_own(call, key))
        cay_host_lapse_keys(host);
    struct cay_key *copy = cay_new(struct cay_key);
    *copy = *key;
    copy->in_keys = (struct cay_list_node){};
    job_start(host, call, copy, revoked, cay_new(struct key_job));
}

static void flushed(struct cay_job *job)
{
    struct key_job *self = CAY_CONTAINER_OF(job, struct key_job, job);
    if (!self->is_done)
        cay_log(CAY_WARN, "keys.flush_failed", CAY_ERR(&self->err));
    job_free(self);
}

void cay_host_flush_keys(struct cay_host *host, bool is_final)
{
    cay_list_for_each (struct cay_key, key, &host->keys.list, in_keys) {
        if (!key->is_dirty)
            continue;
        key->is_dirty = false;
        struct cay_error err = {};
        if (is_final) {
            if (!cay_key_update(key, host->db, &err))
                cay_log(CAY_WARN, "keys.flush_failed", CAY_ERR(&err));
            continue;
        }
        struct cay_key *copy = cay_new(struct cay_key);
        *copy = *key;
        copy->in_keys = (struct cay_list_node){};
        job_start(host, NULL, copy, flushed, cay_new(struct key_job));
    }
}
