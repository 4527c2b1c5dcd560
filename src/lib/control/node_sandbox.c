/* SPDX-License-Identifier: Apache-2.0 */
#include "api/limits.h"
#include "api/noun.h"
#include "base/id.h"
#include "lib/control/node_internal.h"
#include "lib/control/result.h"
#include "lib/entry.h"

enum {
    LIST_PAGES_MAX = 100'000, /* a daemon that never comes to an end is not believed */
    LIST_ROOM = 64,
    NS_PER_MS = 1'000'000,
};

/* --- what the daemon tells, as the caller gets it --- */

static const char *state_name(enum cay_v1_session_state state)
{
    static const char *const names[] = {
        [CAY_V1_SESSION_STATE_CREATING] = "creating",
        [CAY_V1_SESSION_STATE_ACTIVE] = "active",
        [CAY_V1_SESSION_STATE_PAUSED] = "paused",
        [CAY_V1_SESSION_STATE_DESTROYING] = "destroying",
        [CAY_V1_SESSION_STATE_FAILED] = "failed",
    };
    return (size_t)state < CAY_COUNT(names) && names[state] ? names[state] : "unknown";
}

static bool copy_labels(const struct cay_pb_pairs *labels, struct cay_arena *arena,
                        struct cay_sandbox_info *info)
{
    struct cay_pair *pairs = cay_arena_array(arena, labels->count, sizeof(*pairs));
    if (!pairs)
        return false;
    for (size_t i = 0; i < labels->count; i++) {
        pairs[i] = (struct cay_pair){
            .name = cay_arena_copy(arena, labels->items[i].key),
            .value = cay_arena_copy(arena, labels->items[i].value),
        };
        if (!pairs[i].name || !pairs[i].value)
            return false;
    }
    info->labels = pairs;
    info->label_count = labels->count;
    return true;
}

/* False: there is not enough memory. */
static bool fill_info(const struct cay_node *node, const struct cay_v1_session *session,
                      struct cay_arena *arena, struct cay_sandbox_info *info)
{
    *info = (struct cay_sandbox_info){
        .sandbox_id = cay_arena_copy(arena, session->id),
        .address = cay_arena_copy(arena, cay_str(node->place.address)),
        .state = state_name(session->state),
        .template_name = cay_arena_copy(arena, session->base),
        .created_ms = session->created_at ? cay_noun_time_ns(session->created_at) / NS_PER_MS : 0,
    };
    return info->sandbox_id && info->address && info->template_name &&
           copy_labels(&session->labels, arena, info);
}

/* --- one sandbox --- */

/* A limit that is asked for is kept, or there is no sandbox. */
static bool put_limits(struct cay_node_use *use, const struct cay_sandbox_request *wanted,
                       struct cay_v1_resource_limits *out, struct cay_error *err)
{
    const struct cay_control_capabilities *ignored = NULL;
    *out = (struct cay_v1_resource_limits){
        .cpus = wanted->cpus,
        .memory_bytes = wanted->memory_bytes,
        .pids = wanted->process_count,
        .disk_bytes = wanted->disk_bytes,
        .has_cpus = wanted->cpus > 0,
        .has_memory_bytes = wanted->memory_bytes > 0,
        .has_pids = wanted->process_count > 0,
        .has_disk_bytes = wanted->disk_bytes > 0,
    };
    const bool is_set[CAY_NODE_LIMITS] = {
        [CAY_NODE_CPUS] = out->has_cpus,
        [CAY_NODE_MEMORY] = out->has_memory_bytes,
        [CAY_NODE_PIDS] = out->has_pids,
        [CAY_NODE_DISK] = out->has_disk_bytes,
    };
    for (size_t kind = 0; kind < CAY_NODE_LIMITS; kind++) {
        if (!is_set[kind])
            continue;
        if (!cay_node_capabilities(&use->node->control, &use->options, &ignored, err))
            return false;
        if (use->node->is_unkept[kind])
            return cay_fail(err, CAY_R_CAPABILITY_NOT_SUPPORTED,
                            "the host at %.100s cannot limit %s; 'cay doctor' there says why",
                            use->node->place.address, cay_node_limit_names[kind]);
    }
    return true;
}

static bool put_network(const char *name, struct cay_v1_network_policy *out, struct cay_error *err)
{
    struct cay_str mode = cay_str(name);
    if (cay_str_is(mode, "none"))
        out->mode = CAY_V1_NETWORK_MODE_NONE;
    else if (cay_str_is(mode, "open"))
        out->mode = CAY_V1_NETWORK_MODE_OPEN;
    else if (mode.len)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "there is no network '%.40s'; write none or open", name);
    return true;
}

/* For verbs that do no harm when they are repeated: an answer that was lost is asked for again. */
static bool call_again(struct cay_node_use *use, const struct cay_pb_method *method,
                       const void *request, void *out_answer, struct cay_error *err)
{
    return cay_node_call(use, method, request, out_answer, err) ||
           (cay_node_is_lost(err) && cay_node_call(use, method, request, out_answer, err));
}

bool cay_node_create(struct cay_control *control, const struct cay_sandbox_request *wanted,
                     const struct cay_call_options *options, struct cay_sandbox_info **out_info,
                     struct cay_error *err)
{
    struct cay_v1_resource_limits limits = {};
    struct cay_v1_network_policy network = {};
    struct cay_v1_create_session_response answer = {};
    char made_up[CAY_ID_SIZE];
    bool has_id = wanted->sandbox_id && *wanted->sandbox_id;
    /* Here, not there: only a create with an id can be repeated. */
    if (!has_id && !cay_entry_id(made_up, sizeof(made_up), "s", err))
        return false;
    struct cay_v1_create_session_request request = {
        .session_id = cay_str(has_id ? wanted->sandbox_id : made_up),
        .base = cay_str(wanted->template_name),
        .limits = &limits,
        .network = wanted->network && *wanted->network ? &network : NULL,
        .runtime = cay_str(wanted->runtime),
    };
    cay_auto(cay_node_end) struct cay_node_use use;
    cay_node_begin(&use, control, options);
    if (!cay_node_pairs(&use, wanted->labels, wanted->label_count, &request.labels, err) ||
        !put_network(wanted->network, &network, err) || !put_limits(&use, wanted, &limits, err) ||
        !call_again(&use, &cay_v1_sandbox_service_create_session_method, &request, &answer, err))
        return false;
    if (!answer.session)
        return cay_fail(err, CAY_R_INTERNAL, "the daemon does not say which sandbox it made");
    struct cay_sandbox_info *info = cay_result_new(sizeof(*info));
    if (!info || !fill_info(use.node, answer.session, cay_result_arena(info), info)) {
        cay_result_free(info);
        return cay_node_no_memory(err);
    }
    *out_info = info;
    return true;
}

bool cay_node_destroy(struct cay_control *control, const char *sandbox_id,
                      const struct cay_call_options *options, struct cay_error *err)
{
    cay_auto(cay_node_end) struct cay_node_use use;
    cay_node_begin(&use, control, options);
    const struct cay_v1_destroy_session_request request = {.session_id = cay_str(sandbox_id),
                                                           .missing_ok = true};
    struct cay_v1_destroy_session_response answer = {};
    return call_again(&use, &cay_v1_sandbox_service_destroy_session_method, &request, &answer, err);
}

bool cay_node_pause(struct cay_control *control, const char *sandbox_id,
                    const struct cay_call_options *options, struct cay_error *err)
{
    cay_auto(cay_node_end) struct cay_node_use use;
    cay_node_begin(&use, control, options);
    const struct cay_v1_pause_session_request request = {.session_id = cay_str(sandbox_id)};
    struct cay_v1_pause_session_response answer = {};
    return cay_node_call(&use, &cay_v1_sandbox_service_pause_session_method, &request, &answer,
                         err);
}

bool cay_node_resume(struct cay_control *control, const char *sandbox_id,
                     const struct cay_call_options *options, struct cay_error *err)
{
    cay_auto(cay_node_end) struct cay_node_use use;
    cay_node_begin(&use, control, options);
    const struct cay_v1_resume_session_request request = {.session_id = cay_str(sandbox_id)};
    struct cay_v1_resume_session_response answer = {};
    return cay_node_call(&use, &cay_v1_sandbox_service_resume_session_method, &request, &answer,
                         err);
}

/* --- all of them --- */

/* What is made of all pages. */
struct listing {
    const struct cay_node *node;
    struct cay_arena *arena; /* of the result */
    const struct cay_sandbox_info **items;
    size_t count;
    size_t room;
};

static bool make_room(struct listing *listing)
{
    size_t room = listing->room ? 2 * listing->room : LIST_ROOM;
    if (listing->count < listing->room)
        return true;
    const struct cay_sandbox_info **items =
        cay_arena_array(listing->arena, room, sizeof(const struct cay_sandbox_info *));
    if (!items)
        return false;
    for (size_t i = 0; i < listing->count; i++)
        items[i] = listing->items[i];
    listing->items = items;
    listing->room = room;
    return true;
}

static bool add_page(struct listing *listing, const struct cay_v1_session_array *sessions)
{
    for (size_t i = 0; i < sessions->count; i++) {
        struct cay_sandbox_info *info = cay_arena_new(listing->arena, struct cay_sandbox_info);
        if (!info || !make_room(listing) ||
            !fill_info(listing->node, &sessions->items[i], listing->arena, info))
            return false;
        listing->items[listing->count++] = info;
    }
    return true;
}

static bool read_pages(struct cay_node_use *use, struct cay_v1_list_sessions_request *request,
                       struct listing *listing, struct cay_error *err)
{
    for (size_t i = 0; i < LIST_PAGES_MAX; i++) {
        cay_auto(cay_node_end) struct cay_node_use page = *use;
        struct cay_v1_list_sessions_response answer = {};
        cay_arena_init(&page.arena, CAY_LIMIT_CALL_ARENA_BYTES);
        if (!cay_node_call(&page, &cay_v1_sandbox_service_list_sessions_method, request, &answer,
                           err))
            return false;
        const char *token = cay_arena_copy(listing->arena, answer.next_page_token);
        if (!token || !add_page(listing, &answer.sessions))
            return cay_node_no_memory(err);
        if (!*token)
            return true;
        request->page_token = cay_str(token);
    }
    return cay_fail(err, CAY_R_INTERNAL, "the daemon's list does not come to an end");
}

bool cay_node_list(struct cay_control *control, const struct cay_pair *labels, size_t label_count,
                   const struct cay_call_options *options, struct cay_sandbox_list **out_list,
                   struct cay_error *err)
{
    cay_auto(cay_node_end) struct cay_node_use use;
    cay_node_begin(&use, control, options);
    struct cay_v1_list_sessions_request request = {.order = CAY_V1_ORDER_CREATED_ASC,
                                                   .page_size = CAY_LIMIT_PAGE_SIZE};
    if (!cay_node_pairs(&use, labels, label_count, &request.labels, err))
        return false;
    struct cay_sandbox_list *list = cay_result_new(sizeof(*list));
    if (!list)
        return cay_node_no_memory(err);
    struct listing listing = {.node = use.node, .arena = cay_result_arena(list)};
    if (!read_pages(&use, &request, &listing, err)) {
        cay_result_free(list);
        return false;
    }
    list->items = listing.items;
    list->count = listing.count;
    *out_list = list;
    return true;
}
