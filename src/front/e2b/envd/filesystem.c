/* SPDX-License-Identifier: Apache-2.0 */
#include "api/limits.h"
#include "front/e2b/envd/entry.h"
#include "front/e2b/envd/handlers.h"
#include "front/e2b/envd/rpc.h"
#include "front/rest/call.h"
#include "wire/e2b/e2b.h"

/* filesystem.Filesystem, but for watching. */

enum {
    LIST_PAGE = 10000,
    LIST_DEPTH_MAX = 64, /* the hallway's */
};

static void reply_entry(struct cay_rest_request *request, const struct cay_v1_file_info *info)
{
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, CAY_LIMIT_MESSAGE_BYTES);
    struct cay_json_writer json = {.buf = &body};
    cay_json_object_begin(&json);
    cay_json_key(&json, "entry");
    cay_e2b_write_entry(&json, info);
    cay_json_object_end(&json);
    cay_e2b_rpc_reply(request, cay_buf_str(&body));
}

/* The message of a call about one path, and whom it is made as. */
static const void *read_call(struct cay_rest_request *request, const struct cay_pb_message *desc,
                             struct cay_str *out_user)
{
    const void *message = cay_e2b_rpc_read(request, desc);
    return message && cay_e2b_rpc_user(request, out_user) ? message : NULL;
}

static void stated(struct cay_rest_request *request, struct cay_rest_call *, const void *response,
                   const struct cay_error *err)
{
    const struct cay_v1_stat_file_response *stat = response;
    if (err)
        cay_e2b_rpc_error(request, err);
    else
        reply_entry(request, stat->info);
}

void cay_e2b_filesystem_stat(struct cay_rest_request *request)
{
    struct cay_str user;
    const struct e2b_path_request *wanted = read_call(request, &e2b_path_request_desc, &user);
    if (!wanted)
        return;
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_FILE_SERVICE_STAT_FILE);
    struct cay_v1_stat_file_request *ask = cay_rest_call_message(call);
    ask->session_id = cay_e2b_visit(request)->sandbox_id;
    ask->path = cay_e2b_path(request, wanted->path);
    ask->user = user;
    cay_rest_call_start(call, stated);
}

/* Something is in the way: a directory is what was wanted, and anything else is a mistake. */
static void looked_at_existing(struct cay_rest_request *request, struct cay_rest_call *,
                               const void *response, const struct cay_error *err)
{
    const struct cay_v1_stat_file_response *stat = response;
    if (err)
        cay_e2b_rpc_error(request, err);
    else if (stat->info->type == CAY_V1_FILE_TYPE_DIRECTORY)
        cay_e2b_rpc_fail(request, CAY_CODE_ALREADY_EXISTS, "the directory exists already");
    else
        cay_e2b_rpc_fail(request, CAY_CODE_INVALID_ARGUMENT,
                         "the path exists already, and is not a directory");
}

static void made(struct cay_rest_request *request, struct cay_rest_call *call, const void *response,
                 const struct cay_error *err)
{
    const struct cay_v1_make_dir_response *dir = response;
    const struct cay_v1_make_dir_request *asked = call->errand.call.request;
    if (!err) {
        reply_entry(request, dir->info);
        return;
    }
    if (err->reason != CAY_R_FILE_EXISTS) {
        cay_e2b_rpc_error(request, err);
        return;
    }
    struct cay_rest_call *look = cay_rest_call_new(request, CAY_V1_FILE_SERVICE_STAT_FILE);
    struct cay_v1_stat_file_request *ask = cay_rest_call_message(look);
    ask->session_id = asked->session_id;
    ask->path = asked->path;
    ask->user = asked->user;
    ask->follow = true;
    cay_rest_call_start(look, looked_at_existing);
}

void cay_e2b_filesystem_make_dir(struct cay_rest_request *request)
{
    struct cay_str user;
    const struct e2b_path_request *wanted = read_call(request, &e2b_path_request_desc, &user);
    if (!wanted)
        return;
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_FILE_SERVICE_MAKE_DIR);
    struct cay_v1_make_dir_request *ask = cay_rest_call_message(call);
    ask->session_id = cay_e2b_visit(request)->sandbox_id;
    ask->path = cay_e2b_path(request, wanted->path);
    ask->user = user;
    ask->create_parents = true;
    ask->as_root = true;
    cay_rest_call_start(call, made);
}

static void moved(struct cay_rest_request *request, struct cay_rest_call *, const void *response,
                  const struct cay_error *err)
{
    const struct cay_v1_move_file_response *move = response;
    if (err)
        cay_e2b_rpc_error(request, err);
    else
        reply_entry(request, move->info);
}

void cay_e2b_filesystem_move(struct cay_rest_request *request)
{
    struct cay_str user;
    const struct e2b_move_request *wanted = read_call(request, &e2b_move_request_desc, &user);
    if (!wanted)
        return;
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_FILE_SERVICE_MOVE_FILE);
    struct cay_v1_move_file_request *ask = cay_rest_call_message(call);
    ask->session_id = cay_e2b_visit(request)->sandbox_id;
    ask->source = cay_e2b_path(request, wanted->source);
    ask->destination = cay_e2b_path(request, wanted->destination);
    ask->user = user;
    ask->create_parents = true;
    cay_rest_call_start(call, moved);
}

static void removed(struct cay_rest_request *request, struct cay_rest_call *, const void *,
                    const struct cay_error *err)
{
    if (err)
        cay_e2b_rpc_error(request, err);
    else
        cay_e2b_rpc_reply(request, CAY_STR("{}"));
}

void cay_e2b_filesystem_remove(struct cay_rest_request *request)
{
    struct cay_str user;
    const struct e2b_path_request *wanted = read_call(request, &e2b_path_request_desc, &user);
    if (!wanted)
        return;
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_FILE_SERVICE_REMOVE_FILE);
    struct cay_v1_remove_file_request *ask = cay_rest_call_message(call);
    ask->session_id = cay_e2b_visit(request)->sandbox_id;
    ask->path = cay_e2b_path(request, wanted->path);
    ask->user = user;
    ask->recursive = true;
    ask->missing_ok = true;
    cay_rest_call_start(call, removed);
}

/* A list is asked for page by page and answered at once. */
struct listing {
    struct cay_str path, user;
    uint32_t depth;
    struct cay_buf body;
    struct cay_json_writer json;
};

static void ask_page(struct cay_rest_request *request, struct listing *list, struct cay_str token);

static void finish_listing(struct cay_rest_request *request)
{
    struct listing *list = request->state;
    cay_buf_finish(&list->body);
}

static void listed(struct cay_rest_request *request, struct cay_rest_call *, const void *response,
                   const struct cay_error *err)
{
    const struct cay_v1_list_dir_response *page = response;
    struct listing *list = request->state;
    if (err) {
        cay_e2b_rpc_error(request, err);
        return;
    }
    for (size_t i = 0; i < page->entries.count; i++)
        cay_e2b_write_entry(&list->json, &page->entries.items[i]);
    if (page->next_page_token.len && !list->body.failed) {
        ask_page(request, list, cay_arena_str(&request->arena, page->next_page_token));
        return;
    }
    cay_json_array_end(&list->json);
    cay_json_object_end(&list->json);
    if (list->body.failed)
        cay_e2b_rpc_fail(request, CAY_CODE_RESOURCE_EXHAUSTED,
                         "the list is too long for one answer; ask for less depth");
    else
        cay_e2b_rpc_reply(request, cay_buf_str(&list->body));
}

static void ask_page(struct cay_rest_request *request, struct listing *list, struct cay_str token)
{
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_FILE_SERVICE_LIST_DIR);
    struct cay_v1_list_dir_request *ask = cay_rest_call_message(call);
    ask->session_id = cay_e2b_visit(request)->sandbox_id;
    ask->path = list->path;
    ask->user = list->user;
    ask->depth = list->depth;
    ask->page_size = LIST_PAGE;
    ask->page_token = token;
    ask->include_metadata = true;
    cay_rest_call_start(call, listed);
}

void cay_e2b_filesystem_list_dir(struct cay_rest_request *request)
{
    struct cay_str user;
    const struct e2b_list_dir_request *wanted =
        read_call(request, &e2b_list_dir_request_desc, &user);
    struct listing *list = cay_arena_new(&request->arena, struct listing);
    if (!wanted || !list)
        return;
    list->path = cay_e2b_path(request, wanted->path);
    list->user = user;
    list->depth = CAY_MIN(CAY_MAX(wanted->depth, 1u), (uint32_t)LIST_DEPTH_MAX);
    cay_buf_init(&list->body, CAY_LIMIT_MESSAGE_BYTES);
    list->json = (struct cay_json_writer){.buf = &list->body};
    cay_json_object_begin(&list->json);
    cay_json_key(&list->json, "entries");
    cay_json_array_begin(&list->json);
    request->state = list;
    request->on_closed = finish_listing;
    ask_page(request, list, CAY_STR(""));
}
