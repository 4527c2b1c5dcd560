/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "api/cay_v1.h"
#include "api/limits.h"
#include "base/json.h"
#include "base/nearest.h"
#include "cli/command.h"
#include "cli/completion.h"
#include "client/rpc/client.h"

enum { LISTING_BYTES_MAX = 256 * 1024 };

/* "KeyService/ListKeys": the path without slash and package. */
static const char *short_name(const struct cay_pb_method *method)
{
    return method->path + strlen("/cay.v1.");
}

/* NULL with *err filled when there is none. */
static const struct cay_pb_method *find_method(const char *text, struct cay_error *err)
{
    const char *names[CAY_V1_METHOD_COUNT];
    if (*text == '/')
        text++;
    if (strncmp(text, "cay.v1.", strlen("cay.v1.")) == 0)
        text += strlen("cay.v1.");
    for (size_t i = 0; i < CAY_V1_METHOD_COUNT; i++) {
        names[i] = short_name(&cay_v1_methods[i]);
        if (strcmp(text, names[i]) == 0)
            return &cay_v1_methods[i];
    }
    /* The service is often left out. */
    for (size_t i = 0; i < CAY_V1_METHOD_COUNT; i++) {
        if (strcmp(text, cay_v1_methods[i].name) == 0) {
            cay_fail(err, CAY_R_INVALID_ARGUMENT, "write '%s' with its service: '%s'", text,
                     names[i]);
            return NULL;
        }
    }
    const char *nearest = cay_nearest(cay_str(text), names, CAY_COUNT(names));
    if (nearest)
        cay_fail(err, CAY_R_INVALID_ARGUMENT, "there is no method '%.80s'; did you mean '%s'?",
                 text, nearest);
    else
        cay_fail(err, CAY_R_INVALID_ARGUMENT,
                 "there is no method '%.80s'; 'cay api --list' lists them", text);
    return NULL;
}

static bool read_stdin(struct cay_buf *out, struct cay_error *err)
{
    char chunk[16 * 1024];
    for (;;) {
        ssize_t len = read(STDIN_FILENO, chunk, sizeof(chunk));
        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0)
            return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno,
                                  "cannot read standard input");
        if (len == 0)
            return true;
        cay_buf_append(out, chunk, (size_t)len);
        if (out->failed)
            return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "a request may have %d bytes at most",
                            CAY_LIMIT_MESSAGE_BYTES);
    }
}

/* The request as a struct. It borrows from `text`. */
static bool read_request(struct cay_cli *cli, const struct cay_pb_method *method,
                         struct cay_str text, void **out_request, struct cay_error *err)
{
    const struct cay_pb_json_options strict = {.reject_unknown_fields = true};
    char why[160] = "";
    void *request = cay_arena_alloc(&cli->arena, method->input->size_bytes);
    if (!request)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    int status =
        cay_pb_json_read(method->input, text, &strict, &cli->arena, request, why, sizeof(why));
    if (status < 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the JSON is not a valid %s: %s",
                        method->input->full_name, why);
    *out_request = request;
    return true;
}

struct printer {
    struct cay_cli *cli;
    const struct cay_pb_message *desc;
};

static bool print_message(void *state, const void *message, struct cay_error *err)
{
    const struct printer *printer = state;
    struct cay_output *out = &printer->cli->out;
    if (!cay_output_message(out, printer->desc, message, err))
        return false;
    return !ferror(out->file) ||
           cay_fail(err, CAY_R_CANCELED, "the output could not be written any more");
}

static bool call(struct cay_cli *cli, const struct cay_pb_method *method, const void *request,
                 struct cay_error *err)
{
    struct cay_client *client = NULL;
    struct printer printer = {cli, method->output};
    if (method->server_streaming)
        return cay_cli_client(cli, CAY_CALL_STREAM, &client, err) &&
               cay_client_call_stream(client, method, request, print_message, &printer, err);
    void *response = cay_arena_alloc(&cli->arena, method->output->size_bytes);
    if (!response)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    return cay_cli_call(cli, method->index, request, response, err) &&
           cay_output_message(&cli->out, method->output, response, err);
}

static const char *kind_of(const struct cay_pb_method *method)
{
    if (method->client_streaming)
        return method->server_streaming ? "both streams" : "client stream";
    return method->server_streaming ? "server stream" : "unary";
}

static bool list_methods(struct cay_cli *cli)
{
    if (!cli->out.is_json) {
        static const char *const titles[] = {"METHOD", "KIND", "REQUEST", "ANSWER"};
        cay_auto(cay_table_finish) struct cay_table table;
        cay_table_init(&table, titles, CAY_COUNT(titles));
        for (size_t i = 0; i < CAY_V1_METHOD_COUNT; i++) {
            const struct cay_pb_method *method = &cay_v1_methods[i];
            cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(short_name(method)));
            cay_table_cell(&table, CAY_STYLE_DIM, cay_str(kind_of(method)));
            cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(method->input->full_name));
            cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(method->output->full_name));
        }
        cay_table_print(&table, &cli->out);
        return true;
    }
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_buf_init(&buf, LISTING_BYTES_MAX);
    struct cay_json_writer json = {.buf = &buf};
    cay_json_object_begin(&json);
    cay_json_key(&json, "methods");
    cay_json_array_begin(&json);
    for (size_t i = 0; i < CAY_V1_METHOD_COUNT; i++) {
        const struct cay_pb_method *method = &cay_v1_methods[i];
        cay_json_object_begin(&json);
        cay_json_key(&json, "name");
        cay_json_text(&json, method->path + 1);
        cay_json_key(&json, "kind");
        cay_json_text(&json, kind_of(method));
        cay_json_key(&json, "request");
        cay_json_text(&json, method->input->full_name);
        cay_json_key(&json, "answer");
        cay_json_text(&json, method->output->full_name);
        cay_json_object_end(&json);
    }
    cay_json_array_end(&json);
    cay_json_object_end(&json);
    cay_output_json(&cli->out, cay_buf_str(&buf));
    return true;
}

static bool run_api(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_args *args = &cli->args;
    void *request = NULL;
    if (cay_args_has(args, "list"))
        return list_methods(cli);
    if (!args->word_count)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "METHOD is missing; 'cay api --list' lists the methods");
    const struct cay_pb_method *method = find_method(args->words[0], err);
    if (!method)
        return false;
    if (method->client_streaming)
        return cay_fail(err, CAY_R_NOT_SUPPORTED,
                        "%s takes a stream of messages, which 'cay api' cannot send",
                        short_name(method));
    cay_auto(cay_buf_finish) struct cay_buf input;
    cay_buf_init(&input, CAY_LIMIT_MESSAGE_BYTES);
    const char *text = args->word_count > 1 ? args->words[1] : "{}";
    if (strcmp(text, "-") != 0)
        cay_buf_append_text(&input, text);
    else if (!read_stdin(&input, err))
        return false;
    return read_request(cli, method, cay_buf_str(&input), &request, err) &&
           call(cli, method, request, err);
}

static void offer_methods(struct cay_completion *completion)
{
    if (completion->word_count)
        return;
    for (size_t i = 0; i < CAY_V1_METHOD_COUNT; i++) {
        if (!cay_v1_methods[i].client_streaming)
            cay_completion_offer(completion, short_name(&cay_v1_methods[i]),
                                 kind_of(&cay_v1_methods[i]));
    }
}

static const struct cay_flag api_flags[] = {
    {.name = "list", .help = "list the methods, instead of calling one"},
    {},
};

const struct cay_command cay_command_api = {
    .name = "api",
    .arguments = "METHOD [JSON|-]",
    .summary = "Call any method of the API with JSON and print its JSON",
    .details =
        "METHOD is SERVICE/NAME, with or without the package 'cay.v1.'. The request is JSON\n"
        "('{}' when left out, '-' to read it from standard input). A streamed answer is\n"
        "printed as one line per message. Methods that take a stream cannot be called.",
    .examples = "  cay api KeyService/ListKeys\n"
                "  cay api SandboxService/WatchEvents '{}'\n"
                "  cay api KeyService/RevokeKey '{\"keyId\":\"key-1\"}'",
    .flags = api_flags,
    .group = CAY_GROUP_OTHER,
    .words_max = 2,
    .run = run_api,
    .complete = offer_methods,
};
