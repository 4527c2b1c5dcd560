/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "api/limits.h"
#include "base/clock.h"
#include "base/nearest.h"
#include "cli/command.h"
#include "cli/commands/ls_files.h"
#include "cli/offer.h"
#include "cli/values.h"

enum { SESSIONS_MAX = 100'000 }; /* of one listing: bounds what a daemon can make us hold */

static const char *const state_names[] = {"creating", "active", "paused", "destroying", "failed"};

/* The states are numbered from 1. */
static bool read_states(struct cay_cli *cli, struct cay_v1_session_state_array *out_states,
                        struct cay_error *err)
{
    size_t count = 0;
    size_t cursor = 0;
    while (cay_args_each(&cli->args, "state", &cursor))
        count++;
    enum cay_v1_session_state *items = cay_arena_array(&cli->arena, count, sizeof(*items));
    if (!items)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    cursor = 0;
    for (size_t i = 0; i < count; i++) {
        const char *text = cay_args_each(&cli->args, "state", &cursor);
        size_t at = 0;
        while (at < CAY_COUNT(state_names) && strcmp(text, state_names[at]) != 0)
            at++;
        if (at == CAY_COUNT(state_names)) {
            const char *nearest = cay_nearest(cay_str(text), state_names, CAY_COUNT(state_names));
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "--state '%.40s' is none of creating, active, paused, destroying, "
                            "failed%s%s%s",
                            text, nearest ? "; did you mean '" : "", nearest ? nearest : "",
                            nearest ? "'?" : "");
        }
        items[i] = (enum cay_v1_session_state)(at + 1);
    }
    *out_states = (struct cay_v1_session_state_array){items, count};
    return true;
}

static bool add_page(struct cay_cli *cli, struct cay_v1_session_array *all,
                     const struct cay_v1_session_array *page, struct cay_error *err)
{
    size_t count = all->count + page->count;
    struct cay_v1_session *items =
        count <= SESSIONS_MAX ? cay_arena_array(&cli->arena, count, sizeof(*items)) : NULL;
    if (!items)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "there are too many sessions to list; use --label or --state");
    if (all->count)
        memcpy(items, all->items, all->count * sizeof(*items));
    if (page->count)
        memcpy(items + all->count, page->items, page->count * sizeof(*items));
    *all = (struct cay_v1_session_array){items, count};
    return true;
}

static bool list_all(struct cay_cli *cli, struct cay_v1_session_array *all, struct cay_error *err)
{
    struct cay_v1_list_sessions_request request = {
        .base = cay_values_text(cli, "base"),
        .page_size = CAY_LIMIT_PAGE_SIZE,
    };
    if (!cay_values_pairs(cli, "label", &request.labels, err) ||
        !read_states(cli, &request.states, err))
        return false;
    do {
        struct cay_v1_list_sessions_response page = {};
        if (!cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_LIST_SESSIONS, &request, &page, err) ||
            !add_page(cli, all, &page.sessions, err))
            return false;
        if (page.next_page_token.len && !page.sessions.count)
            return cay_fail(err, CAY_R_INTERNAL, "the daemon's list of sessions does not end");
        request.page_token = page.next_page_token;
    } while (request.page_token.len);
    return true;
}

static void add_labels(struct cay_table *table, struct cay_pb_pairs labels)
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, CAY_LIMIT_MESSAGE_BYTES);
    for (size_t i = 0; i < labels.count; i++) {
        if (i)
            cay_buf_append_byte(&text, ' ');
        cay_buf_append_str(&text, labels.items[i].key);
        cay_buf_append_byte(&text, '=');
        cay_buf_append_str(&text, labels.items[i].value);
    }
    cay_table_cell(table, CAY_STYLE_DIM, cay_buf_str(&text));
}

static enum cay_style state_style(enum cay_v1_session_state state)
{
    if (state == CAY_V1_SESSION_STATE_ACTIVE)
        return CAY_STYLE_GOOD;
    return state == CAY_V1_SESSION_STATE_FAILED ? CAY_STYLE_BAD : CAY_STYLE_WARN;
}

static bool has_several_owners(const struct cay_v1_session_array *all)
{
    for (size_t i = 1; i < all->count; i++) {
        if (!cay_str_equal(all->items[i].owner, all->items[0].owner))
            return true;
    }
    return false;
}

static void print_table(struct cay_output *out, const struct cay_v1_session_array *all,
                        bool has_owner)
{
    static const char *const every_title[] = {"OWNER",     "ID",      "STATE",     "BASE",  "TURNS",
                                              "STANDS ON", "CREATED", "LAST USED", "LABELS"};
    const char *const *titles = every_title + !has_owner;
    int64_t now_ns = cay_clock_wall_ns();
    cay_auto(cay_table_finish) struct cay_table table;
    cay_table_init(&table, titles, CAY_COUNT(every_title) - !has_owner);
    for (size_t i = 0; i < all->count; i++) {
        const struct cay_v1_session *session = &all->items[i];
        char text[CAY_WHEN_BYTES];
        if (has_owner)
            cay_table_cell(&table, CAY_STYLE_PLAIN, session->owner);
        cay_table_cell(&table, CAY_STYLE_BOLD, session->id);
        cay_table_cell(&table, state_style(session->state),
                       cay_str(cay_session_state_name((int)session->state)));
        cay_table_cell(&table, CAY_STYLE_PLAIN, session->base);
        snprintf(text, sizeof(text), "%" PRId64, session->turn_count);
        cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(text));
        cay_table_cell(&table, CAY_STYLE_PLAIN,
                       session->head.len ? session->head : CAY_STR("base"));
        cay_output_when(session->created_at, now_ns, text);
        cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(text));
        cay_output_when(session->last_active_at, now_ns, text);
        cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(text));
        add_labels(&table, session->labels);
    }
    cay_table_print(&table, out);
}

static bool run_ls(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_list_sessions_response all = {};
    if (cli->args.word_count)
        return cay_ls_files(cli, cli->args.words[0], err);
    if (!list_all(cli, &all.sessions, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_list_sessions_response_desc, &all, err);
    if (cay_args_has(&cli->args, "quiet")) {
        for (size_t i = 0; i < all.sessions.count; i++) {
            cay_output_text(&cli->out, CAY_STYLE_PLAIN, all.sessions.items[i].id);
            cay_output_printf(&cli->out, "\n");
        }
    } else if (all.sessions.count) {
        print_table(&cli->out, &all.sessions,
                    cay_args_has(&cli->args, "wide") || has_several_owners(&all.sessions));
    } else if (cli->out.is_terminal) {
        cay_output_printf(&cli->out, "There are no sessions; 'cay create' makes one.\n");
    }
    return true;
}

static const struct cay_flag ls_flags[] = {
    {.name = "label",
     .letter = 'l',
     .value = "NAME=VALUE",
     .help = "only those with this label; may be given again"},
    {.name = "state", .value = "STATE", .help = "only those in this state; may be given again"},
    {.name = "base", .value = "BASE", .help = "only those that started from this base"},
    {.name = "wide", .help = "show the owner of each session, also when all have the same one"},
    {.name = "quiet", .letter = 'q', .help = "print the ids, or the names of files, alone"},
    {},
};

const struct cay_command cay_command_ls = {
    .name = "ls",
    .arguments = "[SESSION[@SNAPSHOT]:PATH]",
    .summary = "List sessions, newest first, or the files in a directory of one",
    .details =
        "SESSION@SNAPSHOT:PATH is the directory as it was in that snapshot, without a rollback.",
    .examples = "  cay rm $(cay ls -q --label job=42)\n"
                "  cay ls demo@turn-0001:/workspace",
    .flags = ls_flags,
    .group = CAY_GROUP_SANDBOX,
    .words_max = 1,
    .complete = cay_session_offer_places,
    .run = run_ls,
};
