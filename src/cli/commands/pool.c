/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/quantity.h"
#include "cli/command.h"
#include "cli/values.h"
#include "client/rpc/client.h"

static const char *kind_name(enum cay_v1_pool_kind kind)
{
    switch (kind) {
    case CAY_V1_POOL_KIND_DIRECTORY: return "a directory";
    case CAY_V1_POOL_KIND_BTRFS: return "a directory on btrfs";
    case CAY_V1_POOL_KIND_ZFS: return "a directory on zfs";
    case CAY_V1_POOL_KIND_LOOP: return "a file with a file system inside";
    case CAY_V1_POOL_KIND_UNSPECIFIED: break;
    }
    return "unknown";
}

static void print_pool(struct cay_output *out, const struct cay_v1_pool *pool)
{
    char size[CAY_SIZE_BYTES];
    char used[CAY_SIZE_BYTES];
    char left[CAY_SIZE_BYTES];
    char text[128];
    cay_size_format((uint64_t)pool->size_bytes, size);
    cay_size_format((uint64_t)pool->used_bytes, used);
    cay_size_format((uint64_t)pool->available_bytes, left);
    cay_output_field(out, "pool", CAY_STYLE_PLAIN, cay_str(kind_name(pool->kind)));
    cay_output_field(out, "where", CAY_STYLE_PLAIN,
                     pool->backing_file.len ? pool->backing_file : pool->path);
    cay_output_field(out, "store", CAY_STYLE_PLAIN, pool->store);
    cay_output_field(out, "filesystem", CAY_STYLE_PLAIN, pool->filesystem);
    snprintf(text, sizeof(text), "%s, %s used, %s left", size, used, left);
    cay_output_field(out, "space", CAY_STYLE_PLAIN, cay_str(text));
    if (pool->message.len)
        cay_output_field(out, "", CAY_STYLE_WARN, pool->message);
}

static bool run_pool(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_get_pool_request request = {};
    struct cay_v1_get_pool_response response = {};
    if (!cay_cli_call(cli, CAY_V1_POOL_SERVICE_GET_POOL, &request, &response, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_get_pool_response_desc, &response, err);
    if (response.pool)
        print_pool(&cli->out, response.pool);
    return true;
}

static bool read_size(struct cay_cli *cli, int64_t *out_bytes, struct cay_error *err)
{
    struct cay_str text = cay_values_text(cli, "size");
    uint64_t bytes = 0;
    *out_bytes = 0;
    if (!text.ptr)
        return true;
    if (cay_size_parse(text, &bytes) < 0 || bytes > INT64_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "--size '%.40s' is not a size; write 50G",
                        text.ptr);
    *out_bytes = (int64_t)bytes;
    return true;
}

static bool on_step(void *context, const void *message, struct cay_error *err)
{
    struct cay_cli *cli = context;
    const struct cay_v1_create_pool_response *response = message;
    struct cay_output *out = &cli->out;
    if (out->is_json)
        return cay_output_message(out, &cay_v1_create_pool_response_desc, message, err);
    if (response->pool)
        print_pool(out, response->pool);
    else if (out->is_terminal && response->step.len) {
        cay_output_text(out, CAY_STYLE_DIM, response->step);
        cay_output_printf(out, "\n");
    }
    return true;
}

static bool run_create(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_create_pool_request request = {
        .path = cay_values_text(cli, "path"),
        .filesystem = cay_values_text(cli, "filesystem"),
        .sparse = cay_args_has(&cli->args, "sparse"),
    };
    if (!read_size(cli, &request.size_bytes, err))
        return false;
    if (!request.size_bytes && !request.path.len)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "say how large (--size 50G), or name a directory (--path DIR)");
    request.kind = request.size_bytes ? CAY_V1_POOL_KIND_LOOP : CAY_V1_POOL_KIND_DIRECTORY;
    struct cay_client *client = NULL;
    return cay_cli_client(cli, CAY_CALL_STREAM, &client, err) &&
           cay_client_call_stream(client, &cay_v1_methods[CAY_V1_POOL_SERVICE_CREATE_POOL],
                                  &request, on_step, cli, err);
}

static bool run_grow(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_grow_pool_request request = {};
    struct cay_v1_grow_pool_response response = {};
    if (!read_size(cli, &request.size_bytes, err))
        return false;
    if (!request.size_bytes)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "say how large it shall be: --size 100G");
    if (!cay_cli_call(cli, CAY_V1_POOL_SERVICE_GROW_POOL, &request, &response, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_grow_pool_response_desc, &response, err);
    if (response.pool)
        print_pool(&cli->out, response.pool);
    return true;
}

static const struct cay_flag create_flags[] = {
    {.name = "size", .value = "SIZE", .help = "size of a file with a file system inside, e.g. 50G"},
    {.name = "path",
     .value = "PATH",
     .help = "the file to make; without --size: a directory to use"},
    {.name = "filesystem",
     .value = "NAME",
     .help = "btrfs or ext4; otherwise the first that the daemon's machine can make"},
    {.name = "sparse", .help = "reserve nothing: the file grows as it is filled"},
    {},
};

static const struct cay_flag grow_flags[] = {
    {.name = "size", .value = "SIZE", .help = "its new size, e.g. 100G"},
    {},
};

const struct cay_command cay_command_pool_show = {
    .name = "pool show",
    .arguments = "",
    .summary = "Show where sessions are kept, and how full it is",
    .group = CAY_GROUP_HOST,
    .run = run_pool,
};

const struct cay_command cay_command_pool_create = {
    .name = "pool create",
    .arguments = "",
    .summary = "Give sessions a place of their own on disk",
    .details = "With --size the pool is a file of that size with a file system inside, so that\n"
               "sandboxes can never fill the host's disk. The whole size is reserved, unless\n"
               "--sparse is given. A pool is made before there are sessions and bases.",
    .examples = "  cay pool create --size 50G\n"
                "  cay pool create --path /srv/cay",
    .flags = create_flags,
    .group = CAY_GROUP_HOST,
    .run = run_create,
};

const struct cay_command cay_command_pool_grow = {
    .name = "pool grow",
    .arguments = "",
    .summary = "Enlarge the pool while it is in use",
    .flags = grow_flags,
    .group = CAY_GROUP_HOST,
    .run = run_grow,
};
