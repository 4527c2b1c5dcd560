/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/control/snapshot.h"

#include "api/limits.h"
#include "api/noun.h"
#include "base/id.h"
#include "front/e2b/control/shape.h"
#include "wire/e2b/e2b.h"

static void write_snapshot(struct cay_rest_request *request, struct cay_json_writer *json,
                           const struct cay_v1_session *session)
{
    struct cay_arena *arena = &request->arena;
    struct cay_str name = cay_e2b_label(session, CAY_E2B_LABEL_NAME);
    const char *full = name.len ? cay_arena_printf(arena, "%.*s/%.*s", (int)session->owner.len,
                                                   session->owner.ptr, (int)name.len, name.ptr)
                                : NULL;
    const char *id =
        full ? cay_arena_printf(arena, "%s:default", full)
             : cay_arena_printf(arena, "%.*s:default", (int)session->id.len, session->id.ptr);
    cay_json_object_begin(json);
    cay_json_key(json, "snapshotID");
    cay_json_text(json, id ? id : "");
    cay_json_key(json, "names");
    cay_json_array_begin(json);
    if (full)
        cay_json_text(json, full);
    cay_json_array_end(json);
    cay_json_object_end(json);
}

/* "owner/name:tag", "name", "id:tag": the part between. False when it is of somebody else. */
static bool bare_name(const struct cay_rest_request *request, struct cay_str text,
                      struct cay_str *out_name)
{
    struct cay_str owner;
    struct cay_str rest = text;
    if (cay_str_split(&rest, '/', &owner) && rest.ptr) {
        if (!cay_str_is(owner, request->caller.owner))
            return false;
        text = rest;
    }
    return cay_str_split(&text, ':', out_name) && (!text.ptr || cay_str_is(text, "default"));
}

/* A list of the caller's snapshots. */
static struct cay_rest_call *list_call(struct cay_rest_request *request, struct cay_str source,
                                       struct cay_str name)
{
    enum { LABELS_MAX = 3 };
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_SANDBOX_SERVICE_LIST_SESSIONS);
    struct cay_v1_list_sessions_request *ask = cay_rest_call_message(call);
    struct cay_pb_pair *labels =
        cay_arena_array(&call->errand.call.arena, LABELS_MAX, sizeof(struct cay_pb_pair));
    ask->owner = cay_str(request->caller.owner);
    if (!labels)
        return call;
    ask->labels.items = labels;
    labels[ask->labels.count++] =
        (struct cay_pb_pair){CAY_STR(CAY_LABEL_HIDDEN), CAY_STR(CAY_E2B_SNAPSHOT)};
    if (source.len)
        labels[ask->labels.count++] = (struct cay_pb_pair){CAY_STR(CAY_E2B_LABEL_SOURCE), source};
    if (name.len)
        labels[ask->labels.count++] = (struct cay_pb_pair){CAY_STR(CAY_E2B_LABEL_NAME), name};
    return call;
}

/* A snapshot that was just taken, and those that it takes the name of. */
struct taking {
    struct cay_str name;
    struct cay_pb_strs metadata; /* keys of the source's, which is the sandbox's own business */
    struct cay_str made_id;
    struct cay_str answer;
    struct cay_str *older;
    size_t older_count;
    size_t at;
};

static void remove_next(struct cay_rest_request *request, struct taking *self);

/* One that cannot be removed is harmless: the newest of a name counts. */
static void removed(struct cay_rest_request *request, struct cay_rest_call *, const void *,
                    const struct cay_error *)
{
    remove_next(request, request->state);
}

static void remove_next(struct cay_rest_request *request, struct taking *self)
{
    if (self->at == self->older_count) {
        cay_rest_reply_json(request, 201, self->answer);
        return;
    }
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_SANDBOX_SERVICE_DESTROY_SESSION);
    struct cay_v1_destroy_session_request *ask = cay_rest_call_message(call);
    ask->session_id = self->older[self->at++];
    cay_rest_call_start(call, removed);
}

static void listed_same(struct cay_rest_request *request, struct cay_rest_call *,
                        const void *response, const struct cay_error *err)
{
    const struct cay_v1_list_sessions_response *list = response;
    struct taking *self = request->state;
    size_t count = err ? 0 : list->sessions.count;
    bool is_older = false; /* of two that are taken at once, the newer stays */
    self->older = cay_arena_array(&request->arena, count, sizeof(struct cay_str));
    for (size_t i = 0; self->older && i < count; i++) {
        struct cay_str id = cay_arena_str(&request->arena, list->sessions.items[i].id);
        if (is_older && id.len)
            self->older[self->older_count++] = id;
        is_older = is_older || cay_str_equal(id, self->made_id);
    }
    remove_next(request, self);
}

static void stripped(struct cay_rest_request *request, struct cay_rest_call *, const void *,
                     const struct cay_error *err)
{
    struct taking *self = request->state;
    if (err) {
        cay_rest_reply_error(request, err);
        return;
    }
    if (!self->name.len) {
        cay_rest_reply_json(request, 201, self->answer);
        return;
    }
    struct cay_rest_call *call = list_call(request, (struct cay_str){}, self->name);
    struct cay_v1_list_sessions_request *ask = cay_rest_call_message(call);
    ask->order = CAY_V1_ORDER_CREATED_DESC;
    cay_rest_call_start(call, listed_same);
}

static void taken(struct cay_rest_request *request, struct cay_rest_call *, const void *response,
                  const struct cay_error *err)
{
    const struct cay_v1_fork_session_response *made = response;
    struct taking *self = request->state;
    if (err) {
        cay_rest_reply_error(request, err);
        return;
    }
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, CAY_LIMIT_MESSAGE_BYTES);
    struct cay_json_writer json = {.buf = &body};
    write_snapshot(request, &json, made->forks.items[0].session);
    self->answer = cay_arena_str(&request->arena, cay_buf_str(&body));
    self->made_id = cay_arena_str(&request->arena, made->forks.items[0].session->id);
    if (!self->made_id.len || !self->answer.len) {
        cay_rest_reply_fault(request, 413, "the request is too large");
        return;
    }
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_SANDBOX_SERVICE_UPDATE_SESSION);
    struct cay_v1_update_session_request *ask = cay_rest_call_message(call);
    ask->session_id = self->made_id;
    ask->remove_labels = self->metadata;
    cay_rest_call_start(call, stripped);
}

static struct cay_pb_strs metadata_of(const struct cay_v1_session *session, struct cay_arena *arena)
{
    struct cay_pb_strs keys = {
        .items = cay_arena_array(arena, session->labels.count, sizeof(struct cay_str))};
    for (size_t i = 0; keys.items && i < session->labels.count; i++) {
        if (!cay_e2b_is_own_label(session->labels.items[i].key))
            keys.items[keys.count++] = cay_arena_str(arena, session->labels.items[i].key);
    }
    return keys;
}

static void take(struct cay_rest_request *request, const struct cay_v1_get_session_response *got,
                 void *state)
{
    enum { LABELS = 3 };
    struct taking *self = state;
    self->metadata = metadata_of(got->session, &request->arena);
    struct cay_str id = cay_e2b_id_cut(request->params[0]);
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_SANDBOX_SERVICE_FORK_SESSION);
    struct cay_v1_fork_session_request *ask = cay_rest_call_message(call);
    struct cay_pb_pair *labels =
        cay_arena_array(&call->errand.call.arena, LABELS, sizeof(struct cay_pb_pair));
    ask->session_id = id;
    ask->lazy_start = true;
    /* Empty, not absent: it has no deadline whatever its source has. */
    ask->lifecycle = cay_arena_new(&call->errand.call.arena, struct cay_v1_lifecycle);
    if (labels) {
        labels[0] = (struct cay_pb_pair){CAY_STR(CAY_LABEL_HIDDEN), CAY_STR(CAY_E2B_SNAPSHOT)};
        labels[1] = (struct cay_pb_pair){CAY_STR(CAY_E2B_LABEL_SOURCE), id};
        labels[2] = (struct cay_pb_pair){CAY_STR(CAY_E2B_LABEL_NAME), self->name};
        ask->labels = (struct cay_pb_pairs){labels, LABELS};
    }
    request->state = self;
    cay_rest_call_start(call, taken);
}

void cay_e2b_take_snapshot(struct cay_rest_request *request)
{
    const struct e2b_new_snapshot *wanted = cay_rest_read(request, &e2b_new_snapshot_desc);
    if (!wanted)
        return;
    struct taking *self = cay_arena_new(&request->arena, struct taking);
    bool is_good = self && (!wanted->name.len || (bare_name(request, wanted->name, &self->name) &&
                                                  cay_id_valid(self->name)));
    if (is_good)
        cay_e2b_get_sandbox(request, take, self);
    else
        cay_rest_reply_fault(request, 400,
                             "name: letters, digits, '.', '_' or '-', the first a letter or digit");
}

static void listed(struct cay_rest_request *request, struct cay_rest_call *, const void *response,
                   const struct cay_error *err)
{
    cay_e2b_reply_list(request, response, err, write_snapshot);
}

void cay_e2b_list_snapshots(struct cay_rest_request *request)
{
    int32_t page_size = 0;
    struct cay_str token;
    struct cay_str wanted = cay_rest_query(request, "name");
    struct cay_str name = {};
    if (wanted.len && !bare_name(request, wanted, &name)) {
        cay_rest_reply_json(request, 200, CAY_STR("[]"));
        return;
    }
    if (!cay_e2b_read_page(request, &page_size, &token))
        return;
    struct cay_rest_call *call =
        list_call(request, cay_e2b_id_cut(cay_rest_query(request, "sandboxID")), name);
    struct cay_v1_list_sessions_request *ask = cay_rest_call_message(call);
    ask->page_size = page_size;
    ask->page_token = token;
    cay_rest_call_start(call, listed);
}

static void found_by_name(struct cay_rest_request *request, struct cay_rest_call *call,
                          const void *response, const struct cay_error *err)
{
    const struct cay_v1_list_sessions_response *list = response;
    cay_e2b_snapshot_fn *found = *(cay_e2b_snapshot_fn **)call->state;
    if (err)
        cay_rest_reply_error(request, err);
    else
        found(request, list->sessions.count
                           ? cay_arena_str(&request->arena, list->sessions.items[0].id)
                           : (struct cay_str){});
}

struct lookup {
    cay_e2b_snapshot_fn *found; /* first */
    struct cay_str name;
};

static void find_by_name(struct cay_rest_request *request, struct lookup *lookup)
{
    struct cay_rest_call *next = list_call(request, (struct cay_str){}, lookup->name);
    struct cay_v1_list_sessions_request *ask = cay_rest_call_message(next);
    ask->page_size = 1;
    next->state = lookup;
    cay_rest_call_start(next, found_by_name);
}

static void found_by_id(struct cay_rest_request *request, struct cay_rest_call *call,
                        const void *response, const struct cay_error *err)
{
    const struct cay_v1_get_session_response *got = response;
    struct lookup *lookup = call->state;
    if (!err && cay_str_is(cay_e2b_label(got->session, CAY_LABEL_HIDDEN), CAY_E2B_SNAPSHOT))
        lookup->found(request, lookup->name);
    else
        find_by_name(request, lookup);
}

void cay_e2b_snapshot_find(struct cay_rest_request *request, struct cay_str name,
                           cay_e2b_snapshot_fn *found)
{
    struct lookup *lookup = cay_arena_new(&request->arena, struct lookup);
    if (!lookup || !bare_name(request, name, &lookup->name) || !cay_id_valid(lookup->name)) {
        found(request, (struct cay_str){});
        return;
    }
    lookup->found = found;
    if (!cay_e2b_id_valid(lookup->name)) { /* no id of one, only a name */
        find_by_name(request, lookup);
        return;
    }
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_SANDBOX_SERVICE_GET_SESSION);
    struct cay_v1_get_session_request *ask = cay_rest_call_message(call);
    ask->session_id = lookup->name;
    call->state = lookup;
    cay_rest_call_start(call, found_by_id);
}

void cay_e2b_delete_snapshot(struct cay_rest_request *request, struct cay_str session_id)
{
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_SANDBOX_SERVICE_DESTROY_SESSION);
    struct cay_v1_destroy_session_request *ask = cay_rest_call_message(call);
    ask->session_id = session_id;
    cay_rest_call_start(call, cay_e2b_done_empty);
}
