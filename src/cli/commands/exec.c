/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands/exec.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/limits.h"
#include "base/quantity.h"
#include "cli/again.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/offer.h"
#include "cli/replay.h"
#include "cli/values.h"
#include "client/rpc/client.h"

static volatile sig_atomic_t caught_signal;
static struct cay_cancel *cancel; /* made before a signal is caught, and kept */

static void on_signal(int number)
{
    caught_signal = number;
    cay_cancel_fire(cancel);
}

void cay_exec_catch(void)
{
    /* Without SA_RESTART: a wait for whoever reads our output ends. */
    const struct sigaction action = {.sa_handler = on_signal};
    if (!cancel && !cay_cancel_create(&cancel, NULL))
        return;
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    for (size_t i = 0; i < CAY_COUNT(signals); i++) {
        struct sigaction before;
        /* What a parent has us ignore (nohup) stays ignored. */
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            (void)sigaction(signals[i], &action, NULL);
    }
}

int cay_exec_caught(void)
{
    return caught_signal;
}

struct follower {
    struct cay_cli *cli;
    const struct cay_follow *follow;
    struct cay_input *input;
    struct cay_again again;
    struct cay_str process_id; /* in cli->arena; empty before there is one */
    int64_t next_offset;       /* behind what was passed on */
    int64_t replay_end;        /* what a terminal showed before we came ends there */
    bool has_output;           /* something was passed on */
    bool has_ended;
    bool is_reader_gone;
};

/* All of it, at once: somebody may be watching. */
static int write_all(int fd, struct cay_str data)
{
    while (data.len) {
        ssize_t len = write(fd, data.ptr, data.len);
        if (len < 0 && errno == EAGAIN) {
            struct pollfd wait = {.fd = fd, .events = POLLOUT};
            (void)poll(&wait, 1, -1);
            continue;
        }
        if (len < 0 && errno != EINTR)
            return -errno;
        if (len > 0) {
            data.ptr += len;
            data.len -= (size_t)len;
        } else if (caught_signal) {
            return -EINTR;
        }
    }
    return 0;
}

CAY_PRINTF(2, 3) static void note(const struct cay_cli *cli, const char *fmt, ...)
{
    if (cli->out.is_json)
        return; /* it is in the frames */
    va_list args;
    va_start(args, fmt);
    fputs("cay: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
}

static bool pass_on(struct follower *self, const struct cay_v1_output_chunk *chunk,
                    struct cay_error *err)
{
    int fd = chunk->stream == CAY_V1_OUTPUT_STREAM_STDERR ? STDERR_FILENO : STDOUT_FILENO;
    /* Of a command of ours the end tells it; a terminal is not written into. */
    if (chunk->dropped_bytes && self->follow->is_log)
        note(self->cli, "%" PRId64 " bytes of its output were dropped here", chunk->dropped_bytes);
    cay_auto(cay_buf_finish) struct cay_buf shown;
    cay_buf_init(&shown, CAY_LIMIT_MESSAGE_BYTES);
    struct cay_str data = chunk->data;
    if (chunk->offset < self->replay_end) {
        cay_replay_clean(&shown, data);
        data = cay_buf_str(&shown);
    }
    int status = write_all(fd, data);
    if (status == 0)
        return true;
    if (status == -EINTR)
        return cay_fail(err, CAY_R_CANCELED, "interrupted");
    self->is_reader_gone = status == -EPIPE;
    return cay_fail_errno(err, CAY_R_CANCELED, status, "cannot pass the command's output on");
}

/* How it ended, where the daemon knows more than we; the exit code speaks for itself. */
static void note_message(const struct follower *self, const struct cay_v1_exec_result *result)
{
    const struct cay_v1_process_spec *launch = self->follow->launch;
    cay_auto(cay_buf_finish) struct cay_buf clean;
    if (cay_str_starts(result->message, "exit code "))
        return;
    cay_buf_init(&clean, CAY_LIMIT_MESSAGE_BYTES);
    /* Without having run it has told nobody its name. */
    if (result->cause == CAY_V1_END_CAUSE_EXITED && launch && launch->argv.count) {
        cay_buf_append_text(&clean, "'");
        cay_output_clean(&clean, launch->argv.items[0]);
        cay_buf_append_text(&clean, "': ");
    }
    cay_output_clean(&clean, result->message);
    if (result->message.len)
        note(self->cli, "%.*s", (int)clean.len, clean.data);
    else if (result->cause != CAY_V1_END_CAUSE_EXITED)
        note(self->cli, "the command ended, and how is not known");
}

static void note_leftovers(const struct cay_cli *cli, const struct cay_v1_exec_result *result)
{
    int count = result->leftover_count;
    bool are_killed = result->leftovers.count && result->leftovers.items[0].killed;
    if (count && are_killed)
        note(cli, "%d process%s that the command left behind %s killed", count,
             count == 1 ? "" : "es", count == 1 ? "was" : "were");
    else if (count)
        note(cli,
             "%d process%s that the command started still run%s; with --kill-leftovers %s would "
             "have "
             "been killed",
             count, count == 1 ? "" : "es", count == 1 ? "s" : "", count == 1 ? "it" : "they");
}

static void note_refusals(const struct cay_cli *cli, const struct cay_v1_exec_result *result)
{
    int32_t told_count = (int32_t)result->network_refusals.count;
    for (int32_t i = 0; i < told_count; i++) {
        cay_auto(cay_buf_finish) struct cay_buf clean;
        cay_buf_init(&clean, CAY_LIMIT_MESSAGE_BYTES);
        cay_output_clean(&clean, result->network_refusals.items[i]);
        note(cli, "%.*s", (int)clean.len, clean.data);
    }
    if (result->network_refusal_count > told_count)
        note(cli, "network: and %d more", result->network_refusal_count - told_count);
}

static void take_result(struct follower *self, const struct cay_v1_exec_result *result)
{
    struct cay_cli *cli = self->cli;
    char took[CAY_DURATION_BYTES] = "some time";
    if (result->duration)
        cay_duration_format(result->duration->seconds * 1000 + result->duration->nanos / 1'000'000,
                            took);
    int status = CAY_EXIT_ERROR;
    switch (result->cause) {
    case CAY_V1_END_CAUSE_EXITED:
        status = result->exit_code;
        note_message(self, result);
        break;
    case CAY_V1_END_CAUSE_SIGNALED:
        status = 128 + result->signal;
        note(cli, "the command died of signal %d (%s)", result->signal,
             sigabbrev_np(result->signal) ? sigabbrev_np(result->signal) : "unknown");
        break;
    case CAY_V1_END_CAUSE_TIMEOUT_WALL:
        status = CAY_EXIT_TIMEOUT;
        note(cli, "the command timed out after %s and was killed with all it started", took);
        break;
    case CAY_V1_END_CAUSE_TIMEOUT_NO_OUTPUT:
        status = CAY_EXIT_TIMEOUT;
        note(cli, "the command was silent for too long and was killed after %s", took);
        break;
    case CAY_V1_END_CAUSE_OOM:
        status = CAY_EXIT_KILLED;
        note(cli, "the command was killed: its memory limit, or the session's, was reached");
        break;
    case CAY_V1_END_CAUSE_KILLED:
    case CAY_V1_END_CAUSE_QUOTA:
    case CAY_V1_END_CAUSE_POLICY:
        status = CAY_EXIT_KILLED;
        note_message(self, result);
        break;
    case CAY_V1_END_CAUSE_LOST:
    case CAY_V1_END_CAUSE_UNSPECIFIED: note_message(self, result); break;
    }
    note_refusals(cli, result);
    note_leftovers(cli, result);
    if (result->dropped_bytes)
        note(cli, "%" PRId64 " bytes of its output were dropped", result->dropped_bytes);
    cli->exit_status = status;
    self->has_ended = true;
}

/* From here on our input is the process's, where it takes any. */
static void open_input(struct follower *self, const struct cay_v1_process *process)
{
    struct cay_cli *cli = self->cli;
    if (!self->follow->gives_input || self->input || !process->stdin_open)
        return;
    const struct cay_input_options options = {
        .session_id = self->follow->session_id,
        .process_id = cay_arena_str(&cli->arena, process->id),
        .has_terminal = process->pty && isatty(STDIN_FILENO),
        .is_detachable = self->follow->is_detachable && isatty(STDIN_FILENO),
        .types_end = self->follow->launch && process->pty && !isatty(STDIN_FILENO),
    };
    self->input = cay_input_open(cli, &options);
}

static bool on_frame(void *state, const void *message, struct cay_error *err)
{
    struct follower *self = state;
    const struct cay_v1_attach_process_response *response = message;
    struct cay_output *out = &self->cli->out;
    cay_again_began(&self->again);
    if (out->is_json &&
        !cay_output_message(out, &cay_v1_attach_process_response_desc, message, err))
        return false;
    if (response->which_frame == CAY_V1_ATTACH_PROCESS_RESPONSE_FRAME_ATTACHED) {
        const struct cay_v1_process *process = response->frame.attached;
        bool is_first = !self->process_id.len;
        if (is_first && process->pty && !self->follow->is_log && isatty(STDOUT_FILENO))
            self->replay_end = process->output_end;
        if (is_first)
            self->process_id = cay_arena_str(&self->cli->arena, process->id);
        open_input(self, process);
    }
    if (response->which_frame == CAY_V1_ATTACH_PROCESS_RESPONSE_FRAME_OUTPUT) {
        const struct cay_v1_output_chunk *chunk = response->frame.output;
        if (!out->is_json && !pass_on(self, chunk, err))
            return false;
        self->has_output = true;
        self->next_offset = chunk->offset + (int64_t)chunk->data.len;
    }
    if (response->which_frame == CAY_V1_ATTACH_PROCESS_RESPONSE_FRAME_EXITED) {
        const struct cay_v1_process *process = response->frame.exited;
        if (!process->result)
            return cay_fail(err, CAY_R_INTERNAL, "the daemon did not say how the command ended");
        cay_input_close(cay_take_ptr(self->input)); /* what we say now is for a usual terminal */
        if (!self->follow->is_log)
            take_result(self, process->result);
        self->has_ended = true;
    }
    return true;
}

static bool make_spec(struct cay_cli *cli, const char *const *argv, size_t argc,
                      struct cay_v1_process_spec *spec, struct cay_v1_exec_policy *policy,
                      struct cay_error *err)
{
    *policy = (struct cay_v1_exec_policy){};
    *spec = (struct cay_v1_process_spec){
        .cwd = cay_values_text(cli, "cwd"),
        .user = cay_values_text(cli, "user"),
        .stdin_open = cay_args_has(&cli->args, "interactive"),
        .policy = policy,
    };
    if (cay_args_has(&cli->args, "kill-leftovers"))
        policy->leftovers = CAY_V1_LEFTOVER_POLICY_KILL;
    return cay_values_duration(cli, "timeout", &policy->timeout, err) &&
           cay_values_duration(cli, "quiet-timeout", &policy->no_output_timeout, err) &&
           cay_values_pairs(cli, "env", &spec->env, err) &&
           cay_values_words(cli, argv, argc, &spec->argv, err);
}

/* A program that draws wants to know on what. */
static bool add_terminal(struct cay_cli *cli, struct cay_v1_process_spec *spec)
{
    const char *term = getenv("TERM");
    spec->pty = cay_arena_new(&cli->arena, struct cay_v1_pty_size);
    if (!spec->pty)
        return false;
    (void)cay_input_size(spec->pty);
    struct cay_pb_pair *pairs = cay_arena_array(&cli->arena, spec->env.count + 1, sizeof(*pairs));
    if (!term || !*term || !isatty(STDOUT_FILENO) || !pairs)
        return true;
    pairs[0] = (struct cay_pb_pair){CAY_STR("TERM"), cay_str(term)};
    if (spec->env.count)
        memcpy(pairs + 1, spec->env.items, spec->env.count * sizeof(*pairs));
    spec->env = (struct cay_pb_pairs){pairs, spec->env.count + 1};
    return true;
}

static void note_way_back(const struct follower *self)
{
    struct cay_str session = self->follow->session_id;
    struct cay_str process = self->process_id;
    note(self->cli, "detached; process %.*s goes on, and 'cay attach %.*s %.*s' comes back to it",
         (int)process.len, process.ptr, (int)session.len, session.ptr, (int)process.len,
         process.ptr);
}

/* The daemon may be restarted meanwhile: the same process, from where we were. */
static bool call_until_over(struct follower *self, struct cay_client *client,
                            struct cay_v1_attach_process_request *request, struct cay_error *err)
{
    const struct cay_call_options options = {.size = sizeof(options), .cancel = cancel};
    while (!cay_client_call_stream_with(client, &options,
                                        &cay_v1_methods[CAY_V1_PROCESS_SERVICE_ATTACH_PROCESS],
                                        request, on_frame, self, err)) {
        if (self->has_ended || cay_input_is_detached(self->input) || !self->process_id.len ||
            !cay_again_waited(&self->again, err, &caught_signal))
            return false;
        *err = (struct cay_error){};
        request->which_target = CAY_V1_ATTACH_PROCESS_REQUEST_TARGET_PROCESS_ID;
        request->target.process_id = self->process_id;
        request->resume = self->follow->launch != NULL;
        /* Without a word of it yet, the first call's own wish still stands. */
        if (self->has_output || request->resume) {
            request->has_offset = true;
            request->offset = self->next_offset;
            request->tail_bytes = 0;
        }
    }
    return true;
}

bool cay_exec_stream(struct cay_cli *cli, const struct cay_follow *follow, struct cay_error *err)
{
    struct follower self = {.cli = cli, .follow = follow};
    struct cay_client *client = NULL;
    cli->has_timeout = false; /* it is the command's, not the call's */
    if (follow->launch && follow->has_terminal && !add_terminal(cli, follow->launch))
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    if (!cay_cli_client(cli, CAY_CALL_STREAM, &client, err))
        return false;
    struct cay_v1_attach_process_request request = {
        .session_id = follow->session_id,
        .which_target = CAY_V1_ATTACH_PROCESS_REQUEST_TARGET_PROCESS_ID,
        .target.process_id = follow->process_id,
        .has_offset = follow->has_offset,
        .offset = follow->offset,
        .tail_bytes = follow->tail_bytes,
        .no_follow = follow->is_log && !follow->is_followed,
    };
    if (follow->launch) {
        request.which_target = CAY_V1_ATTACH_PROCESS_REQUEST_TARGET_LAUNCH;
        request.target.launch = follow->launch;
    }
    bool done = call_until_over(&self, client, &request, err);
    bool is_detached = cay_input_is_detached(self.input);
    cay_input_close(self.input);
    if (self.has_ended || (done && follow->is_log))
        return true;
    if (follow->is_detachable && self.process_id.len)
        note_way_back(&self);
    if (is_detached)
        return true;
    if (done)
        return cay_fail(err, CAY_R_INTERNAL, "the daemon did not say how the command ended");
    if (self.is_reader_gone || caught_signal) {
        /* As a program that died of it would look. */
        cli->exit_status = 128 + (caught_signal ? caught_signal : SIGPIPE);
        return true;
    }
    return false;
}

bool cay_exec_follow(struct cay_cli *cli, struct cay_str session_id, const char *const *argv,
                     size_t argc, struct cay_str tag, struct cay_v1_resource_limits *limits,
                     struct cay_error *err)
{
    struct cay_v1_process_spec spec;
    struct cay_v1_exec_policy policy;
    const struct cay_follow follow = {
        .session_id = session_id,
        .launch = &spec,
        .has_terminal = cay_args_has(&cli->args, "tty"),
        .gives_input = cay_args_has(&cli->args, "interactive") || cay_args_has(&cli->args, "tty"),
    };
    if (!make_spec(cli, argv, argc, &spec, &policy, err))
        return false;
    spec.tag = tag;
    policy.limits = limits;
    policy.kill_on_disconnect = true;
    policy.overflow = CAY_V1_OUTPUT_OVERFLOW_FOLLOW; /* a slow reader of ours loses nothing */
    return cay_exec_stream(cli, &follow, err);
}

enum { PORT_MAX = 65535 };

/* --restart and what goes with it; *out_policy is NULL without. */
static bool read_restart(struct cay_cli *cli, struct cay_v1_restart_policy **out_policy,
                         struct cay_error *err)
{
    static const struct {
        const char *name;
        enum cay_v1_restart_mode mode;
    } modes[] = {
        {"never", CAY_V1_RESTART_MODE_NEVER},
        {"on-failure", CAY_V1_RESTART_MODE_ON_FAILURE},
        {"always", CAY_V1_RESTART_MODE_ALWAYS},
    };
    struct cay_str text = cay_values_text(cli, "restart");
    bool has_count = false;
    *out_policy = NULL;
    if (!text.ptr)
        return true;
    struct cay_v1_restart_policy *policy = cay_arena_new(&cli->arena, struct cay_v1_restart_policy);
    if (!policy)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    for (size_t i = 0; i < CAY_COUNT(modes); i++) {
        if (cay_str_is(text, modes[i].name))
            policy->mode = modes[i].mode;
    }
    if (!policy->mode)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "--restart '%.40s': write never, on-failure or always", text.ptr);
    *out_policy = policy;
    return cay_values_number(cli, "max-restarts", 0, INT32_MAX, &has_count, &policy->max_restarts,
                             err) &&
           cay_values_wait(cli, "restart-delay", &policy->delay, err);
}

static bool start_in_background(struct cay_cli *cli, struct cay_str session_id,
                                const char *const *argv, size_t argc, struct cay_error *err)
{
    struct cay_v1_process_spec spec;
    struct cay_v1_exec_policy policy;
    struct cay_v1_port_request port = {};
    bool has_port = false;
    int32_t number = 0;
    struct cay_v1_launch_process_response response = {};
    const struct cay_v1_launch_process_request request = {.session_id = session_id, .spec = &spec};
    if (!make_spec(cli, argv, argc, &spec, &policy, err) ||
        !cay_values_limits(cli, &policy.limits, err) || !read_restart(cli, &spec.restart, err) ||
        !cay_values_number(cli, "port", 1, PORT_MAX, &has_port, &number, err) ||
        !cay_values_duration(cli, "wait-port", &port.wait_listening, err))
        return false;
    port.port = (uint32_t)number;
    if (has_port)
        spec.expose_port = &port;
    spec.tag = cay_values_text(cli, "tag");
    if (cay_args_has(&cli->args, "tty") && !add_terminal(cli, &spec))
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    cli->has_timeout = false;
    if (!cay_cli_call(cli, CAY_V1_PROCESS_SERVICE_LAUNCH_PROCESS, &request, &response, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_launch_process_response_desc, &response, err);
    cay_output_text(&cli->out, CAY_STYLE_PLAIN, response.process->id);
    cay_output_printf(&cli->out, "\n");
    for (size_t i = 0; i < response.process->ports.count; i++) {
        cay_output_text(&cli->out, CAY_STYLE_GOOD, response.process->ports.items[i].address);
        cay_output_printf(&cli->out, "\n");
    }
    return true;
}

/* Each of these flags means something only next to another. */
static bool check_company(const struct cay_args *args, struct cay_error *err)
{
    static const struct {
        const char *flag;
        const char *needs;
    } pairs[] = {
        {"port", "background"},      {"restart", "background"},    {"wait-port", "port"},
        {"max-restarts", "restart"}, {"restart-delay", "restart"},
    };
    for (size_t i = 0; i < CAY_COUNT(pairs); i++) {
        if (cay_args_has(args, pairs[i].flag) && !cay_args_has(args, pairs[i].needs))
            return cay_fail(err, CAY_R_INVALID_ARGUMENT, "--%s goes with --%s", pairs[i].flag,
                            pairs[i].needs);
    }
    return true;
}

static bool run_exec(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_args *args = &cli->args;
    if (args->dash_at != 1 && args->dash_at != args->word_count)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "before '--' stands one SESSION, after it the command; usage: cay exec "
                        "SESSION -- COMMAND...");
    if (!check_company(args, err))
        return false;
    if (cay_args_has(args, "background"))
        return start_in_background(cli, cay_str(args->words[0]), args->words + 1,
                                   args->word_count - 1, err);
    struct cay_v1_resource_limits *limits = NULL;
    if (!cay_values_limits(cli, &limits, err))
        return false;
    cay_exec_catch();
    return cay_exec_follow(cli, cay_str(args->words[0]), args->words + 1, args->word_count - 1,
                           cay_values_text(cli, "tag"), limits, err);
}

static const struct cay_flag exec_flags[] = {
    CAY_FLAGS_EXEC,
    CAY_FLAGS_LIMITS,
    {.name = "background", .help = "start it, print its id and return; see 'cay ps'"},
    {.name = "tag", .value = "NAME", .help = "a name for the process, for logs, attach and kill"},
    {.name = "port",
     .value = "N",
     .help = "with --background: expose this port while the command lives, and print the address"},
    {.name = "wait-port",
     .value = "DURATION",
     .help = "with --port: wait until something listens there, at most this long"},
    {.name = "restart",
     .value = "WHEN",
     .help = "with --background: when to start it again: never, on-failure or always"},
    {.name = "max-restarts",
     .value = "N",
     .help = "with --restart: start it again at most this many times; 0: any number"},
    {.name = "restart-delay",
     .value = "DURATION",
     .help = "with --restart: how long to wait before the first restart; 1s otherwise"},
    {},
};

const struct cay_command cay_command_exec = {
    .name = "exec",
    .arguments = "SESSION -- COMMAND...",
    .summary = "Run a command in a session, with live output and its exit status",
    .details =
        "No shell is involved; use 'sh -c' for pipes and globs. Output comes unaltered. The\n"
        "command ends when its own process ends; cay says what it leaves running. Ctrl-C kills\n"
        "it with all it started. The exit status is the command's own; 128+N when it died of "
        "signal\n"
        "N; 124 after a timeout; 137 when it was killed; 125 when cay itself failed.",
    .examples = "  cay exec demo -- python3 -c 'print(6*7)'\n"
                "  cay exec demo --timeout 30s --user root -- sh -c 'rm -rf /usr; ls /'\n"
                "  echo hello | cay exec -i demo -- wc -c\n"
                "  cay logs -f demo $(cay exec --background demo -- python3 -m http.server)",
    .flags = exec_flags,
    .group = CAY_GROUP_SANDBOX,
    .words_min = 2,
    .words_max = UINT32_MAX,
    .run = run_exec,
    .complete = cay_session_offer,
};
