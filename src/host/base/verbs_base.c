/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "api/limits.h"
#include "api/noun.h"
#include "base/log.h"
#include "host/base/base_record.h"
#include "host/base/verbs.h"
#include "host/owner/account.h"
#include "host/session/access.h"
#include "host/session/host.h"
#include "host/session/session.h"
#include "host/session/tidy.h"

/* Bases: the roots that sessions start from. Listing reads the store's memory and the table of
 * records; removal works on a worker. */

struct list_context {
    struct cay_call *call;
    const struct cay_host *host;
    struct cay_v1_list_bases_response response;
    size_t room;
};

static bool count_item(void *context, const struct cay_store_item *item)
{
    struct list_context *list = context;
    if (item->kind == CAY_STORE_ITEM_BASE)
        list->room++;
    return true;
}

static bool add_base(void *context, const struct cay_store_item *item)
{
    struct list_context *list = context;
    struct cay_arena *arena = &list->call->arena;
    if (item->kind != CAY_STORE_ITEM_BASE || list->response.bases.count == list->room)
        return true;
    bool is_host = strncmp(item->name, "host-", 5) == 0;
    char name[CAY_BASE_FULL_NAME_SIZE];
    const struct cay_v1_base *record = cay_bases_record(list->host, item->name);
    if (!cay_may_know_base(&list->call->caller, item->name, record))
        return true;
    cay_base_full_name(list->host, item->name, name);
    struct cay_v1_base *base = &list->response.bases.items[list->response.bases.count++];
    *base = record ? *record : (struct cay_v1_base){};
    base->name = cay_arena_str(arena, cay_str(name));
    if (!base->origin)
        base->origin = is_host ? CAY_V1_BASE_ORIGIN_HOST : CAY_V1_BASE_ORIGIN_IMPORTED;
    if (!base->created_at)
        base->created_at = cay_noun_time(arena, item->created_unix_ms * CAY_NS_PER_MS);
    return true;
}

static bool add_alias(void *context, const struct cay_store_item *item)
{
    struct list_context *list = context;
    struct cay_arena *arena = &list->call->arena;
    char name[CAY_BASE_FULL_NAME_SIZE];
    if (item->kind != CAY_STORE_ITEM_ALIAS)
        return true;
    cay_base_full_name(list->host, item->target, name);
    for (size_t i = 0; i < list->response.bases.count; i++) {
        struct cay_v1_base *base = &list->response.bases.items[i];
        if (!cay_str_is(base->name, name))
            continue;
        struct cay_str *grown =
            cay_arena_array(arena, base->aliases.count + 1, sizeof(struct cay_str));
        if (!grown)
            return false;
        if (base->aliases.count)
            memcpy(grown, base->aliases.items, base->aliases.count * sizeof(*grown));
        grown[base->aliases.count++] = cay_base_shown(item->name, arena);
        base->aliases.items = grown;
    }
    return true;
}

/* Sessions of a base, by what clients see as its name, that the caller may know of; they may know
 * it by an alias. */
static int64_t count_sessions(const struct cay_host *host, const struct cay_caller *caller,
                              struct cay_str name)
{
    int64_t count = 0;
    cay_list_for_each (struct cay_session, session, &host->sessions.list, in_table) {
        char key[CAY_STORE_NAME_SIZE];
        char resolved[CAY_STORE_NAME_SIZE];
        char full[CAY_BASE_FULL_NAME_SIZE];
        struct cay_error ignored = {};
        if (!session->is_gone &&
            cay_may_know_session(caller, cay_str(session->id), session->owner) &&
            cay_base_key(session->spec->base, key) &&
            cay_store_base_resolve(host->store, key, resolved, &ignored)) {
            cay_base_full_name(host, resolved, full);
            count += cay_str_is(name, full);
        }
    }
    return count;
}

static bool has_name(const struct cay_v1_base *base, struct cay_str name)
{
    bool has = cay_str_equal(base->name, name);
    for (size_t i = 0; i < base->aliases.count; i++)
        has = has || cay_str_equal(base->aliases.items[i], name);
    return has;
}

static bool has_labels(const struct cay_v1_base *base, struct cay_pb_pairs wanted)
{
    for (size_t i = 0; i < wanted.count; i++) {
        bool found = false;
        for (size_t j = 0; j < base->labels.count && !found; j++)
            found = cay_str_equal(base->labels.items[j].key, wanted.items[i].key) &&
                    cay_str_equal(base->labels.items[j].value, wanted.items[i].value);
        if (!found)
            return false;
    }
    return true;
}

static int compare_texts(struct cay_str left, struct cay_str right)
{
    int order = memcmp(left.ptr, right.ptr, CAY_MIN(left.len, right.len));
    return order ? order : (left.len > right.len) - (left.len < right.len);
}

static int compare_names(const void *a, const void *b)
{
    return compare_texts(((const struct cay_v1_base *)a)->name,
                         ((const struct cay_v1_base *)b)->name);
}

/* Leaves in the response what was asked for: the page behind the token. */
static void choose_page(struct list_context *list, const struct cay_v1_list_bases_request *request,
                        size_t page_size)
{
    struct cay_v1_list_bases_response *response = &list->response;
    char wanted[CAY_BASE_FULL_NAME_SIZE] = "";
    struct cay_base_found found;
    struct cay_error ignored = {};
    size_t count = 0;
    if (request->name.len &&
        cay_bases_look_up(list->host, &list->call->caller, request->name, &found, &ignored))
        cay_base_full_name(list->host, found.name, wanted);
    for (size_t i = 0; i < response->bases.count; i++) {
        struct cay_v1_base base = response->bases.items[i];
        if ((request->name.len && !cay_str_is(base.name, wanted)) ||
            !has_labels(&base, request->labels) ||
            (request->page_token.len && compare_texts(base.name, request->page_token) <= 0))
            continue;
        if (count == page_size) {
            response->next_page_token = response->bases.items[count - 1].name;
            break;
        }
        base.is_default = has_name(&base, cay_str(list->host->settings->default_base));
        base.session_count = count_sessions(list->host, &list->call->caller, base.name);
        response->bases.items[count++] = base;
    }
    response->bases.count = count;
}

static bool list_all(struct list_context *list, struct cay_error *err)
{
    if (!cay_store_list(list->host->store, count_item, list, err))
        return false;
    list->response.bases.items =
        cay_arena_array(&list->call->arena, list->room, sizeof(struct cay_v1_base));
    return list->response.bases.items && cay_store_list(list->host->store, add_base, list, err) &&
           cay_store_list(list->host->store, add_alias, list, err);
}

struct cay_v1_base *cay_base_noun(const struct cay_host *host, struct cay_call *call,
                                  const char *key, struct cay_error *err)
{
    struct list_context list = {.call = call, .host = host};
    char name[CAY_BASE_FULL_NAME_SIZE];
    cay_base_full_name(host, key, name);
    if (!list_all(&list, err)) {
        if (!err->reason)
            cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, NULL);
        return NULL;
    }
    for (size_t i = 0; i < list.response.bases.count; i++) {
        if (cay_str_is(list.response.bases.items[i].name, name))
            return &list.response.bases.items[i];
    }
    cay_fail(err, CAY_R_BASE_NOT_FOUND, NULL);
    return NULL;
}

void cay_host_list_bases(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_list_bases_request *request = call->request;
    struct list_context list = {.call = call, .host = cay_host_of(service)};
    struct cay_error err = {};
    size_t page_size =
        request->page_size ? (size_t)request->page_size : CAY_LIMIT_PAGE_SIZE_DEFAULT;
    if (request->page_size < 0 || request->page_size > CAY_LIMIT_PAGE_SIZE)
        cay_fail(&err, CAY_R_INVALID_ARGUMENT, "page_size must be 1 to %d", CAY_LIMIT_PAGE_SIZE);
    else if (!list_all(&list, &err) && !err.reason)
        cay_fail(&err, CAY_R_RESOURCE_EXHAUSTED,
                 "there are too many bases for one answer; ask for fewer with page_size");
    if (err.reason) {
        cay_call_fail(call, &err);
        return;
    }
    if (list.response.bases.count)
        qsort(list.response.bases.items, list.response.bases.count, sizeof(struct cay_v1_base),
              compare_names);
    choose_page(&list, request, page_size);
    cay_call_done(call, &list.response);
}

struct remove_job {
    struct cay_job job;
    struct cay_call *call;
    struct cay_host *host;
    char key[CAY_STORE_NAME_SIZE];
    bool is_alias;
    bool is_done;
    struct cay_error err;
};

static void remove_work(struct cay_job *job)
{
    struct remove_job *self = CAY_CONTAINER_OF(job, struct remove_job, job);
    /* A base without its record is a base; a record without its base is dropped at the next start.
     */
    self->is_done =
        cay_store_base_remove(self->host->store, self->key, &self->err) &&
        (self->is_alias || cay_base_record_delete(self->host->db, self->key, &self->err));
}

static void remove_done(struct cay_job *job)
{
    struct remove_job *self = CAY_CONTAINER_OF(job, struct remove_job, job);
    self->host->base_calls--;
    const struct cay_base_entry *entry = cay_map_get(&self->host->bases, cay_str(self->key));
    struct cay_v1_remove_base_response response = {
        .freed_bytes = entry && !self->is_alias ? entry->spec->size_bytes : 0};
    if (self->is_done) {
        if (self->is_alias)
            cay_bases_sweep(self->host);
        else
            cay_bases_remove(self->host, self->key);
        cay_host_collect_soon(self->host);
        cay_call_done(self->call, &response);
    } else {
        cay_call_fail(self->call, &self->err);
    }
    free(self);
}

static bool check_remove(struct cay_host *host, const struct cay_call *call,
                         struct remove_job *self, struct cay_error *err)
{
    const struct cay_v1_remove_base_request *request = call->request;
    const struct cay_caller everybody = {.role = CAY_ROLE_ADMIN};
    struct cay_base_found found;
    if (!cay_bases_look_up(host, &call->caller, request->name, &found, err) ||
        !cay_host_is_still(host, err))
        return false;
    if (call->caller.role != CAY_ROLE_ADMIN && !(found.record && found.record->owner.len))
        return cay_fail(err, CAY_R_PERMISSION_DENIED,
                        "only an admin may remove bases that are for everybody");
    memcpy(self->key, found.key, sizeof(self->key));
    self->is_alias = strcmp(found.name, self->key) != 0;
    char name[CAY_BASE_FULL_NAME_SIZE];
    cay_base_full_name(host, found.name, name);
    int64_t count = self->is_alias ? 0 : count_sessions(host, &everybody, cay_str(name));
    if (count && !request->force)
        return cay_fail(err, CAY_R_BASE_IN_USE,
                        "%lld session%s the base; remove %s first, or use force", (long long)count,
                        count == 1 ? " stands on" : "s stand on",
                        count == 1 ? "that session" : "those sessions");
    return true;
}

void cay_host_remove_base(struct cay_service *service, struct cay_call *call)
{
    struct cay_host *host = cay_host_of(service);
    struct remove_job *self = cay_new(struct remove_job);
    if (!check_remove(host, call, self, &self->err)) {
        cay_call_fail(call, &self->err);
        free(self);
        return;
    }
    self->call = call;
    self->host = host;
    host->base_calls++;
    self->job.work = remove_work;
    self->job.done = remove_done;
    self->job.lane = &cay_account_of(host, call->caller.owner)->lane;
    cay_loop_submit(host->loop, &self->job);
}
