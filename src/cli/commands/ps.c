/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <signal.h>

#include "api/limits.h"
#include "base/clock.h"
#include "cli/command.h"
#include "cli/commands/exec.h"
#include "cli/offer.h"
#include "cli/values.h"

enum { PROCESSES_MAX = 10'000 }; /* of one listing: bounds what a daemon can make us hold */

static bool list_all(struct cay_cli *cli, struct cay_v1_process_array *all, struct cay_error *err)
{
    struct cay_v1_list_processes_request request = {
        .session_id = cay_str(cli->args.words[0]),
        .include_exited = cay_args_has(&cli->args, "all"),
        .tag = cay_values_text(cli, "tag"),
        .page_size = CAY_LIMIT_PAGE_SIZE,
    };
    do {
        struct cay_v1_list_processes_response page = {};
        if (!cay_cli_call(cli, CAY_V1_PROCESS_SERVICE_LIST_PROCESSES, &request, &page, err))
            return false;
        size_t count = all->count + page.processes.count;
        struct cay_v1_process *items =
            count <= PROCESSES_MAX ? cay_arena_array(&cli->arena, count, sizeof(*items)) : NULL;
        if (!items || (page.next_page_token.len && !page.processes.count))
            return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "there are too many processes to list");
        if (all->count)
            memcpy(items, all->items, all->count * sizeof(*items));
        if (page.processes.count)
            memcpy(items + all->count, page.processes.items, page.processes.count * sizeof(*items));
        *all = (struct cay_v1_process_array){items, count};
        request.page_token = page.next_page_token;
    } while (request.page_token.len);
    return true;
}

/* "running", "exited 3", "killed", "lost" … */
static void describe(const struct cay_v1_process *process, char *text, size_t size)
{
    static const char *const causes[] = {"ended",  "exited", "signal", "no memory", "timed out",
                                         "silent", "quota",  "policy", "killed",    "lost"};
    const struct cay_v1_exec_result *result = process->result;
    if (process->state == CAY_V1_PROCESS_STATE_STARTING)
        snprintf(text, size, "starting");
    else if (process->state == CAY_V1_PROCESS_STATE_RUNNING)
        snprintf(text, size, "running");
    else if (process->state == CAY_V1_PROCESS_STATE_RESTARTING)
        snprintf(text, size, "restarting");
    else if (!result || (size_t)result->cause >= CAY_COUNT(causes))
        snprintf(text, size, "ended");
    else if (result->has_exit_code)
        snprintf(text, size, "exited %d", result->exit_code);
    else if (result->cause == CAY_V1_END_CAUSE_SIGNALED)
        snprintf(text, size, "signal %d", result->signal);
    else
        snprintf(text, size, "%s", causes[result->cause]);
}

/* What was given to run, without the shell that a tool, an SDK or `cay shell` puts around it. */
static struct cay_pb_strs given(const struct cay_v1_process *process)
{
    static struct cay_str login[] = {CAY_STR("login shell")};
    static const char *const script[] = CAY_LOGIN_SHELL;
    struct cay_pb_strs argv = process->argv;
    bool is_tool = process->origin == CAY_V1_PROCESS_ORIGIN_TOOL;
    if (argv.count == 3 && cay_str_is(argv.items[2], script[2]))
        return (struct cay_pb_strs){login, 1};
    if (argv.count == 3 && is_tool && cay_str_is(argv.items[0], "/bin/bash") &&
        cay_str_is(argv.items[1], "-c"))
        return (struct cay_pb_strs){argv.items + 2, 1};
    if (argv.count == 4 && cay_str_is(argv.items[0], "/bin/bash") &&
        cay_str_is(argv.items[1], "-l") && cay_str_is(argv.items[2], "-c"))
        return (struct cay_pb_strs){argv.items + 3, 1};
    return argv;
}

static void add_command(struct cay_table *table, const struct cay_v1_process *process)
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, CAY_LIMIT_MESSAGE_BYTES);
    struct cay_pb_strs argv = given(process);
    for (size_t i = 0; i < argv.count; i++) {
        if (i)
            cay_buf_append_byte(&text, ' ');
        cay_buf_append_str(&text, argv.items[i]);
    }
    cay_table_cell(table, CAY_STYLE_PLAIN, cay_buf_str(&text));
}

static void print_table(struct cay_output *out, const struct cay_v1_process_array *all)
{
    static const char *const titles[] = {"ID",      "PID",    "STATE", "USER",
                                         "STARTED", "OUTPUT", "TAG",   "COMMAND"};
    int64_t now_ns = cay_clock_wall_ns();
    cay_auto(cay_table_finish) struct cay_table table;
    cay_table_init(&table, titles, CAY_COUNT(titles));
    for (size_t i = 0; i < all->count; i++) {
        const struct cay_v1_process *process = &all->items[i];
        bool is_running = process->state == CAY_V1_PROCESS_STATE_RUNNING;
        char text[CAY_WHEN_BYTES];
        cay_table_cell(&table, CAY_STYLE_BOLD, process->id);
        snprintf(text, sizeof(text), "%d", process->pid);
        cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(text));
        describe(process, text, sizeof(text));
        cay_table_cell(&table, is_running ? CAY_STYLE_GOOD : CAY_STYLE_DIM, cay_str(text));
        cay_table_cell(&table, CAY_STYLE_PLAIN, process->user);
        cay_output_when(process->started_at, now_ns, text);
        cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(text));
        snprintf(text, sizeof(text), "%" PRId64, process->output_end);
        cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(text));
        cay_table_cell(&table, CAY_STYLE_DIM, process->tag);
        add_command(&table, process);
    }
    cay_table_print(&table, out);
}

static bool run_ps(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_list_processes_response all = {};
    if (!list_all(cli, &all.processes, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_list_processes_response_desc, &all, err);
    if (cay_args_has(&cli->args, "quiet")) {
        for (size_t i = 0; i < all.processes.count; i++) {
            cay_output_text(&cli->out, CAY_STYLE_PLAIN, all.processes.items[i].id);
            cay_output_printf(&cli->out, "\n");
        }
    } else if (all.processes.count) {
        print_table(&cli->out, &all.processes);
    } else if (cli->out.is_terminal) {
        cay_output_printf(&cli->out, "Nothing runs there; -a shows what has ended.\n");
    }
    return true;
}

/* A number, or a name with or without SIG. */
static bool read_signal(struct cay_cli *cli, int *out_signal, struct cay_error *err)
{
    const char *text = cay_args_text(&cli->args, "signal");
    uint64_t number = 0;
    *out_signal = SIGTERM;
    if (!text)
        return true;
    if (cay_str_to_u64(cay_str(text), 64, &number) == 0 && number) {
        *out_signal = (int)number;
        return true;
    }
    const char *name = cay_str_starts(cay_str(text), "SIG") ? text + 3 : text;
    for (int i = 1; i < 32; i++) {
        const char *known = sigabbrev_np(i);
        if (known && strcmp(known, name) == 0) {
            *out_signal = i;
            return true;
        }
    }
    return cay_fail(err, CAY_R_INVALID_ARGUMENT, "--signal '%.40s': write TERM, KILL, HUP, 9 …",
                    text);
}

/* What could not be signalled does not keep the rest from it. */
static bool run_kill(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_args *args = &cli->args;
    struct cay_v1_kill_process_request request = {
        .session_id = cay_str(args->words[0]),
        .scope = cay_args_has(args, "tree") ? CAY_V1_KILL_SCOPE_TREE : CAY_V1_KILL_SCOPE_PROCESS,
        .wait = cay_args_has(args, "wait"),
    };
    int number = 0;
    if (!read_signal(cli, &number, err) ||
        !cay_values_wait(cli, "kill-after", &request.kill_after, err))
        return false;
    request.signal = number;
    bool all_done = true;
    for (size_t i = 1; i < args->word_count; i++) {
        struct cay_v1_kill_process_response response = {};
        struct cay_error failure = {};
        request.process_id = cay_str(args->words[i]);
        if (cay_cli_call(cli, CAY_V1_PROCESS_SERVICE_KILL_PROCESS, &request, &response, &failure) &&
            (!cli->out.is_json || cay_output_message(&cli->out, &cay_v1_kill_process_response_desc,
                                                     &response, &failure)))
            continue;
        cay_cli_failed_one(cli, &failure, err);
        all_done = false;
        if (failure.reason == CAY_R_UNAVAILABLE || failure.reason == CAY_R_SESSION_NOT_FOUND)
            break; /* so would the others */
    }
    return all_done;
}

static const struct cay_flag ps_flags[] = {
    {.name = "all", .letter = 'a', .help = "list those that have ended, too"},
    {.name = "tag", .value = "NAME", .help = "only those with this tag"},
    {.name = "quiet", .letter = 'q', .help = "print the ids alone"},
    {},
};

const struct cay_command cay_command_ps = {
    .name = "ps",
    .arguments = "SESSION",
    .summary = "List the processes of a session, oldest first",
    .examples = "  cay kill --tree demo $(cay ps -q demo)",
    .flags = ps_flags,
    .group = CAY_GROUP_SANDBOX,
    .words_min = 1,
    .words_max = 1,
    .run = run_ps,
    .complete = cay_session_offer,
};

static const struct cay_flag kill_flags[] = {
    {.name = "signal",
     .letter = 's',
     .value = "SIGNAL",
     .help = "the signal to send, e.g. KILL or 9; TERM otherwise"},
    {.name = "tree", .help = "send the signal also to everything the process started"},
    {.name = "kill-after",
     .value = "DURATION",
     .help = "send KILL to what is alive after this time"},
    {.name = "wait", .help = "return when the process has ended"},
    {},
};

const struct cay_command cay_command_kill = {
    .name = "kill",
    .arguments = "SESSION PROCESS...",
    .summary = "Send a signal to processes of a session",
    .details =
        "When one of several processes is not there, cay says so, signals the others and fails\n"
        "at the end.",
    .flags = kill_flags,
    .group = CAY_GROUP_SANDBOX,
    .words_min = 2,
    .words_max = UINT32_MAX,
    .run = run_kill,
    .complete = cay_session_offer_processes,
};
