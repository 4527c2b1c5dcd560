/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "bin/cay_base.h"
#include "bin/cay_values.h"
#include "client/rpc/client.h"

struct build {
    struct cay_cli *cli;
    bool is_bar; /* a line that says how far it is stands on the terminal */
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
    if (!isatty(STDERR_FILENO))
        return;
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

static bool receive(void *state, const void *message, struct cay_error *err)
{
    struct build *self = state;
    const struct cay_v1_build_base_response *frame = message;
    struct cay_output log = {.file = stderr, .is_terminal = isatty(STDERR_FILENO)};
    if (frame->which_frame == CAY_V1_BUILD_BASE_RESPONSE_FRAME_BASE)
        self->is_done = true;
    if (self->cli->out.is_json)
        return frame->which_frame == CAY_V1_BUILD_BASE_RESPONSE_FRAME_HEARTBEAT ||
               cay_output_message(&self->cli->out, &cay_v1_build_base_response_desc, frame, err);
    switch (frame->which_frame) {
    case CAY_V1_BUILD_BASE_RESPONSE_FRAME_LOG:
        clear_bar(self);
        cay_output_text(&log, CAY_STYLE_DIM, frame->frame.log->message);
        fputc('\n', stderr);
        break;
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

static bool run_build(struct cay_cli *cli, struct cay_error *err)
{
    static const char *const names[] = {"suite", "mirror", "packages"};
    const struct cay_args *args = &cli->args;
    struct cay_pb_pair params[CAY_COUNT(names)];
    struct build self = {.cli = cli};
    struct cay_client *client = NULL;
    struct cay_str name = cay_values_text(cli, "name");
    struct cay_v1_build_base_request request = {
        .name = name.len ? name : cay_str(args->words[0]),
        .recipe = cay_str(args->words[0]),
        .params.items = params,
        .replace = cay_args_has(args, "replace"),
    };
    for (size_t i = 0; i < CAY_COUNT(names); i++) {
        struct cay_str value = cay_values_text(cli, names[i]);
        if (value.len)
            params[request.params.count++] = (struct cay_pb_pair){cay_str(names[i]), value};
    }
    if (!cay_values_pairs(cli, "label", &request.labels, err) ||
        !cay_cli_client(cli, CAY_CALL_STREAM, &client, err))
        return false;
    bool done = cay_client_call_stream(client, &cay_v1_methods[CAY_V1_BASE_SERVICE_BUILD_BASE],
                                       &request, receive, &self, err);
    clear_bar(&self);
    return done && (self.is_done || cay_fail(err, CAY_R_UNAVAILABLE, "the stream broke off"));
}

static const struct cay_flag build_flags[] = {
    {.name = "name", .value = "NAME", .help = "the base's name; the recipe's otherwise"},
    {.name = "suite", .value = "SUITE", .help = "release to install; the host's own otherwise"},
    {.name = "mirror",
     .value = "URL",
     .help = "where to get packages; where the host gets them otherwise"},
    {.name = "packages", .value = "A,B,C", .help = "packages to add to the usual ones"},
    {.name = "replace", .help = "put it in place of a base of the same name"},
    {.name = "label",
     .letter = 'l',
     .value = "NAME=VALUE",
     .help = "a label to add; may be given again"},
    {},
};

const struct cay_command cay_command_base_build = {
    .name = "base build",
    .arguments = "RECIPE",
    .summary = "Make a base by a recipe; 'debian' is one",
    .details =
        "The recipe debian installs a small Debian with bash, Python, git, curl, sudo and the\n"
        "usual tools, and a user 'user'. The daemon runs debootstrap, which must be\n"
        "installed on its machine. Interrupted, it leaves nothing.",
    .examples = "  cay base build debian\n"
                "  cay base build debian --name trixie --suite trixie --packages jq,make",
    .flags = build_flags,
    .group = CAY_GROUP_HOST,
    .words_min = 1,
    .words_max = 1,
    .run = run_build,
};
