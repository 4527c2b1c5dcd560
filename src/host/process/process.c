/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/process.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/limits.h"
#include "api/noun.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/utf8.h"
#include "host/process/reader.h"
#include "host/process/record.h"

enum {
    ARENA_BYTES_MAX = 8 * 1024 * 1024,
    ARGV_SHOWN_BYTES = 4096,
    SURVEY_TIMEOUT_MS = 2000, /* init is busy, or in trouble */
};

static void on_survey_timeout(struct cay_timer *timer)
{
    cay_processes_surveyed(CAY_CONTAINER_OF(timer, struct cay_processes, survey_timer));
}

void cay_processes_init(struct cay_processes *table, const struct cay_process_ops *ops, void *owner,
                        const char *session_id, struct cay_loop *loop, struct cay_db *db)
{
    *table = (struct cay_processes){
        .ops = ops, .owner = owner, .session_id = session_id, .loop = loop, .db = db};
    cay_list_init(&table->list);
    cay_list_init(&table->hidden);
    cay_list_init(&table->surveys);
}

void cay_processes_finish(struct cay_processes *table)
{
    table->is_closing = true;
    table->link = NULL;
    cay_processes_surveyed(table);
    cay_timer_close(&table->survey_timer);
    cay_timer_close(&table->linger_timer);
    cay_list_for_each (struct cay_process, process, &table->hidden, in_table)
        cay_process_forget(process);
    cay_list_for_each (struct cay_process, process, &table->list, in_table)
        cay_process_forget(process);
}

struct cay_process *cay_process_new(struct cay_processes *table, enum cay_v1_process_origin origin)
{
    struct cay_process *process = cay_new(struct cay_process);
    process->table = table;
    process->state = CAY_V1_PROCESS_STATE_STARTING;
    process->started_ns = cay_clock_wall_ns();
    cay_id_make(process->id, sizeof(process->id), "p-");
    cay_arena_init(&process->arena, ARENA_BYTES_MAX);
    cay_arena_init(&process->result_arena, ARENA_BYTES_MAX);
    process->noun = cay_arena_new(&process->arena, struct cay_v1_process);
    process->noun->origin = origin;
    cay_list_init(&process->watchers);
    cay_list_init(&process->readers);
    cay_list_push_back(&table->list, &process->in_table);
    return process;
}

/* Cut so that all of them together stay short; never inside a character. */
static struct cay_pb_strs shown_of(struct cay_pb_strs argv, struct cay_arena *arena)
{
    size_t left = ARGV_SHOWN_BYTES;
    size_t count = CAY_MIN(argv.count, (size_t)ARGV_SHOWN_BYTES / 8);
    struct cay_pb_strs shown = {.items = cay_arena_array(arena, count, sizeof(*shown.items))};
    for (size_t i = 0; shown.items && i < count && left; i++) {
        struct cay_str arg = argv.items[i];
        size_t len = CAY_MIN(arg.len, left);
        while (len < arg.len && len && ((unsigned char)arg.ptr[len] & 0xC0) == 0x80)
            len--;
        shown.items[shown.count++] = cay_arena_str(arena, (struct cay_str){arg.ptr, len});
        left -= len;
    }
    return shown;
}

bool cay_process_has_argv(const struct cay_process *process, struct cay_pb_strs argv)
{
    const struct cay_pb_strs *own = &process->noun->argv;
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, ARENA_BYTES_MAX);
    struct cay_pb_strs shown = shown_of(argv, &arena);
    bool is_same = shown.count == own->count;
    for (size_t i = 0; is_same && i < own->count; i++)
        is_same = cay_str_equal(shown.items[i], own->items[i]);
    return is_same;
}

static void show_restart(struct cay_process *process, const struct cay_v1_process_spec *spec)
{
    if (!spec->restart || spec->restart->mode <= CAY_V1_RESTART_MODE_NEVER)
        return;
    process->noun->restart =
        cay_noun_copy(&cay_v1_restart_policy_desc, spec->restart, &process->arena);
    process->spec = cay_noun_copy(&cay_v1_process_spec_desc, spec, &process->arena);
}

void cay_process_describe(struct cay_process *process, const struct cay_v1_process_spec *spec,
                          struct cay_str cwd, struct cay_str user, struct cay_str tool_call_id)
{
    struct cay_v1_process *noun = process->noun;
    noun->cwd = cay_arena_str(&process->arena, cwd);
    noun->user = cay_arena_str(&process->arena, user);
    noun->tool_call_id = cay_arena_str(&process->arena, tool_call_id);
    if (!spec)
        return;
    noun->tag = cay_arena_str(&process->arena, spec->tag);
    noun->argv = shown_of(spec->argv, &process->arena);
    show_restart(process, spec);
}

static struct cay_process_watcher *next_watcher(struct cay_process *process)
{
    struct cay_process_watcher *watcher =
        CAY_LIST_ITEM(cay_list_first(&process->watchers), struct cay_process_watcher, in_process);
    if (!watcher || watcher->walk == process->walk)
        return NULL;
    cay_list_remove(&watcher->in_process);
    cay_list_push_back(&process->watchers, &watcher->in_process);
    watcher->walk = process->walk;
    return watcher;
}

void cay_process_forget(struct cay_process *process)
{
    if (!process->is_gone) {
        process->is_gone = true;
        process->table->ended_count -= cay_process_is_over(process) && !process->is_hidden;
        cay_list_remove(&process->in_table);
        cay_timer_close(&process->restart_timer);
        cay_timer_close(&process->kill_timer);
        cay_timer_close(&process->return_timer);
        if (process->is_recorded)
            cay_process_erase(process);
    }
    if (process->busy)
        return;
    struct cay_list_node *node;
    while ((node = cay_list_pop_front(&process->watchers))) {
        struct cay_process_watcher *watcher =
            CAY_CONTAINER_OF(node, struct cay_process_watcher, in_process);
        watcher->process = NULL;
        watcher->changed(watcher);
    }
    while ((node = cay_list_pop_front(&process->readers))) {
        struct cay_reader *reader = CAY_CONTAINER_OF(node, struct cay_reader, in_process);
        reader->process = NULL;
        reader->ended(reader);
    }
    cay_arena_finish(&process->result_arena);
    cay_arena_finish(&process->arena);
    free(process);
}

static bool take_prefix(struct cay_str *text, const char *prefix)
{
    size_t len = strlen(prefix);
    if (text->len < len || memcmp(text->ptr, prefix, len) != 0)
        return false;
    *text = (struct cay_str){text->ptr + len, text->len - len};
    return true;
}

/* Of several the one that lives, of those the newest. */
static struct cay_process *find_by(const struct cay_processes *table, struct cay_str tag,
                                   int64_t pid)
{
    struct cay_process *found = NULL;
    cay_list_for_each (struct cay_process, process, &table->list, in_table) {
        bool fits = tag.len ? cay_str_equal(tag, process->noun->tag)
                            : process->pid == pid && !process->is_leftover;
        if (fits && (!found || !cay_process_is_over(process) || cay_process_is_over(found)))
            found = process;
    }
    return found;
}

struct cay_process *cay_processes_find(const struct cay_processes *table, struct cay_str id)
{
    struct cay_str what = id;
    uint64_t pid = 0;
    if (take_prefix(&what, "pid:"))
        return cay_str_to_u64(what, INT32_MAX, &pid) == 0 && pid
                   ? find_by(table, CAY_STR(""), (int64_t)pid)
                   : NULL;
    if (take_prefix(&what, "tag:"))
        return what.len ? find_by(table, what, 0) : NULL;
    cay_list_for_each (struct cay_process, process, &table->list, in_table) {
        if (cay_str_is(id, process->id))
            return process;
    }
    return id.len ? find_by(table, id, 0) : NULL;
}

struct cay_process *cay_processes_of_call(const struct cay_processes *table, uint64_t call,
                                          bool is_leftover)
{
    const struct cay_list *lists[] = {&table->hidden, &table->list};
    for (size_t i = 0; i < CAY_COUNT(lists); i++) {
        cay_list_for_each (struct cay_process, process, lists[i], in_table) {
            if (process->call == call && process->is_leftover == is_leftover)
                return process;
        }
    }
    return NULL;
}

struct cay_process *cay_processes_of_request(const struct cay_processes *table, struct cay_str id)
{
    cay_list_for_each_back(struct cay_process, process, &table->list, in_table)
    {
        if (id.len && cay_str_equal(process->noun->request_id, id))
            return process;
    }
    return NULL;
}

int32_t cay_processes_alive(const struct cay_processes *table)
{
    int32_t count = 0;
    cay_list_for_each (struct cay_process, process, &table->list, in_table)
        count += !cay_process_is_over(process);
    return count;
}

bool cay_process_is_quiet(const struct cay_process *process)
{
    return !process->is_followed && process->state != CAY_V1_PROCESS_STATE_STARTING &&
           process->state != CAY_V1_PROCESS_STATE_RUNNING;
}

bool cay_processes_are_quiet(const struct cay_processes *table)
{
    bool are_quiet = cay_list_empty(&table->hidden) && !table->is_adopting;
    cay_list_for_each (struct cay_process, process, &table->list, in_table)
        are_quiet = are_quiet && cay_process_is_quiet(process);
    return are_quiet;
}

bool cay_processes_are_followed(const struct cay_processes *table)
{
    bool are_followed = !cay_list_empty(&table->hidden);
    cay_list_for_each (struct cay_process, process, &table->list, in_table)
        are_followed = are_followed || process->is_followed;
    return are_followed;
}

bool cay_process_is_over(const struct cay_process *process)
{
    return process->state == CAY_V1_PROCESS_STATE_EXITED;
}

bool cay_process_is_readable(const struct cay_process *process, bool follows, struct cay_error *err)
{
    const struct cay_processes *table = process->table;
    /* Who follows one that goes on after the pause can wait for that. */
    if (!table->ops->is_frozen(table->owner) || (follows && !cay_process_is_over(process)))
        return true;
    return cay_fail(err, CAY_R_SESSION_PAUSED,
                    "session '%s' is paused, and the output of process '%s' with it; resume the "
                    "session to read it",
                    table->session_id, process->id);
}

struct cay_v1_process *cay_process_message(const struct cay_process *process,
                                           struct cay_arena *arena)
{
    struct cay_v1_process *message = cay_arena_new(arena, struct cay_v1_process);
    if (!message)
        return NULL;
    *message = *process->noun;
    message->id = cay_arena_str(arena, cay_str(process->id));
    message->session_id = cay_arena_str(arena, cay_str(process->table->session_id));
    message->state = process->state;
    message->pid = process->pid;
    message->stdin_open = process->stdin_open && !cay_process_is_over(process);
    message->started_at = cay_noun_time(arena, process->started_ns);
    message->ended_at = cay_noun_time(arena, process->ended_ns);
    message->result = process->result;
    message->output_start = (int64_t)process->output_start;
    message->output_end = (int64_t)process->output_end;
    message->restart_count = process->restart_count;
    message->attached = 0;
    cay_list_for_each (struct cay_reader, reader, &process->readers, in_process)
        message->attached += !reader->is_callers;
    message->pty =
        process->flags & CAY_EXEC_PTY ? cay_arena_new(arena, struct cay_v1_pty_size) : NULL;
    if (message->pty)
        *message->pty =
            (struct cay_v1_pty_size){.rows = process->size.rows, .cols = process->size.columns};
    process->table->ops->describe(process->table->owner, process, arena, message);
    return message;
}

void cay_process_watch(struct cay_process *process, struct cay_process_watcher *watcher,
                       void (*changed)(struct cay_process_watcher *watcher))
{
    *watcher = (struct cay_process_watcher){.process = process, .changed = changed};
    cay_list_push_back(&process->watchers, &watcher->in_process);
}

void cay_process_unwatch(struct cay_process_watcher *watcher)
{
    if (cay_list_linked(&watcher->in_process))
        cay_list_remove(&watcher->in_process);
}

void cay_process_changed(struct cay_process *process)
{
    struct cay_process_watcher *watcher;
    process->busy++;
    process->walk++;
    if (process->state != process->told_state && !process->is_hidden) {
        process->told_state = process->state;
        process->table->ops->changed(process->table->owner, process);
    }
    while ((watcher = next_watcher(process)))
        watcher->changed(watcher);
    process->busy--;
    cay_readers_pump(process);
}

void cay_processes_survey(struct cay_processes *table, struct cay_survey *survey,
                          void (*done)(struct cay_survey *survey))
{
    struct cay_error ignored = {};
    bool is_needed = false;
    *survey = (struct cay_survey){.done = done};
    cay_list_for_each (struct cay_process, process, &table->list, in_table)
        is_needed = is_needed || !cay_process_is_over(process);
    if (!table->link || !is_needed || table->ops->is_frozen(table->owner) ||
        (!table->is_surveying && !cay_link_list(table->link, &ignored))) {
        done(survey);
        return;
    }
    cay_list_push_back(&table->surveys, &survey->in_table);
    if (!table->is_surveying)
        table->ops->link_used(table->owner);
    table->is_surveying = true;
    if (!table->survey_timer.handle)
        cay_timer_open(&table->survey_timer, table->loop, on_survey_timeout);
    cay_timer_start(&table->survey_timer, SURVEY_TIMEOUT_MS, 0);
}

void cay_survey_cancel(struct cay_survey *survey)
{
    if (cay_list_linked(&survey->in_table))
        cay_list_remove(&survey->in_table);
}

void cay_processes_surveyed(struct cay_processes *table)
{
    struct cay_list_node *node;
    table->is_surveying = false;
    if (table->survey_timer.handle)
        cay_timer_stop(&table->survey_timer);
    while ((node = cay_list_pop_front(&table->surveys))) {
        struct cay_survey *survey = CAY_CONTAINER_OF(node, struct cay_survey, in_table);
        survey->done(survey);
    }
}
