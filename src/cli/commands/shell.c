/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"
#include "cli/commands/exec.h"
#include "cli/offer.h"
#include "cli/values.h"
#include "client/rpc/client.h"

/* Being in a session: a shell with a terminal, coming back to a process, reading what one said. */

enum { ATTACH_TAIL_BYTES = 64 * 1024, TAIL_LINES_MAX = 1'000'000 };

static bool run_shell(struct cay_cli *cli, struct cay_error *err)
{
    static const char *const shell[] = CAY_LOGIN_SHELL;
    /* A slow terminal loses nothing, and nobody waits for one that is left. */
    struct cay_v1_exec_policy policy = {.overflow = CAY_V1_OUTPUT_OVERFLOW_FOLLOW};
    struct cay_v1_process_spec spec = {
        .cwd = cay_values_text(cli, "cwd"),
        .user = cay_values_text(cli, "user"),
        .tag = CAY_STR("shell"),
        .policy = &policy,
    };
    const struct cay_follow follow = {
        .session_id = cay_str(cli->args.words[0]),
        .launch = &spec,
        .has_terminal = true,
        .gives_input = true,
        .is_detachable = true,
    };
    if (!cay_values_pairs(cli, "env", &spec.env, err) ||
        !cay_values_words(cli, shell, CAY_COUNT(shell), &spec.argv, err))
        return false;
    cay_exec_catch();
    return cay_exec_stream(cli, &follow, err);
}

static bool run_attach(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_follow follow = {
        .session_id = cay_str(cli->args.words[0]),
        .process_id = cay_str(cli->args.words[1]),
        .gives_input = true,
        .is_detachable = true,
        .tail_bytes = ATTACH_TAIL_BYTES,
    };
    cay_exec_catch();
    return cay_exec_stream(cli, &follow, err);
}

static bool read_number(struct cay_cli *cli, const char *flag, int64_t *out_number,
                        struct cay_error *err)
{
    uint64_t number = 0;
    const char *text = cay_args_text(&cli->args, flag);
    if (text && cay_str_to_u64(cay_str(text), INT64_MAX, &number) < 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "--%s '%.40s' is not a number of bytes", flag,
                        text);
    *out_number = (int64_t)number;
    return true;
}

/* Where the newest lines begin, in what is kept. */
struct tail {
    int64_t *ends; /* offsets behind the newest `wanted` ends of lines, as a ring */
    size_t wanted;
    size_t count;
    int64_t start; /* of what is kept */
    int64_t end;
    bool has_begun;
};

static bool look_at(void *state, const void *message, struct cay_error *)
{
    struct tail *tail = state;
    const struct cay_v1_attach_process_response *response = message;
    if (response->which_frame != CAY_V1_ATTACH_PROCESS_RESPONSE_FRAME_OUTPUT)
        return true;
    const struct cay_v1_output_chunk *chunk = response->frame.output;
    if (!tail->has_begun)
        tail->start = chunk->offset;
    tail->has_begun = true;
    for (size_t i = 0; i < chunk->data.len; i++) {
        if (chunk->data.ptr[i] == '\n')
            tail->ends[tail->count++ % tail->wanted] = chunk->offset + (int64_t)i + 1;
    }
    tail->end = chunk->offset + (int64_t)chunk->data.len;
    return true;
}

static bool find_tail(struct cay_cli *cli, size_t lines, struct cay_follow *follow,
                      struct cay_error *err)
{
    struct cay_client *client = NULL;
    const struct cay_v1_attach_process_request request = {
        .session_id = follow->session_id,
        .which_target = CAY_V1_ATTACH_PROCESS_REQUEST_TARGET_PROCESS_ID,
        .target.process_id = follow->process_id,
        .no_follow = true,
    };
    /* The line before the first one ends where that begins. */
    struct tail tail = {.wanted = lines + 1};
    tail.ends = cay_arena_array(&cli->arena, tail.wanted, sizeof(*tail.ends));
    if (!tail.ends)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    if (!cay_cli_client(cli, CAY_CALL_STREAM, &client, err) ||
        !cay_client_call_stream(client, &cay_v1_methods[CAY_V1_PROCESS_SERVICE_ATTACH_PROCESS],
                                &request, look_at, &tail, err))
        return false;
    /* A last line without an end is one, too. */
    bool is_open = tail.count && tail.ends[(tail.count - 1) % tail.wanted] < tail.end;
    size_t back = lines + !is_open;
    follow->has_offset = true;
    follow->offset = tail.count >= back ? tail.ends[(tail.count - back) % tail.wanted] : tail.start;
    return true;
}

static bool run_logs(struct cay_cli *cli, struct cay_error *err)
{
    bool has_tail = false;
    int32_t lines = 0;
    struct cay_follow follow = {
        .session_id = cay_str(cli->args.words[0]),
        .process_id = cay_str(cli->args.words[1]),
        .is_log = true,
        .is_followed = cay_args_has(&cli->args, "follow"),
        .has_offset = cay_args_has(&cli->args, "since"),
    };
    if (!read_number(cli, "since", &follow.offset, err) ||
        !cay_values_number(cli, "tail", 1, TAIL_LINES_MAX, &has_tail, &lines, err))
        return false;
    if (has_tail && follow.has_offset)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "--tail and --since do not go together");
    if (has_tail && !find_tail(cli, (size_t)lines, &follow, err))
        return false;
    cay_exec_catch();
    return cay_exec_stream(cli, &follow, err);
}

static const struct cay_flag shell_flags[] = {
    {.name = "user",
     .letter = 'u',
     .value = "USER",
     .help = "the user to be, e.g. root; the session's user otherwise"},
    {.name = "cwd", .value = "DIR", .help = "start in this directory"},
    {.name = "env",
     .letter = 'e',
     .value = "NAME=VALUE",
     .help = "set a variable; may be given again"},
    {},
};

const struct cay_command cay_command_shell = {
    .name = "shell",
    .arguments = "SESSION",
    .summary = "Open a shell with a terminal in a session",
    .details =
        "Ctrl-p ctrl-q leaves it running; 'cay attach' comes back to it. The exit status is the\n"
        "shell's own.",
    .flags = shell_flags,
    .group = CAY_GROUP_SANDBOX,
    .words_min = 1,
    .words_max = 1,
    .run = run_shell,
    .complete = cay_session_offer,
};

const struct cay_command cay_command_attach = {
    .name = "attach",
    .arguments = "SESSION PROCESS",
    .summary = "Follow a process, and give it cay's own input if it takes any",
    .details =
        "cay begins with its newest output. Ctrl-p ctrl-q leaves it running, and so does Ctrl-C\n"
        "when it has no terminal. The exit status is the process's own.",
    .group = CAY_GROUP_SANDBOX,
    .words_min = 2,
    .words_max = 2,
    .run = run_attach,
    .complete = cay_session_offer_processes,
};

static const struct cay_flag logs_flags[] = {
    {.name = "follow", .letter = 'f', .help = "wait for more until the process ends"},
    {.name = "since", .value = "OFFSET", .help = "begin with this byte of its output"},
    {.name = "tail", .value = "LINES", .help = "show only this many of the newest lines"},
    {},
};

const struct cay_command cay_command_logs = {
    .name = "logs",
    .arguments = "SESSION PROCESS",
    .summary = "Print what a process has written",
    .details =
        "cay prints what the daemon has kept of it, standard output and standard error apart.",
    .flags = logs_flags,
    .group = CAY_GROUP_SANDBOX,
    .words_min = 2,
    .words_max = 2,
    .run = run_logs,
    .complete = cay_session_offer_processes,
};
