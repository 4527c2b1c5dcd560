/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/limits.h"
#include "base/clock.h"
#include "base/quantity.h"
#include "bin/cay_completion.h"
#include "bin/cay_progress.h"
#include "bin/cay_values.h"
#include "client/rpc/client.h"

enum {
    BASES_MAX = 10'000,
    PIECE_BYTES = 256 * 1024,
};

static bool list_all(struct cay_cli *cli, struct cay_v1_base_array *all, struct cay_error *err)
{
    struct cay_v1_list_bases_request request = {.page_size = CAY_LIMIT_PAGE_SIZE};
    do {
        struct cay_v1_list_bases_response page = {};
        if (!cay_cli_call(cli, CAY_V1_BASE_SERVICE_LIST_BASES, &request, &page, err))
            return false;
        size_t count = all->count + page.bases.count;
        struct cay_v1_base *items =
            count <= BASES_MAX ? cay_arena_array(&cli->arena, count, sizeof(*items)) : NULL;
        if (!items || (page.next_page_token.len && !page.bases.count))
            return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "there are too many bases to list");
        if (all->count)
            memcpy(items, all->items, all->count * sizeof(*items));
        if (page.bases.count)
            memcpy(items + all->count, page.bases.items, page.bases.count * sizeof(*items));
        *all = (struct cay_v1_base_array){items, count};
        request.page_token = page.next_page_token;
    } while (request.page_token.len);
    return true;
}

static const char *origin_name(enum cay_v1_base_origin origin)
{
    switch (origin) {
    case CAY_V1_BASE_ORIGIN_HOST: return "this machine";
    case CAY_V1_BASE_ORIGIN_IMPORTED: return "imported";
    case CAY_V1_BASE_ORIGIN_BUILT: return "built";
    case CAY_V1_BASE_ORIGIN_SNAPSHOT: return "a snapshot";
    case CAY_V1_BASE_ORIGIN_UNSPECIFIED: break;
    }
    return "unknown";
}

static void print_bases(struct cay_output *out, const struct cay_v1_base_array *bases)
{
    static const char *const titles[] = {"NAME", "ALSO CALLED", "FROM", "MADE", "DEFAULT"};
    int64_t now_ns = cay_clock_wall_ns();
    cay_auto(cay_table_finish) struct cay_table table;
    cay_table_init(&table, titles, CAY_COUNT(titles));
    for (size_t i = 0; i < bases->count; i++) {
        const struct cay_v1_base *base = &bases->items[i];
        char when[CAY_WHEN_BYTES];
        cay_auto(cay_buf_finish) struct cay_buf aliases;
        cay_buf_init(&aliases, CAY_LIMIT_MESSAGE_BYTES);
        for (size_t j = 0; j < base->aliases.count; j++) {
            cay_buf_append_text(&aliases, j ? ", " : "");
            cay_buf_append_str(&aliases, base->aliases.items[j]);
        }
        cay_output_when(base->created_at, now_ns, when);
        cay_table_cell(&table, CAY_STYLE_BOLD, base->name);
        cay_table_cell(&table, CAY_STYLE_PLAIN, cay_buf_str(&aliases));
        cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(origin_name(base->origin)));
        cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(when));
        cay_table_cell(&table, CAY_STYLE_GOOD, base->is_default ? CAY_STR("yes") : CAY_STR(""));
    }
    cay_table_print(&table, out);
}

static bool run_ls(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_list_bases_response all = {};
    if (!list_all(cli, &all.bases, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_list_bases_response_desc, &all, err);
    if (all.bases.count)
        print_bases(&cli->out, &all.bases);
    else if (cli->out.is_terminal)
        cay_output_printf(&cli->out, "There are no bases yet; 'host' is made when it is first "
                                     "used.\n");
    return true;
}

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
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "read the archive");
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
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "open '%.100s'", path);
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
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "find '%.100s'", path);
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

static bool run_import(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_args *args = &cli->args;
    struct import self = {.options.name = cay_str(args->words[0]), .fd = -1};
    struct cay_v1_import_base_response response = {};
    struct cay_client *client = NULL;
    bool done = open_source(cli, &self, args->words[1], err) &&
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

static bool run_rm(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_remove_base_request request = {.name = cay_str(cli->args.words[0])};
    struct cay_v1_remove_base_response response = {};
    if (!cay_cli_call(cli, CAY_V1_BASE_SERVICE_REMOVE_BASE, &request, &response, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_remove_base_response_desc, &response, err);
    return true;
}

static void offer_bases(struct cay_completion *completion)
{
    struct cay_v1_base_array all = {};
    struct cay_error ignored = {};
    completion->cli->has_timeout = true;
    completion->cli->timeout_ms = 400;
    if (completion->word_count || !list_all(completion->cli, &all, &ignored))
        return;
    for (size_t i = 0; i < all.count; i++) {
        const char *name = cay_arena_copy(&completion->cli->arena, all.items[i].name);
        if (name)
            cay_completion_offer(completion, name, origin_name(all.items[i].origin));
    }
}

const struct cay_command cay_command_base_ls = {
    .name = "base ls",
    .arguments = "",
    .summary = "List the bases that sessions can start from",
    .group = CAY_GROUP_HOST,
    .run = run_ls,
};

const struct cay_command cay_command_base_import = {
    .name = "base import",
    .arguments = "NAME DIR|TAR|-",
    .summary = "Make a base from a directory or a tar archive",
    .details =
        "The directory or archive is the root of a file system. An archive may be compressed\n"
        "by gzip, zstd or xz; '-' reads it from standard input. A directory is read by the\n"
        "daemon itself, which must be on this machine.",
    .examples = "  cay base import bookworm ./rootfs\n"
                "  podman export $(podman create debian:12) | cay base import debian -",
    .group = CAY_GROUP_HOST,
    .words_min = 2,
    .words_max = 2,
    .run = run_import,
};

const struct cay_command cay_command_base_rm = {
    .name = "base rm",
    .arguments = "NAME",
    .summary = "Remove a base that no session stands on",
    .group = CAY_GROUP_HOST,
    .words_min = 1,
    .words_max = 1,
    .run = run_rm,
    .complete = offer_bases,
};
