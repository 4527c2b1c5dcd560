/* SPDX-License-Identifier: Apache-2.0 */
#include "host/base/builds.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/noun.h"
#include "base/id.h"
#include "host/base/base_record.h"
#include "host/session/host.h"

const char *const cay_build_levels[CAY_BUILD_LEVELS] = {"debug", "info", "warn", "error"};

struct cay_builds *cay_builds_create(void)
{
    struct cay_builds *builds = cay_new(struct cay_builds);
    cay_list_init(&builds->list);
    return builds;
}

static void unfollow(struct cay_build *build)
{
    cay_whois_cancel(&build->by_key);
    cay_whois_cancel(&build->by_voucher);
    build->errand = NULL;
}

static void lapse(struct cay_build *build, const struct cay_error *err)
{
    build->lapse = *err;
    if (build->errand)
        cay_errand_cancel(build->errand);
}

static void key_lapsed(struct cay_whois *whois, const struct cay_error *err)
{
    lapse(CAY_CONTAINER_OF(whois, struct cay_build, by_key), err);
}

static void voucher_lapsed(struct cay_whois *whois, const struct cay_error *err)
{
    lapse(CAY_CONTAINER_OF(whois, struct cay_build, by_voucher), err);
}

bool cay_build_follow(struct cay_build *build, const struct cay_caller *caller,
                      struct cay_error *err)
{
    struct cay_service *service = &build->host->service;
    build->by_key.lapsed = key_lapsed;
    build->by_voucher.lapsed = voucher_lapsed;
    return (!caller->key_id[0] ||
            cay_service_follow(service, cay_str(caller->key_id), &build->by_key, err)) &&
           (!caller->voucher[0] ||
            cay_service_follow(service, cay_str(caller->voucher), &build->by_voucher, err));
}

void cay_build_forget(struct cay_build *build)
{
    unfollow(build);
    cay_list_remove(&build->in_table);
    cay_buf_finish(&build->text);
    cay_buf_finish(&build->name_text);
    free(build->lines);
    free(build);
}

void cay_builds_destroy(struct cay_builds *builds)
{
    cay_list_for_each (struct cay_build, build, &builds->list, in_table)
        cay_build_forget(build);
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
    for (size_t i = 0; i < CAY_BUILD_LEVELS; i++) {
        if (cay_str_is(log->level, cay_build_levels[i]))
            line->level = (uint8_t)i;
    }
}

void cay_build_add_line(struct cay_build *build, const struct cay_v1_build_log *log)
{
    bool is_full = build->line_count >= CAY_BUILD_LOG_LINES_MAX ||
                   build->text.len + log->message.len > CAY_BUILD_LOG_BYTES_MAX;
    build->step = log->step;
    if (is_full)
        build->lost_lines++;
    else
        keep_line(build, log);
}

void cay_build_ended(struct cay_build *build, const struct cay_error *err)
{
    unfollow(build);
    if (err && build->lapse.reason)
        err = &build->lapse;
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

struct cay_build *cay_builds_add(struct cay_host *host, const char *owner, struct cay_str name)
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

struct cay_build *cay_builds_begin(struct cay_host *host, const char *id)
{
    cay_list_for_each (struct cay_build, old, &host->builds->list, in_table) {
        if (!old->owner[0] && strcmp(old->id, id) == 0)
            cay_build_forget(old);
    }
    struct cay_build *build = cay_builds_add(host, "", cay_str(id));
    snprintf(build->id, sizeof(build->id), "%s", id);
    return build;
}

void cay_build_tell(struct cay_build *build, double fraction, const char *line)
{
    build->fraction = fraction;
    if (line)
        cay_build_add_line(
            build, &(struct cay_v1_build_log){.level = CAY_STR("info"), .message = cay_str(line)});
}
