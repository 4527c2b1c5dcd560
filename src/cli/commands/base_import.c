/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/quantity.h"
#include "cli/completion.h"
#include "cli/progress.h"
#include "cli/values.h"
#include "client/rpc/client.h"

enum { PIECE_BYTES = 256 * 1024 };

struct import {
    struct cay_v1_import_base_options options;
    struct cay_progress progress;
    int fd; /* -1: the daemon reads it itself */
    bool is_begun;
};

static bool give(void *state, struct cay_arena *arena, const void **out_message,
                 struct cay_error *err)
{
    struct import *self = state;
    struct cay_v1_import_base_request *request =
        cay_arena_new(arena, struct cay_v1_import_base_request);
    char *piece = self->is_begun ? cay_arena_alloc(arena, PIECE_BYTES) : NULL;
    if (!request || (self->is_begun && !piece))
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    *out_message = request;
    if (!self->is_begun) {
        self->is_begun = true;
        request->which_frame = CAY_V1_IMPORT_BASE_REQUEST_FRAME_OPTIONS;
        request->frame.options = &self->options;
        return true;
    }
    ssize_t len = 0;
    do {
        len = self->fd < 0 ? 0 : read(self->fd, piece, PIECE_BYTES);
    } while (len < 0 && errno == EINTR);
    if (len < 0)
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "cannot read the archive");
    if (len == 0)
        *out_message = NULL;
    cay_progress_add(&self->progress, (size_t)len);
    request->which_frame = CAY_V1_IMPORT_BASE_REQUEST_FRAME_DATA;
    request->frame.data = (struct cay_str){piece, (size_t)len};
    return true;
}

/* A directory is read by the daemon itself, so it must be on the same machine. */
static bool open_source(struct cay_cli *cli, struct import *self, const char *path,
                        struct cay_error *err)
{
    struct stat info;
    self->fd = strcmp(path, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                      : open(path, O_RDONLY | O_CLOEXEC);
    if (self->fd < 0 || fstat(self->fd, &info) < 0)
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "cannot open '%.100s'", path);
    if (!S_ISDIR(info.st_mode)) {
        cay_progress_begin(&self->progress, !cli->out.is_json,
                           S_ISREG(info.st_mode) ? info.st_size : 0);
        return true;
    }
    close(cay_take_fd(self->fd));
    if (strncmp(cay_cli_url(cli), "unix:", strlen("unix:")) != 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "a directory can be imported over the Unix socket only; make an archive: "
                        "tar -C '%.60s' -c . | cay base import %.60s -",
                        path, cli->args.words[0]);
    char *absolute = realpath(path, NULL);
    if (!absolute)
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "cannot find '%.100s'", path);
    const char *kept = cay_arena_copy(&cli->arena, cay_str(absolute));
    free(absolute);
    if (!kept)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    self->options.host_path = cay_str(kept);
    return true;
}

static void print_imported(struct cay_output *out, const struct cay_v1_import_base_response *got)
{
    char size[CAY_SIZE_BYTES];
    cay_size_format((uint64_t)CAY_MAX(got->base->size_bytes, (int64_t)0), size);
    cay_output_text(out, CAY_STYLE_BOLD, got->base->name);
    cay_output_printf(out, ": %" PRId64 " files and directories, %s\n", got->base->entry_count,
                      size);
    for (size_t i = 0; i < got->warnings.count; i++) {
        cay_output_printf(out, "  ");
        cay_output_text(out, CAY_STYLE_WARN, got->warnings.items[i]);
        cay_output_printf(out, "\n");
    }
}

/* --alias A --alias B, --label, --max-size. */
static bool read_flags(struct cay_cli *cli, struct cay_v1_import_base_options *options,
                       struct cay_error *err)
{
    const struct cay_args *args = &cli->args;
    size_t cursor = 0;
    size_t count = 0;
    uint64_t max_bytes = 0;
    const char *text = cay_args_text(args, "max-size");
    if (text && (cay_size_parse(cay_str(text), &max_bytes) < 0 || max_bytes > INT64_MAX))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "--max-size '%.40s' is not a size, e.g. 10G",
                        text);
    options->max_bytes = (int64_t)max_bytes;
    while (cay_args_each(args, "alias", &cursor))
        count++;
    options->aliases.items = cay_arena_array(&cli->arena, count, sizeof(struct cay_str));
    if (!options->aliases.items)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    cursor = 0;
    for (const char *alias; (alias = cay_args_each(args, "alias", &cursor));)
        options->aliases.items[options->aliases.count++] = cay_str(alias);
    return cay_values_pairs(cli, "label", &options->labels, err);
}

static bool run_import(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_args *args = &cli->args;
    struct import self = {
        .options =
            {
                .name = cay_str(args->words[0]),
                .platform = cay_values_text(cli, "platform"),
                .sha256 = cay_values_text(cli, "sha256"),
                .replace = cay_args_has(args, "replace"),
            },
        .fd = -1,
    };
    struct cay_v1_import_base_response response = {};
    struct cay_client *client = NULL;
    bool done = read_flags(cli, &self.options, err) &&
                open_source(cli, &self, args->words[1], err) &&
                cay_cli_client(cli, CAY_CALL_STREAM, &client, err) &&
                cay_client_call_upload(client, &cay_v1_methods[CAY_V1_BASE_SERVICE_IMPORT_BASE],
                                       give, &self, &cli->arena, &response, err);
    cay_progress_end(&self.progress);
    if (self.fd >= 0)
        close(self.fd);
    if (!done)
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_import_base_response_desc, &response, err);
    if (response.base)
        print_imported(&cli->out, &response);
    return true;
}

/* Sends the options alone. */
static bool give_alias(void *state, struct cay_arena *arena, const void **out_message,
                       struct cay_error *err)
{
    struct import *self = state;
    struct cay_v1_import_base_request *request =
        cay_arena_new(arena, struct cay_v1_import_base_request);
    if (!request)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    request->which_frame = CAY_V1_IMPORT_BASE_REQUEST_FRAME_OPTIONS;
    request->frame.options = &self->options;
    *out_message = self->is_begun ? NULL : request;
    self->is_begun = true;
    return true;
}

static bool run_alias(struct cay_cli *cli, struct cay_error *err)
{
    struct import self = {.options = {.name = cay_str(cli->args.words[0]),
                                      .existing_base = cay_str(cli->args.words[1])}};
    struct cay_v1_import_base_response response = {};
    struct cay_client *client = NULL;
    if (!cay_cli_client(cli, CAY_CALL_UNARY, &client, err) ||
        !cay_client_call_upload(client, &cay_v1_methods[CAY_V1_BASE_SERVICE_IMPORT_BASE],
                                give_alias, &self, &cli->arena, &response, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_import_base_response_desc, &response, err);
    return true;
}

static const struct cay_flag import_flags[] = {
    {.name = "alias", .value = "NAME", .help = "another name for the base; may be given again"},
    {.name = "replace", .help = "put it in place of a base of the same name"},
    {.name = "platform",
     .value = "OS/ARCH",
     .help = "platform of the image, e.g. linux/arm64; the daemon's otherwise"},
    {.name = "sha256", .value = "HEX", .help = "the archive must have this SHA-256"},
    {.name = "max-size",
     .value = "SIZE",
     .help = "refuse an archive that is larger than this when unpacked"},
    {.name = "label",
     .letter = 'l',
     .value = "NAME=VALUE",
     .help = "a label to add; may be given again"},
    {},
};

const struct cay_command cay_command_base_import = {
    .name = "base import",
    .arguments = "NAME DIR|FILE|-",
    .summary = "Make a base from a directory, an archive or a container image",
    .details =
        "The daemon sees by the content what it is given: a directory or tar archive that is\n"
        "the root of a file system, an OCI image layout (directory or archive), or what\n"
        "'docker save' writes. Archives may be compressed by gzip, zstd or xz; '-' reads one\n"
        "from standard input. A directory is read by the daemon itself, which must be on this\n"
        "machine.",
    .examples = "  cay base import bookworm ./rootfs\n"
                "  docker save debian:12 | cay base import debian -\n"
                "  podman save --format oci-archive debian:12 | cay base import debian -",
    .flags = import_flags,
    .group = CAY_GROUP_HOST,
    .words_min = 2,
    .words_max = 2,
    .run = run_import,
};

const struct cay_command cay_command_base_alias = {
    .name = "base alias",
    .arguments = "ALIAS BASE",
    .summary = "Give a base another name",
    .details = "An alias that another base has moves to this one. 'cay base rm ALIAS' takes the\n"
               "alias away and leaves the base.",
    .examples = "  cay base alias me/app:latest app-42",
    .group = CAY_GROUP_HOST,
    .words_min = 2,
    .words_max = 2,
    .run = run_alias,
};
