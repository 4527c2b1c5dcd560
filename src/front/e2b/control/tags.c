/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/limits.h"
#include "api/noun.h"
#include "front/e2b/control/handlers.h"
#include "front/e2b/control/shape.h"
#include "front/e2b/control/snapshot.h"
#include "front/e2b/control/template.h"
#include "wire/e2b/e2b.h"

/* Tags of the caller's own templates, and how templates go: tags are aliases of bases. */

enum { TAGS_MAX = 64 };

/* What is done one call after the other. */
struct chain {
    struct cay_str *names;
    size_t count;
    size_t at;
};

/* "OWNER/NAME:", which the aliases of a template begin with. */
static struct cay_str alias_prefix(struct cay_rest_request *request, struct cay_str name)
{
    struct cay_str alias = cay_e2b_own_alias(request, name, CAY_STR("x"));
    return (struct cay_str){alias.ptr, alias.len ? alias.len - 1 : 0};
}

/* The tag, if the alias is of the template; empty otherwise. */
static struct cay_str tag_of(struct cay_str alias, struct cay_str prefix)
{
    if (alias.len <= prefix.len || memcmp(alias.ptr, prefix.ptr, prefix.len) != 0)
        return (struct cay_str){};
    return (struct cay_str){alias.ptr + prefix.len, alias.len - prefix.len};
}

/* All builds of the template that have a name. */
static void list_builds(struct cay_rest_request *request, struct cay_str name,
                        cay_rest_done_fn *done)
{
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_BASE_SERVICE_LIST_BASES);
    struct cay_v1_list_bases_request *ask = cay_rest_call_message(call);
    struct cay_pb_pair *label = cay_arena_new(&call->errand.call.arena, struct cay_pb_pair);
    if (label) {
        *label = (struct cay_pb_pair){CAY_STR(CAY_E2B_LABEL_TEMPLATE), name};
        ask->labels = (struct cay_pb_pairs){label, 1};
    }
    ask->page_size = CAY_LIMIT_PAGE_SIZE;
    cay_rest_call_start(call, done);
}

static void not_found(struct cay_rest_request *request)
{
    cay_rest_reply_fault(request, 404, "there is no such template of yours");
}

/* --- GET /templates/{}/tags --- */

static void write_tags(struct cay_json_writer *json, const struct cay_v1_base *base,
                       struct cay_str prefix, size_t *count)
{
    for (size_t i = 0; i < base->aliases.count; i++) {
        struct cay_str tag = tag_of(base->aliases.items[i], prefix);
        if (!tag.len)
            continue;
        ++*count;
        cay_json_object_begin(json);
        cay_json_key(json, "tag");
        cay_json_string(json, tag);
        cay_json_key(json, "buildID");
        cay_json_string(json, cay_e2b_template_name(base->name));
        cay_e2b_write_time(json, "createdAt",
                           base->created_at ? cay_noun_time_ns(base->created_at) : 0);
        cay_json_object_end(json);
    }
}

static void listed_tags(struct cay_rest_request *request, struct cay_rest_call *,
                        const void *response, const struct cay_error *err)
{
    const struct cay_v1_list_bases_response *list = response;
    const struct cay_e2b_ref *ref = request->state;
    struct cay_str prefix = alias_prefix(request, ref->name);
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, CAY_LIMIT_MESSAGE_BYTES);
    struct cay_json_writer json = {.buf = &body};
    size_t count = 0;
    if (err) {
        cay_rest_reply_error(request, err);
        return;
    }
    cay_json_array_begin(&json);
    for (size_t i = 0; i < list->bases.count; i++)
        write_tags(&json, &list->bases.items[i], prefix, &count);
    cay_json_array_end(&json);
    if (count)
        cay_rest_reply_json(request, 200, cay_buf_str(&body));
    else
        not_found(request);
}

/* The template in the path, kept as the request's state; NULL: answered. */
static struct cay_e2b_ref *path_ref(struct cay_rest_request *request)
{
    struct cay_e2b_ref *ref = cay_arena_new(&request->arena, struct cay_e2b_ref);
    if (!ref || !cay_e2b_ref_parse(request->params[0], &request->arena, ref) ||
        (ref->space.len && !cay_str_is(ref->space, request->caller.owner))) {
        not_found(request);
        return NULL;
    }
    request->state = ref;
    return ref;
}

void cay_e2b_list_tags(struct cay_rest_request *request)
{
    const struct cay_e2b_ref *ref = path_ref(request);
    if (ref)
        list_builds(request, ref->name, listed_tags);
}

/* --- POST and DELETE /templates/tags --- */

/* Tags as clients write them, without doubles. NULL: answered. */
static struct chain *read_tags(struct cay_rest_request *request, struct cay_pb_strs tags)
{
    struct chain *chain = cay_arena_new(&request->arena, struct chain);
    struct cay_str *names = cay_arena_array(&request->arena, tags.count, sizeof(struct cay_str));
    bool is_good = chain && names && tags.count && tags.count <= TAGS_MAX;
    for (size_t i = 0; is_good && i < tags.count; i++) {
        struct cay_str tag;
        is_good = cay_e2b_tag_parse(tags.items[i], &request->arena, &tag);
        bool is_known = false;
        for (size_t j = 0; j < chain->count; j++)
            is_known = is_known || cay_str_equal(names[j], tag);
        if (!is_known)
            names[chain->count++] = tag;
    }
    if (!is_good) {
        cay_rest_reply_fault(request, 400,
                             "there must be 1 to 64 tags of letters, digits, '-', '_' and '.'");
        return NULL;
    }
    chain->names = names;
    return chain;
}

static void assigned(struct cay_rest_request *request, struct cay_rest_call *, const void *response,
                     const struct cay_error *err)
{
    const struct cay_v1_update_base_response *made = response;
    const struct chain *tags = request->state;
    if (err) {
        cay_rest_reply_error(request, err);
        return;
    }
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, CAY_LIMIT_MESSAGE_BYTES);
    struct cay_json_writer json = {.buf = &body};
    cay_json_object_begin(&json);
    cay_json_key(&json, "buildID");
    cay_json_string(&json, cay_e2b_template_name(made->base->name));
    cay_json_key(&json, "tags");
    cay_json_array_begin(&json);
    for (size_t i = 0; i < tags->count; i++)
        cay_json_string(&json, tags->names[i]);
    cay_json_array_end(&json);
    cay_json_object_end(&json);
    cay_rest_reply_json(request, 201, cay_buf_str(&body));
}

void cay_e2b_assign_tags(struct cay_rest_request *request)
{
    const struct e2b_assign_tags *wanted = cay_rest_read(request, &e2b_assign_tags_desc);
    struct cay_e2b_ref ref;
    if (!wanted || !cay_e2b_own_ref(request, wanted->target, &ref))
        return;
    struct chain *tags = read_tags(request, wanted->tags);
    if (!tags)
        return;
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_BASE_SERVICE_UPDATE_BASE);
    struct cay_v1_update_base_request *ask = cay_rest_call_message(call);
    ask->name = cay_e2b_own_alias(request, ref.name, ref.tag);
    ask->add_aliases.items =
        cay_arena_array(&call->errand.call.arena, tags->count, sizeof(struct cay_str));
    for (size_t i = 0; ask->add_aliases.items && i < tags->count; i++)
        ask->add_aliases.items[ask->add_aliases.count++] =
            cay_e2b_own_alias(request, ref.name, tags->names[i]);
    request->state = tags;
    cay_rest_call_start(call, assigned);
}

static void remove_next(struct cay_rest_request *request);

static void removed_one(struct cay_rest_request *request, struct cay_rest_call *, const void *,
                        const struct cay_error *err)
{
    struct chain *chain = request->state;
    if (err) {
        cay_rest_reply_error(request, err);
        return;
    }
    chain->at++;
    remove_next(request);
}

/* Bases or aliases, whichever the chain has. */
static void remove_next(struct cay_rest_request *request)
{
    const struct chain *chain = request->state;
    if (chain->at == chain->count) {
        cay_rest_reply_empty(request, 204);
        return;
    }
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_BASE_SERVICE_REMOVE_BASE);
    struct cay_v1_remove_base_request *ask = cay_rest_call_message(call);
    ask->name = chain->names[chain->at];
    ask->force = true; /* sandboxes go on */
    cay_rest_call_start(call, removed_one);
}

void cay_e2b_remove_tags(struct cay_rest_request *request)
{
    const struct e2b_remove_tags *wanted = cay_rest_read(request, &e2b_remove_tags_desc);
    struct cay_e2b_ref ref;
    if (!wanted || !cay_e2b_own_ref(request, wanted->name, &ref))
        return;
    struct chain *chain = read_tags(request, wanted->tags);
    if (!chain)
        return;
    for (size_t i = 0; i < chain->count; i++)
        chain->names[i] = cay_e2b_own_alias(request, ref.name, chain->names[i]);
    request->state = chain;
    remove_next(request);
}

/* --- DELETE /templates/{} --- */

static bool is_build_of(const struct cay_v1_base *base, struct cay_str prefix)
{
    for (size_t i = 0; i < base->aliases.count; i++) {
        if (tag_of(base->aliases.items[i], prefix).len)
            return true;
    }
    return false;
}

static void listed_builds(struct cay_rest_request *request, struct cay_rest_call *,
                          const void *response, const struct cay_error *err)
{
    const struct cay_v1_list_bases_response *list = response;
    const struct cay_e2b_ref *ref = request->state;
    struct cay_str prefix = alias_prefix(request, ref->name);
    struct chain *chain = cay_arena_new(&request->arena, struct chain);
    if (err) {
        cay_rest_reply_error(request, err);
        return;
    }
    if (chain)
        chain->names = cay_arena_array(&request->arena, list->bases.count, sizeof(struct cay_str));
    for (size_t i = 0; chain && chain->names && i < list->bases.count; i++) {
        if (is_build_of(&list->bases.items[i], prefix))
            chain->names[chain->count++] =
                cay_arena_str(&request->arena, list->bases.items[i].name);
    }
    if (!chain || !chain->count) {
        not_found(request);
        return;
    }
    request->state = chain;
    remove_next(request);
}

static void delete_found(struct cay_rest_request *request, struct cay_str session_id)
{
    if (session_id.len) {
        cay_e2b_delete_snapshot(request, session_id);
        return;
    }
    const struct cay_e2b_ref *ref = path_ref(request);
    if (ref)
        list_builds(request, ref->name, listed_builds);
}

void cay_e2b_delete_template(struct cay_rest_request *request)
{
    cay_e2b_snapshot_find(request, request->params[0], delete_found);
}
