/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/limits.h"
#include "base/json.h"
#include "base/quantity.h"
#include "cli/command.h"
#include "cli/offer.h"
#include "cli/progress.h"
#include "cli/values.h"
#include "client/rpc/client.h"
#include "sys/sha256.h"

enum { PIECE_BYTES = 512 * 1024 };

/* A session as a file, and back. */

struct export
{
    struct cay_progress progress;
    struct cay_sha256 sha;
    bool wants_progress;
    int fd;
    int64_t bytes;
    char sha256[CAY_SHA256_HEX_SIZE];
    bool is_checked; /* the summary came and is right */
};

static bool write_all(struct export *self, struct cay_str data, struct cay_error *err)
{
    for (size_t done = 0; done < data.len;) {
        ssize_t count = write(self->fd, data.ptr + done, data.len - done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return cay_fail_errno(err, CAY_R_NO_SPACE, -errno, "cannot write");
        done += (size_t)count;
    }
    cay_sha256_add(&self->sha, data.ptr, data.len);
    self->bytes += (int64_t)data.len;
    cay_progress_add(&self->progress, data.len);
    return true;
}

static bool receive(void *state, const void *message, struct cay_error *err)
{
    struct export *self = state;
    const struct cay_v1_export_session_response *frame = message;
    if (frame->which_frame == CAY_V1_EXPORT_SESSION_RESPONSE_FRAME_INFO) {
        cay_progress_begin(&self->progress, self->wants_progress,
                           frame->frame.info->estimated_bytes);
        return true;
    }
    if (frame->which_frame == CAY_V1_EXPORT_SESSION_RESPONSE_FRAME_DATA)
        return write_all(self, frame->frame.data, err);
    if (frame->which_frame != CAY_V1_EXPORT_SESSION_RESPONSE_FRAME_SUMMARY)
        return true;
    cay_sha256_end(&self->sha, self->sha256);
    self->is_checked = cay_str_is(frame->frame.summary->sha256, self->sha256) &&
                       frame->frame.summary->bytes == self->bytes;
    if (frame->frame.summary->left_out)
        fprintf(
            stderr,
            "cay: %lld directories or paths are nested too deep for an archive and were left out, "
            "such as '/%.*s'\n",
            (long long)frame->frame.summary->left_out,
            (int)CAY_MIN(frame->frame.summary->left_out_path.len, (size_t)100),
            frame->frame.summary->left_out_path.ptr ? frame->frame.summary->left_out_path.ptr : "");
    return self->is_checked ||
           cay_fail(err, CAY_R_DATA_LOSS, "what arrived is not what was sent; try again");
}

static bool read_level(struct cay_cli *cli, int32_t *out_level, struct cay_error *err)
{
    const char *text = cay_args_text(&cli->args, "level");
    uint64_t level = 0;
    if (text && (cay_str_to_u64(cay_str(text), 19, &level) < 0 || !level))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "--level '%.40s' is not a number from 1 to 19",
                        text);
    *out_level = (int32_t)level;
    return true;
}

/* The file gets its name when it is whole. What is there and no file, such as /dev/null or a fifo,
 * is written to as it is: a file must not take its place. */
static bool open_output(struct export *self, const char *path, char **out_part,
                        struct cay_error *err)
{
    struct stat info;
    if (strcmp(path, "-") == 0) {
        self->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
        return self->fd >= 0 || cay_fail_errno(err, CAY_R_INTERNAL, -errno, "standard output");
    }
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        self->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        return self->fd >= 0 ||
               cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "cannot write '%.100s'", path);
    }
    *out_part = cay_asprintf("%s.part", path);
    self->fd = open(*out_part, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    return self->fd >= 0 ||
           cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "cannot write '%.100s'", *out_part);
}

static void report(struct cay_output *out, const char *path, const struct export *self)
{
    char size[CAY_SIZE_BYTES];
    if (out->is_json) {
        cay_auto(cay_buf_finish) struct cay_buf buf;
        cay_buf_init(&buf, CAY_LIMIT_MESSAGE_BYTES);
        struct cay_json_writer json = {.buf = &buf};
        cay_json_object_begin(&json);
        cay_json_key(&json, "file");
        cay_json_text(&json, path);
        cay_json_key(&json, "bytes");
        cay_json_i64(&json, self->bytes);
        cay_json_key(&json, "sha256");
        cay_json_text(&json, self->sha256);
        cay_json_object_end(&json);
        cay_output_json(out, cay_buf_str(&buf));
        return;
    }
    cay_size_format((uint64_t)self->bytes, size);
    cay_output_text(out, CAY_STYLE_BOLD, cay_str(path));
    cay_output_printf(out, ": %s\n", size);
}

static bool run_export(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_args *args = &cli->args;
    struct cay_v1_export_session_request request = {
        .session_id = cay_str(args->words[0]),
        .since = cay_values_text(cli, "since"),
        .until = cay_values_text(cli, "until"),
        .no_branches = cay_args_has(args, "no-branches"),
        .include_base = cay_args_has(args, "include-base"),
    };
    const char *wanted = cay_args_text(args, "output");
    cay_autofree char *path =
        wanted ? cay_strdup(wanted) : cay_asprintf("%s.tar.zst", args->words[0]);
    cay_autofree char *part = NULL;
    struct export self = {.fd = -1, .wants_progress = !cli->out.is_json};
    struct cay_client *client = NULL;
    bool is_stdout = strcmp(path, "-") == 0;
    if (is_stdout && isatty(STDOUT_FILENO))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "standard output is a terminal; name a file with --output");
    if (strchr(args->words[0], '/') && !wanted)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "'%.100s' is not a session", args->words[0]);
    cay_sha256_init(&self.sha);
    bool done =
        read_level(cli, &request.compression_level, err) && open_output(&self, path, &part, err) &&
        cay_cli_client(cli, CAY_CALL_STREAM, &client, err) &&
        cay_client_call_stream(client, &cay_v1_methods[CAY_V1_SANDBOX_SERVICE_EXPORT_SESSION],
                               &request, receive, &self, err);
    cay_progress_end(&self.progress);
    cay_sha256_finish(&self.sha);
    if (done && !self.is_checked)
        done = cay_fail(err, CAY_R_DATA_LOSS, "the stream ended before its end");
    if (self.fd >= 0 && close(self.fd) < 0 && done)
        done = cay_fail_errno(err, CAY_R_NO_SPACE, -errno, "cannot write");
    if (done && part && rename(part, path) < 0)
        done = cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "cannot give '%.100s' its name",
                              path);
    if (!done && part)
        (void)unlink(part);
    if (done && !is_stdout)
        report(&cli->out, path, &self);
    return done;
}

struct import {
    struct cay_v1_import_options options;
    struct cay_progress progress;
    int fd;
    bool is_begun;
};

static bool give(void *state, struct cay_arena *arena, const void **out_message,
                 struct cay_error *err)
{
    struct import *self = state;
    struct cay_v1_import_session_request *request =
        cay_arena_new(arena, struct cay_v1_import_session_request);
    char *piece = self->is_begun ? cay_arena_alloc(arena, PIECE_BYTES) : NULL;
    if (!request || (self->is_begun && !piece))
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    *out_message = request;
    if (!self->is_begun) {
        self->is_begun = true;
        request->which_frame = CAY_V1_IMPORT_SESSION_REQUEST_FRAME_OPTIONS;
        request->frame.options = &self->options;
        return true;
    }
    ssize_t len = 0;
    do {
        len = read(self->fd, piece, PIECE_BYTES);
    } while (len < 0 && errno == EINTR);
    if (len < 0)
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "cannot read");
    if (len == 0)
        *out_message = NULL;
    cay_progress_add(&self->progress, (size_t)len);
    request->which_frame = CAY_V1_IMPORT_SESSION_REQUEST_FRAME_DATA;
    request->frame.data = (struct cay_str){piece, (size_t)len};
    return true;
}

static bool run_import(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_args *args = &cli->args;
    const char *path = args->words[0];
    struct cay_str into = cay_values_text(cli, "into");
    struct import self = {
        .options = {.session_id = into.len ? into : cay_values_text(cli, "name"),
                    .into_existing = into.len > 0,
                    .base = cay_values_text(cli, "base"),
                    .runtime = cay_values_text(cli, "runtime"),
                    .sha256 = cay_values_text(cli, "sha256")},
        .fd = -1,
    };
    struct cay_v1_import_session_response response = {};
    struct cay_client *client = NULL;
    struct stat info;
    if (into.len && cay_args_has(args, "name"))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "--into and --name exclude each other");
    self.fd = strcmp(path, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                     : open(path, O_RDONLY | O_CLOEXEC);
    if (self.fd < 0 || fstat(self.fd, &info) < 0)
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "cannot open '%.100s'", path);
    cay_progress_begin(&self.progress, !cli->out.is_json, S_ISREG(info.st_mode) ? info.st_size : 0);
    bool done =
        cay_values_pairs(cli, "label", &self.options.labels, err) &&
        cay_values_limits(cli, &self.options.limits, err) &&
        cay_cli_client(cli, CAY_CALL_STREAM, &client, err) &&
        cay_client_call_upload(client, &cay_v1_methods[CAY_V1_SANDBOX_SERVICE_IMPORT_SESSION], give,
                               &self, &cli->arena, &response, err);
    cay_progress_end(&self.progress);
    close(self.fd);
    if (!done)
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_import_session_response_desc, &response, err);
    if (response.session) {
        cay_output_text(&cli->out, CAY_STYLE_PLAIN, response.session->id);
        cay_output_printf(&cli->out, "\n");
    }
    return true;
}

static const struct cay_flag export_flags[] = {
    {.name = "output",
     .letter = 'o',
     .value = "FILE",
     .help = "where to write; SESSION.tar.zst otherwise"},
    {.name = "since", .value = "SNAPSHOT", .help = "write only what came after this snapshot"},
    {.name = "until",
     .value = "SNAPSHOT",
     .help = "end with this snapshot; the live files stay out"},
    {.name = "no-branches", .help = "leave abandoned branches out"},
    {.name = "include-base", .help = "include the base's files, for a host that has no such base"},
    {.name = "level", .value = "N", .help = "compression of zstd, 1 to 19; 3 otherwise"},
    {},
};

static const struct cay_flag import_flags[] = {
    {.name = "name", .value = "NAME", .help = "the new session's id; the exported one's otherwise"},
    {.name = "into",
     .value = "SESSION",
     .help = "continue this session, for an export with --since"},
    {.name = "base", .value = "BASE", .help = "put the session on this base"},
    {.name = "label",
     .letter = 'l',
     .value = "NAME=VALUE",
     .help = "a label to add; may be given again"},
    CAY_FLAGS_LIMITS,
    CAY_FLAGS_DISK,
    CAY_FLAG_RUNTIME("the exported one's otherwise"),
    {.name = "sha256", .value = "HEX", .help = "the file must have this SHA-256"},
    {},
};

const struct cay_command cay_command_export = {
    .name = "export",
    .arguments = "SESSION",
    .summary = "Write a session with its history to a file",
    .details = "The file is a tar archive packed by zstd, which ordinary tools read. It holds the\n"
               "live files and all snapshots, each as what changed; of the base it holds only the "
               "digest,\n"
               "unless --include-base is given. '-o -' writes to standard output.",
    .examples = "  cay export demo -o demo.tar.zst\n"
                "  cay export demo -o - | ssh other cay import -",
    .flags = export_flags,
    .group = CAY_GROUP_HISTORY,
    .words_min = 1,
    .words_max = 1,
    .run = run_export,
    .complete = cay_session_offer,
};

const struct cay_command cay_command_import = {
    .name = "import",
    .arguments = "FILE|-",
    .summary = "Make a session of a file that 'cay export' wrote",
    .details =
        "A file that is damaged leaves nothing behind. The session is put on the base of the\n"
        "same content, on the one that --base names, or on the one in the file.",
    .examples = "  cay import demo.tar.zst --name copy",
    .flags = import_flags,
    .group = CAY_GROUP_HISTORY,
    .words_min = 1,
    .words_max = 1,
    .run = run_import,
};
