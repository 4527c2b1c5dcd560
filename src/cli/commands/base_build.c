/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/commands/steps.h"
#include "cli/values.h"
#include "client/rpc/client.h"

/* Of a recipe's log so much is kept to be shown when it fails. */
enum { KEPT_BYTES_MAX = 4 << 20 };

struct build {
    struct cay_cli *cli;
    struct cay_buf kept; /* lines of a recipe that were not shown */
    bool is_folded;      /* a recipe prints hundreds of lines: they are kept, not shown */
    bool is_bar;         /* a line that says how far it is stands on the terminal */
    bool is_done;
};

static void clear_bar(struct build *self)
{
    if (self->is_bar)
        fputs("\r\033[K", stderr);
    self->is_bar = false;
}

static void draw_bar(struct build *self, const struct cay_v1_build_progress *progress)
{
    enum { COLUMNS = 24 };
    if (!isatty(STDERR_FILENO)) {
        if (self->is_folded) { /* the daemon tells each phase once */
            cay_output_text(&(struct cay_output){.file = stderr}, CAY_STYLE_PLAIN,
                            progress->message);
            fputc('\n', stderr);
        }
        return;
    }
    int filled = (int)(CAY_MIN(CAY_MAX(progress->fraction, 0.0), 1.0) * COLUMNS);
    struct cay_output err = {.file = stderr, .is_terminal = true};
    clear_bar(self);
    fputc('[', stderr);
    for (int i = 0; i < COLUMNS; i++)
        fputc(i < filled ? '=' : ' ', stderr);
    fprintf(stderr, "] %d%%  ", (int)(progress->fraction * 100));
    cay_output_text(&err, CAY_STYLE_DIM, progress->message);
    fflush(stderr);
    self->is_bar = true;
}

static void show_line(struct build *self, struct cay_str line)
{
    struct cay_output log = {.file = stderr, .is_terminal = isatty(STDERR_FILENO)};
    clear_bar(self);
    cay_output_text(&log, CAY_STYLE_DIM, line);
    fputc('\n', stderr);
}

static void take_line(struct build *self, const struct cay_v1_build_log *line)
{
    if (self->is_folded && self->kept.len + line->message.len < KEPT_BYTES_MAX) {
        cay_buf_append_str(&self->kept, line->message);
        cay_buf_append_byte(&self->kept, '\n');
    }
    if (!self->is_folded || cay_str_is(line->level, "warn") || cay_str_is(line->level, "error"))
        show_line(self, line->message);
}

/* What led to a failure. */
static void show_kept(struct build *self)
{
    clear_bar(self);
    for (size_t at = 0, end = 0; at < self->kept.len; at = end + 1) {
        const char *from = (const char *)self->kept.data + at;
        end = at + (size_t)((const char *)memchr(from, '\n', self->kept.len - at) - from);
        show_line(self, (struct cay_str){from, end - at});
    }
}

static bool receive(void *state, const void *message, struct cay_error *err)
{
    struct build *self = state;
    const struct cay_v1_build_base_response *frame = message;
    if (frame->which_frame == CAY_V1_BUILD_BASE_RESPONSE_FRAME_BASE)
        self->is_done = true;
    if (self->cli->out.is_json)
        return frame->which_frame == CAY_V1_BUILD_BASE_RESPONSE_FRAME_HEARTBEAT ||
               cay_output_message(&self->cli->out, &cay_v1_build_base_response_desc, frame, err);
    switch (frame->which_frame) {
    case CAY_V1_BUILD_BASE_RESPONSE_FRAME_LOG: take_line(self, frame->frame.log); break;
    case CAY_V1_BUILD_BASE_RESPONSE_FRAME_PROGRESS: draw_bar(self, frame->frame.progress); break;
    case CAY_V1_BUILD_BASE_RESPONSE_FRAME_BASE:
        clear_bar(self);
        cay_output_text(&self->cli->out, CAY_STYLE_PLAIN, frame->frame.base->name);
        cay_output_printf(&self->cli->out, "\n");
        break;
    case CAY_V1_BUILD_BASE_RESPONSE_FRAME_HEARTBEAT:
    case CAY_V1_BUILD_BASE_RESPONSE_FRAME_NOT_SET: break;
    }
    return true;
}

/* A file, or standard input, as a text that ends with NUL. */
static bool read_text(const char *path, struct cay_arena *arena, char **out_text,
                      struct cay_error *err)
{
    cay_autoclose int fd = strcmp(path, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                                  : open(path, O_RDONLY | O_CLOEXEC);
    char *text = cay_arena_alloc(arena, CAY_STEPS_FILE_BYTES_MAX + 1);
    size_t len = 0;
    ssize_t got = fd < 0 ? -1 : 1;
    if (!text)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    while (got > 0 && len < CAY_STEPS_FILE_BYTES_MAX) {
        got = read(fd, text + len, CAY_STEPS_FILE_BYTES_MAX - len);
        len += got > 0 ? (size_t)got : 0;
    }
    if (got < 0)
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "cannot read '%.100s'", path);
    if (len == CAY_STEPS_FILE_BYTES_MAX || memchr(text, '\0', len))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "'%.100s' is not a file of steps", path);
    text[len] = '\0';
    *out_text = text;
    return true;
}

static bool copies(const struct cay_v1_build_base_request *request)
{
    for (size_t i = 0; i < request->steps.count; i++) {
        if (request->steps.items[i].kind == CAY_V1_BUILD_STEP_KIND_COPY)
            return true;
    }
    return false;
}

/* --start and --ready: commands for the shell. */
static bool add_command(struct cay_cli *cli, const char *flag, struct cay_pb_strs *out_argv,
                        struct cay_error *err)
{
    struct cay_str text = cay_values_text(cli, flag);
    struct cay_str *argv = cay_arena_array(&cli->arena, 3, sizeof(*argv));
    if (!text.len)
        return true;
    if (!argv)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    argv[0] = CAY_STR("/bin/sh");
    argv[1] = CAY_STR("-c");
    argv[2] = text;
    *out_argv = (struct cay_pb_strs){argv, 3};
    return true;
}

static bool read_steps(struct cay_cli *cli, struct cay_v1_build_base_request *request,
                       struct cay_error *err)
{
    const char *file = cay_args_text(&cli->args, "file");
    const char *context = cay_args_text(&cli->args, "context");
    struct cay_str from = cay_values_text(cli, "from");
    char *text = NULL;
    request->settings = cay_arena_new(&cli->arena, struct cay_v1_base_settings);
    if (!request->settings)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    if (file && request->recipe.len)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "give a recipe or --file, not both");
    if (file && (!read_text(file, &cli->arena, &text, err) ||
                 !cay_steps_parse(text, &cli->arena, request, err)))
        return cay_wrap(err, "%.100s", file);
    if (from.len)
        request->from_base = from;
    request->settings->runtime = cay_values_text(cli, "runtime");
    if (copies(request) &&
        !cay_steps_pack(context ? context : ".", &cli->arena, &request->context, err))
        return false;
    return add_command(cli, "start", &request->settings->start_command, err) &&
           add_command(cli, "ready", &request->settings->ready_command, err) &&
           (request->recipe.len || request->from_base.len ||
            cay_fail(err, CAY_R_INVALID_ARGUMENT,
                     "name a recipe, or a file of steps by --file, or a base by --from"));
}

static bool run_build(struct cay_cli *cli, struct cay_error *err)
{
    static const char *const names[] = {"suite", "mirror", "packages"};
    const struct cay_args *args = &cli->args;
    struct cay_pb_pair params[CAY_COUNT(names)];
    struct build self = {.cli = cli};
    self.is_folded = args->word_count && !cay_args_has(args, "verbose");
    struct cay_client *client = NULL;
    struct cay_str name = cay_values_text(cli, "name");
    struct cay_str recipe = args->word_count ? cay_str(args->words[0]) : (struct cay_str){};
    struct cay_v1_build_base_request request = {
        .name = name.len ? name : recipe,
        .recipe = recipe,
        .params.items = params,
        .replace = cay_args_has(args, "replace"),
    };
    for (size_t i = 0; i < CAY_COUNT(names); i++) {
        struct cay_str value = cay_values_text(cli, names[i]);
        if (value.len)
            params[request.params.count++] = (struct cay_pb_pair){cay_str(names[i]), value};
    }
    if (!read_steps(cli, &request, err))
        return false;
    if (!request.name.len)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "--name is missing; it says what the base is to be called");
    if (!cay_values_pairs(cli, "label", &request.labels, err) ||
        !cay_values_names(cli, "alias", &request.aliases, err) ||
        !cay_values_network(cli, (struct cay_str){}, &request.network, err) ||
        !cay_cli_client(cli, CAY_CALL_STREAM, &client, err))
        return false;
    cay_buf_init(&self.kept, KEPT_BYTES_MAX);
    bool done = cay_client_call_stream(client, &cay_v1_methods[CAY_V1_BASE_SERVICE_BUILD_BASE],
                                       &request, receive, &self, err);
    if (!self.is_done)
        show_kept(&self);
    clear_bar(&self);
    cay_buf_finish(&self.kept);
    return done && (self.is_done ||
                    cay_fail(err, CAY_R_UNAVAILABLE, "the daemon's answer broke off; try again"));
}

static const struct cay_flag build_flags[] = {
    {.name = "name", .value = "NAME", .help = "the base's name; that of the recipe otherwise"},
    {.name = "file", .letter = 'f', .value = "FILE", .help = "steps, in the words of a Dockerfile"},
    {.name = "from", .value = "BASE", .help = "the base to begin with; the file's FROM otherwise"},
    {.name = "context",
     .value = "DIR",
     .help = "the directory that COPY takes files from; this one otherwise"},
    {.name = "start",
     .value = "COMMAND",
     .help = "a command that is started in each session of the base"},
    {.name = "ready",
     .value = "COMMAND",
     .help = "a command that succeeds when what --start started is ready"},
    {.name = "runtime",
     .value = "RUNTIME",
     .help = "what isolates its sessions, unless they ask for another"},
    {.name = "alias", .value = "NAME", .help = "another name for the base; may be given again"},
    {.name = "suite",
     .value = "SUITE",
     .help = "release to install; that of the daemon's machine otherwise"},
    {.name = "mirror",
     .value = "URL",
     .help = "where to get packages; where the daemon's machine gets its own otherwise"},
    {.name = "packages", .value = "A,B,C", .help = "packages to add to the usual ones"},
    CAY_FLAG_NETWORK,
    {.name = "replace", .help = "put it in place of a base of the same name"},
    {.name = "verbose", .help = "show all that the programs of a recipe print"},
    {.name = "label",
     .letter = 'l',
     .value = "NAME=VALUE",
     .help = "a label to add; may be given again"},
    {},
};

const struct cay_command cay_command_base_build = {
    .name = "base build",
    .arguments = "[RECIPE]",
    .summary = "Make a base by a recipe or by steps on another base",
    .details =
        "The recipe debian installs a small Debian with bash, Python, git, curl, sudo and the\n"
        "usual tools, and a user 'user'. The recipe code-interpreter adds numpy, pandas,\n"
        "matplotlib and a service on port 49999 that runs code; with --from it adds only the\n"
        "service, to that base. Without --from the daemon runs debootstrap, which must be\n"
        "installed on its machine.\n"
        "\n"
        "A file of steps has FROM, RUN, COPY, ENV, WORKDIR, USER, CMD (what sessions start) and\n"
        "HEALTHCHECK CMD (what says that it is ready), as in a Dockerfile. All steps are done in\n"
        "a sandbox of their own. A build that is interrupted leaves nothing.",
    .examples = "  cay base build debian\n"
                "  cay base build debian --name trixie --suite trixie --packages jq,make\n"
                "  cay base build --name app -f Dockerfile --context .\n"
                "  cay base build code-interpreter --from debian",
    .flags = build_flags,
    .group = CAY_GROUP_HOST,
    .words_min = 0,
    .words_max = 1,
    .run = run_build,
};
