/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/builds.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/noun.h"
#include "base/id.h"
#include "host/session/access.h"
#include "host/session/base_record.h"
#include "host/session/chore.h"
#include "host/session/host.h"

enum { KEPT_MS = 60 * 60 * 1000 };

static const char *const levels[] = {"debug", "info", "warn", "error"};

struct cay_builds *cay_builds_create(void)
{
    struct cay_builds *builds = cay_new(struct cay_builds);
    cay_list_init(&builds->list);
    return builds;
}

static void forget(struct cay_build *build)
{
    cay_list_remove(&build->in_table);
    cay_buf_finish(&build->text);
    cay_buf_finish(&build->name_text);
    free(build->lines);
    free(build);
}

void cay_builds_destroy(struct cay_builds *builds)
{
    cay_list_for_each (struct cay_build, build, &builds->list, in_table)
        forget(build);
    free(builds);
}

void cay_builds_enter(struct cay_host *host)
{
    host->builds->running++;
}

void cay_builds_leave(struct cay_host *host)
{
    struct cay_builds *builds = host->builds;
    if (--builds->running == 0 && builds->on_quiet)
        builds->on_quiet(builds->context);
}

void cay_builds_drain(struct cay_host *host, void (*on_quiet)(void *context), void *context)
{
    host->builds->on_quiet = on_quiet;
    host->builds->context = context;
    if (host->builds->running == 0)
        on_quiet(context);
}

static struct cay_build *find(const struct cay_host *host, const struct cay_caller *caller,
                              struct cay_str id)
{
    cay_list_for_each (struct cay_build, build, &host->builds->list, in_table) {
        if (cay_str_is(id, build->id) && cay_may_know_owned(caller, cay_str(build->owner)))
            return build;
    }
    return NULL;
}

/* --- the log --- */

static void keep_line(struct cay_build *build, const struct cay_v1_build_log *log)
{
    if ((build->line_count & (build->line_count - 1)) == 0) /* it doubles */
        build->lines = cay_realloc_array(build->lines, CAY_MAX(2 * build->line_count, (size_t)64),
                                         sizeof(*build->lines));
    struct cay_build_line *line = &build->lines[build->line_count++];
    cay_buf_append(&build->text, log->message.ptr, log->message.len);
    *line = (struct cay_build_line){
        .time_ns = log->time ? cay_noun_time_ns(log->time) : cay_clock_wall_ns(),
        .text_end = (uint32_t)build->text.len,
        .step = log->step,
        .level = 1,
    };
    for (size_t i = 0; i < CAY_COUNT(levels); i++) {
        if (cay_str_is(log->level, levels[i]))
            line->level = (uint8_t)i;
    }
}

static void add_line(struct cay_build *build, const struct cay_v1_build_log *log)
{
    bool is_full = build->line_count >= CAY_BUILD_LOG_LINES_MAX ||
                   build->text.len + log->message.len > CAY_BUILD_LOG_BYTES_MAX;
    build->step = log->step;
    if (is_full)
        build->lost_lines++;
    else
        keep_line(build, log);
}

static bool take_frame(void *context, const void *message)
{
    struct cay_build *build = context;
    const struct cay_v1_build_base_response *frame = message;
    if (frame->which_frame == CAY_V1_BUILD_BASE_RESPONSE_FRAME_LOG) {
        add_line(build, frame->frame.log);
    } else if (frame->which_frame == CAY_V1_BUILD_BASE_RESPONSE_FRAME_PROGRESS) {
        build->step = frame->frame.progress->step;
        build->steps = frame->frame.progress->steps;
        build->fraction = frame->frame.progress->fraction;
    }
    return true;
}

/* --- StartBuild --- */

static void ended(void *context, const void *, const struct cay_error *err)
{
    struct cay_build *build = context;
    char text[80];
    int len = snprintf(text, sizeof(text), "%llu more lines were not kept",
                       (unsigned long long)build->lost_lines);
    if (build->lost_lines)
        keep_line(build, &(struct cay_v1_build_log){.step = build->step,
                                                    .level = CAY_STR("warn"),
                                                    .message = {text, (size_t)len}});
    build->state = err ? CAY_V1_BUILD_STATE_FAILED : CAY_V1_BUILD_STATE_READY;
    build->ended_ns = cay_clock_wall_ns();
    build->ended_ms = cay_loop_now_ms(build->host->loop);
    if (err)
        build->err = *err;
    else
        build->fraction = 1;
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
            forget(build);
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
        forget(build);
        all--;
        own -= is_own;
    }
    return (all < CAY_BUILDS_IN_ALL && own < CAY_BUILDS_OF_OWNER) ||
           cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                    "as many builds run as this host allows; try again later");
}

static struct cay_build *add_build(struct cay_host *host, const char *owner, struct cay_str name)
{
    struct cay_build *build = cay_new(struct cay_build);
    build->host = host;
    snprintf(build->owner, sizeof(build->owner), "%s", owner);
    build->state = CAY_V1_BUILD_STATE_RUNNING;
    build->started_ns = cay_clock_wall_ns();
    cay_buf_init(&build->text, CAY_BUILD_LOG_BYTES_MAX + 4096); /* and what is said at the end */
    cay_buf_init(&build->name_text, CAY_STORE_NAME_SIZE);
    cay_buf_append(&build->name_text, name.ptr, name.len);
    cay_list_push_back(&host->builds->list, &build->in_table);
    return build;
}

static struct cay_build *new_build(struct cay_host *host, const struct cay_call *call)
{
    const struct cay_v1_start_build_request *request = call->request;
    struct cay_build *build = add_build(host, call->caller.owner, request->build->name);
    if (request->build_id.len)
        snprintf(build->id, sizeof(build->id), "%.*s", (int)request->build_id.len,
                 request->build_id.ptr);
    else
        cay_id_make(build->id, sizeof(build->id), "b");
    return build;
}

struct cay_build *cay_builds_begin(struct cay_host *host, const char *id)
{
    cay_list_for_each (struct cay_build, old, &host->builds->list, in_table) {
        if (!old->owner[0] && strcmp(old->id, id) == 0)
            forget(old);
    }
    struct cay_build *build = add_build(host, "", cay_str(id));
    snprintf(build->id, sizeof(build->id), "%s", id);
    return build;
}

void cay_build_tell(struct cay_build *build, double fraction, const char *line)
{
    build->fraction = fraction;
    if (line)
        add_line(build,
                 &(struct cay_v1_build_log){.level = CAY_STR("info"), .message = cay_str(line)});
}

void cay_build_ended(struct cay_build *build, const struct cay_error *err)
{
    ended(build, NULL, err);
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
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "build: what is to be built?");
    if (request->build_id.len && !cay_id_valid(request->build_id))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "build_id: not a valid name");
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
    struct cay_chore *chore = cay_chore_new(host, CAY_V1_BASE_SERVICE_BUILD_BASE, &call->caller);
    struct cay_v1_build_base_request *ask = cay_errand_message(&chore->errand);
    const struct cay_v1_build_base_request *copy =
        cay_noun_copy(&cay_v1_build_base_request_desc, request->build, &chore->errand.call.arena);
    if (copy) /* else it is without a name, and refused for that */
        *ask = *copy;
    chore->on_message = take_frame;
    struct cay_build *build = new_build(host, call);
    cay_chore_start(chore, ended, build);
    if (build->state == CAY_V1_BUILD_STATE_FAILED) { /* it could not even begin */
        err = build->err;
        forget(build);
        cay_call_fail(call, &err);
        return;
    }
    struct cay_v1_start_build_response response = {.build = noun_of(build, &call->arena)};
    cay_call_done(call, &response);
}

/* --- GetBuild --- */

static struct cay_v1_build_log line_noun(const struct cay_build *build, size_t at,
                                         struct cay_arena *arena)
{
    const struct cay_build_line *line = &build->lines[at];
    size_t begin = at ? line[-1].text_end : 0;
    return (struct cay_v1_build_log){
        .time = cay_noun_time(arena, line->time_ns),
        .step = line->step,
        .level = cay_str(levels[line->level]),
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
        cay_fail(&err, CAY_R_NOT_FOUND, "there is no such build (any more)");
    else if (request->page_size < 0 || request->page_size > CAY_LIMIT_PAGE_SIZE)
        cay_fail(&err, CAY_R_INVALID_ARGUMENT, "page_size: 1 to %d", CAY_LIMIT_PAGE_SIZE);
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
