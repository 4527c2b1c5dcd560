/* SPDX-License-Identifier: Apache-2.0 */

/* StartBuild and GetBuild: builds that go on without anybody waiting. */

#include <stdio.h>

#include "api/noun.h"
#include "base/id.h"
#include "host/base/builds.h"
#include "host/build/verbs.h"
#include "host/session/access.h"
#include "host/session/chore.h"
#include "host/session/host.h"

enum { KEPT_MS = 60 * 60 * 1000 };

static struct cay_build *find(const struct cay_host *host, const struct cay_caller *caller,
                              struct cay_str id)
{
    cay_list_for_each (struct cay_build, build, &host->builds->list, in_table) {
        if (cay_str_is(id, build->id) && cay_may_know_owned(caller, cay_str(build->owner)))
            return build;
    }
    return NULL;
}

static bool take_frame(void *context, const void *message)
{
    struct cay_build *build = context;
    const struct cay_v1_build_base_response *frame = message;
    if (frame->which_frame == CAY_V1_BUILD_BASE_RESPONSE_FRAME_LOG) {
        cay_build_add_line(build, frame->frame.log);
    } else if (frame->which_frame == CAY_V1_BUILD_BASE_RESPONSE_FRAME_PROGRESS) {
        build->step = frame->frame.progress->step;
        build->steps = frame->frame.progress->steps;
        build->fraction = frame->frame.progress->fraction;
    }
    return true;
}

static void ended(void *context, const void *, const struct cay_error *err)
{
    cay_build_ended(context, err);
}

/* Those that ended long ago; the oldest that ended, when there are too many. False: too many run.
 */
static bool make_room(struct cay_host *host, const char *owner, struct cay_error *err)
{
    uint64_t now_ms = cay_loop_now_ms(host->loop);
    size_t all = 0;
    size_t own = 0;
    cay_list_for_each (struct cay_build, build, &host->builds->list, in_table) {
        bool is_over = build->state != CAY_V1_BUILD_STATE_RUNNING;
        if (is_over && now_ms - build->ended_ms > KEPT_MS) {
            cay_build_forget(build);
            continue;
        }
        all++;
        own += strcmp(build->owner, owner) == 0;
    }
    cay_list_for_each (struct cay_build, build, &host->builds->list, in_table) {
        bool is_own = strcmp(build->owner, owner) == 0;
        bool is_in_the_way = all >= CAY_BUILDS_IN_ALL || (is_own && own >= CAY_BUILDS_OF_OWNER);
        if (build->state == CAY_V1_BUILD_STATE_RUNNING || !is_in_the_way)
            continue;
        cay_build_forget(build);
        all--;
        own -= is_own;
    }
    return (all < CAY_BUILDS_IN_ALL && own < CAY_BUILDS_OF_OWNER) ||
           cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                    "as many builds run as this host allows; try again later");
}

static struct cay_build *new_build(struct cay_host *host, const struct cay_call *call)
{
    const struct cay_v1_start_build_request *request = call->request;
    struct cay_build *build = cay_builds_add(host, call->caller.owner, request->build->name);
    if (request->build_id.len)
        snprintf(build->id, sizeof(build->id), "%.*s", (int)request->build_id.len,
                 request->build_id.ptr);
    else
        cay_id_make(build->id, sizeof(build->id), "b");
    return build;
}

static struct cay_v1_build *noun_of(const struct cay_build *build, struct cay_arena *arena)
{
    struct cay_v1_build *noun = cay_arena_new(arena, struct cay_v1_build);
    struct cay_v1_build_progress *progress = cay_arena_new(arena, struct cay_v1_build_progress);
    struct cay_v1_build_failure *failure = cay_arena_new(arena, struct cay_v1_build_failure);
    if (!noun || !progress || !failure)
        return NULL;
    *progress = (struct cay_v1_build_progress){
        .step = build->step, .steps = build->steps, .fraction = build->fraction};
    if (build->err.reason)
        *failure = (struct cay_v1_build_failure){
            .reason = cay_str(cay_reason_info(build->err.reason)->name),
            .message = cay_str(build->err.text),
            .step = build->step,
        };
    *noun = (struct cay_v1_build){
        .id = cay_str(build->id),
        .name = cay_buf_str(&build->name_text),
        .state = build->state,
        .owner = cay_str(build->owner),
        .started_at = cay_noun_time(arena, build->started_ns),
        .ended_at = cay_noun_time(arena, build->ended_ns),
        .progress = progress,
        .failure = build->err.reason ? failure : NULL,
        .log_count = (int64_t)build->line_count,
    };
    return noun;
}

static bool check_start(struct cay_host *host, const struct cay_call *call, struct cay_error *err)
{
    const struct cay_v1_start_build_request *request = call->request;
    if (!request->build)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "build: it is missing; say what is to be built");
    if (request->build_id.len && !cay_id_check(request->build_id, "build_id", err))
        return false;
    if (find(host, &call->caller, request->build_id))
        return cay_fail(err, CAY_R_ALREADY_EXISTS,
                        "build_id: there is a build of that id; choose another id");
    return make_room(host, call->caller.owner, err);
}

void cay_host_start_build(struct cay_service *service, struct cay_call *call)
{
    struct cay_host *host = cay_host_of(service);
    const struct cay_v1_start_build_request *request = call->request;
    struct cay_error err = {};
    if (!check_start(host, call, &err)) {
        cay_call_fail(call, &err);
        return;
    }
    struct cay_build *build = new_build(host, call);
    if (!cay_build_follow(build, &call->caller, &err)) {
        cay_build_forget(build);
        cay_call_fail(call, &err);
        return;
    }
    struct cay_chore *chore = cay_chore_new(host, CAY_V1_BASE_SERVICE_BUILD_BASE, &call->caller);
    struct cay_v1_build_base_request *ask = cay_errand_message(&chore->errand);
    const struct cay_v1_build_base_request *copy =
        cay_noun_copy(&cay_v1_build_base_request_desc, request->build, &chore->errand.call.arena);
    if (copy) /* else it is without a name, and refused for that */
        *ask = *copy;
    chore->on_message = take_frame;
    build->errand = &chore->errand;
    cay_chore_start(chore, ended, build);
    if (build->state == CAY_V1_BUILD_STATE_FAILED) { /* it could not even begin */
        err = build->err;
        cay_build_forget(build);
        cay_call_fail(call, &err);
        return;
    }
    struct cay_v1_start_build_response response = {.build = noun_of(build, &call->arena)};
    cay_call_done(call, &response);
}

static struct cay_v1_build_log line_noun(const struct cay_build *build, size_t at,
                                         struct cay_arena *arena)
{
    const struct cay_build_line *line = &build->lines[at];
    size_t begin = at ? line[-1].text_end : 0;
    return (struct cay_v1_build_log){
        .time = cay_noun_time(arena, line->time_ns),
        .step = line->step,
        .level = cay_str(cay_build_levels[line->level]),
        .message = {build->text.data + begin, line->text_end - begin},
    };
}

void cay_host_get_build(struct cay_service *service, struct cay_call *call)
{
    const struct cay_host *host = cay_host_of(service);
    const struct cay_v1_get_build_request *request = call->request;
    const struct cay_build *build = find(host, &call->caller, request->build_id);
    struct cay_error err = {};
    if (!build)
        cay_fail(&err, CAY_R_NOT_FOUND,
                 "there is no such build, or it ended more than an hour ago");
    else if (request->page_size < 0 || request->page_size > CAY_LIMIT_PAGE_SIZE)
        cay_fail(&err, CAY_R_INVALID_ARGUMENT, "page_size must be 1 to %d", CAY_LIMIT_PAGE_SIZE);
    else if (request->log_offset < 0)
        cay_fail(&err, CAY_R_INVALID_ARGUMENT, "log_offset: 0 or more");
    if (err.reason) {
        cay_call_fail(call, &err);
        return;
    }
    size_t page = request->page_size ? (size_t)request->page_size : CAY_LIMIT_PAGE_SIZE_DEFAULT;
    size_t from = CAY_MIN((size_t)request->log_offset, build->line_count);
    size_t count = CAY_MIN(page, build->line_count - from);
    struct cay_v1_get_build_response response = {.build = noun_of(build, &call->arena)};
    response.logs.items = cay_arena_array(&call->arena, count, sizeof(*response.logs.items));
    for (size_t i = 0; response.logs.items && i < count; i++)
        response.logs.items[response.logs.count++] = line_noun(build, from + i, &call->arena);
    cay_call_done(call, &response);
}
