/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "api/limits.h"
#include "base/json.h"
#include "base/nearest.h"
#include "cli/command.h"
#include "cli/completion.h"
#include "cli/offer.h"
#include "cli/values.h"
#include "client/rpc/client.h"

enum { NAMES_MAX = 256 };

static bool fetch_tools(struct cay_cli *cli, struct cay_str session_id,
                        struct cay_v1_list_tools_response *out_response, struct cay_error *err)
{
    struct cay_v1_list_tools_request request = {.session_id = session_id};
    return cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_LIST_TOOLS, &request, out_response, err);
}

static const struct google_protobuf_value *member(const struct google_protobuf_struct *object,
                                                  struct cay_str key)
{
    for (size_t i = 0; object && i < object->fields.count; i++) {
        if (cay_str_equal(object->fields.items[i].key, key))
            return object->fields.items[i].value;
    }
    return NULL;
}

static const struct google_protobuf_struct *object_of(const struct google_protobuf_value *value)
{
    return value && value->which_kind == GOOGLE_PROTOBUF_VALUE_KIND_STRUCT_VALUE
               ? value->kind.struct_value
               : NULL;
}

static struct cay_str text_of(const struct google_protobuf_value *value)
{
    return value && value->which_kind == GOOGLE_PROTOBUF_VALUE_KIND_STRING_VALUE
               ? value->kind.string_value
               : (struct cay_str){};
}

static const struct google_protobuf_struct *properties_of(const struct cay_v1_tool *tool)
{
    return object_of(member(tool->input_schema, CAY_STR("properties")));
}

static bool is_required(const struct cay_v1_tool *tool, struct cay_str name)
{
    const struct google_protobuf_value *list = member(tool->input_schema, CAY_STR("required"));
    if (!list || list->which_kind != GOOGLE_PROTOBUF_VALUE_KIND_LIST_VALUE)
        return false;
    for (size_t i = 0; i < list->kind.list_value->values.count; i++) {
        if (cay_str_equal(text_of(&list->kind.list_value->values.items[i]), name))
            return true;
    }
    return false;
}

/* "path= old_string= [replace_all=]". */
static void describe_params(const struct cay_v1_tool *tool, struct cay_buf *out)
{
    const struct google_protobuf_struct *properties = properties_of(tool);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; properties && i < properties->fields.count; i++) {
            struct cay_str name = properties->fields.items[i].key;
            bool is_needed = is_required(tool, name);
            if (is_needed != (pass == 0))
                continue;
            cay_buf_append_text(out, out->len ? " " : "");
            cay_buf_append_text(out, is_needed ? "" : "[");
            cay_buf_append_str(out, name);
            cay_buf_append_text(out, is_needed ? "=" : "=]");
        }
    }
}

static void print_tools(struct cay_output *out, const struct cay_v1_tool_array *tools)
{
    for (size_t i = 0; i < tools->count; i++) {
        const struct cay_v1_tool *tool = &tools->items[i];
        cay_auto(cay_buf_finish) struct cay_buf params;
        cay_buf_init(&params, CAY_LIMIT_MESSAGE_BYTES);
        describe_params(tool, &params);
        cay_output_text(out, CAY_STYLE_BOLD, tool->name);
        for (size_t j = 0; j < tool->aliases.count; j++) {
            cay_output_printf(out, j ? ", " : " (");
            cay_output_text(out, CAY_STYLE_PLAIN, tool->aliases.items[j]);
        }
        cay_output_printf(out, tool->aliases.count ? ") " : " ");
        cay_output_text(out, CAY_STYLE_DIM, cay_buf_str(&params));
        cay_output_printf(out, "\n    ");
        cay_output_text(out, CAY_STYLE_PLAIN, tool->description);
        cay_output_printf(out, "\n");
    }
}

static bool list_tools(struct cay_cli *cli, struct cay_str session_id, struct cay_error *err)
{
    struct cay_v1_list_tools_response response = {};
    if (!fetch_tools(cli, session_id, &response, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_list_tools_response_desc, &response, err);
    print_tools(&cli->out, &response.tools);
    return true;
}

static bool run_tools(struct cay_cli *cli, struct cay_error *err)
{
    return list_tools(cli, (struct cay_str){}, err);
}

static const struct cay_v1_tool *find_tool(const struct cay_v1_tool_array *tools,
                                           struct cay_str name)
{
    for (size_t i = 0; i < tools->count; i++) {
        const struct cay_v1_tool *tool = &tools->items[i];
        bool fits = cay_str_equal(tool->name, name);
        for (size_t j = 0; j < tool->aliases.count; j++)
            fits = fits || cay_str_equal(tool->aliases.items[j], name);
        if (fits)
            return tool;
    }
    return NULL;
}

static bool unknown_param(struct cay_cli *cli, const struct cay_v1_tool *tool, struct cay_str name,
                          struct cay_error *err)
{
    const struct google_protobuf_struct *properties = properties_of(tool);
    const char *names[NAMES_MAX];
    size_t count = 0;
    cay_auto(cay_buf_finish) struct cay_buf all;
    cay_buf_init(&all, CAY_LIMIT_MESSAGE_BYTES);
    for (size_t i = 0; properties && i < properties->fields.count && count < NAMES_MAX; i++) {
        const char *copy = cay_arena_copy(&cli->arena, properties->fields.items[i].key);
        if (copy)
            names[count++] = copy;
    }
    const char *nearest = cay_nearest(name, names, count);
    describe_params(tool, &all);
    int name_len = (int)CAY_MIN(name.len, (size_t)40);
    if (nearest)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "the tool %.*s has no parameter '%.*s'; did you mean '%s'?",
                        (int)tool->name.len, tool->name.ptr, name_len, name.ptr, nearest);
    return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the tool %.*s has no parameter '%.*s', only %.*s",
                    (int)tool->name.len, tool->name.ptr, name_len, name.ptr, (int)all.len,
                    all.len ? all.data : "");
}

/* What the schema says it is; anything it does not name is taken as JSON. */
static bool read_value(struct cay_cli *cli, struct cay_str type, struct cay_str name,
                       struct cay_str text, struct google_protobuf_value *out_value,
                       struct cay_error *err)
{
    int name_len = (int)CAY_MIN(name.len, (size_t)40);
    if (cay_str_is(type, "string")) {
        *out_value = (struct google_protobuf_value){
            .which_kind = GOOGLE_PROTOBUF_VALUE_KIND_STRING_VALUE, .kind.string_value = text};
        return true;
    }
    if (cay_str_is(type, "boolean")) {
        bool is_true = cay_str_is(text, "true") || cay_str_is(text, "1") || cay_str_is(text, "yes");
        bool is_false =
            cay_str_is(text, "false") || cay_str_is(text, "0") || cay_str_is(text, "no");
        *out_value = (struct google_protobuf_value){
            .which_kind = GOOGLE_PROTOBUF_VALUE_KIND_BOOL_VALUE, .kind.bool_value = is_true};
        return is_true || is_false ||
               cay_fail(err, CAY_R_INVALID_ARGUMENT, "%.*s='%.40s' is neither true nor false",
                        name_len, name.ptr, text.ptr);
    }
    if (cay_str_is(type, "integer") || cay_str_is(type, "number")) {
        out_value->which_kind = GOOGLE_PROTOBUF_VALUE_KIND_NUMBER_VALUE;
        return cay_json_to_double(text, &out_value->kind.number_value) == 0 ||
               cay_fail(err, CAY_R_INVALID_ARGUMENT, "%.*s='%.40s' is not a number", name_len,
                        name.ptr, text.ptr);
    }
    char why[160] = "";
    return cay_pb_json_read(&google_protobuf_value_desc, text, NULL, &cli->arena, out_value, why,
                            sizeof(why)) == 0 ||
           cay_fail(err, CAY_R_INVALID_ARGUMENT, "%.*s='%.40s' is not JSON: %s", name_len, name.ptr,
                    text.ptr, why);
}

static bool read_param(struct cay_cli *cli, const struct cay_v1_tool *tool, const char *word,
                       struct google_protobuf_struct_fields_entry *out_field, struct cay_error *err)
{
    const char *equals = strchr(word, '=');
    if (!equals || equals == word)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "'%.60s' is not NAME=VALUE; 'cay tools' lists the parameters", word);
    struct cay_str name = {word, (size_t)(equals - word)};
    const struct google_protobuf_value *property = member(properties_of(tool), name);
    if (!property)
        return unknown_param(cli, tool, name, err);
    struct google_protobuf_value *value = cay_arena_new(&cli->arena, struct google_protobuf_value);
    if (!value)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    *out_field = (struct google_protobuf_struct_fields_entry){name, value};
    return read_value(cli, text_of(member(object_of(property), CAY_STR("type"))), name,
                      cay_str(equals + 1), value, err);
}

static bool read_stdin(struct cay_buf *out, struct cay_error *err)
{
    for (;;) {
        char *room = cay_buf_reserve(out, 16 * 1024);
        if (!room)
            return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "standard input is too long");
        ssize_t len = read(STDIN_FILENO, room, 16 * 1024);
        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0)
            return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno,
                                  "cannot read standard input");
        if (len == 0)
            return true;
        cay_buf_grew(out, (size_t)len);
    }
}

/* --params, an object, to which the words are added. */
static bool read_json_params(struct cay_cli *cli, struct google_protobuf_struct *out_params,
                             struct cay_error *err)
{
    const char *text = cay_args_text(&cli->args, "params");
    char why[160] = "";
    if (!text)
        return true;
    cay_auto(cay_buf_finish) struct cay_buf input;
    cay_buf_init(&input, CAY_LIMIT_MESSAGE_BYTES);
    if (strcmp(text, "-") != 0)
        cay_buf_append_text(&input, text);
    else if (!read_stdin(&input, err))
        return false;
    /* What is decoded points into the text. */
    const char *kept = cay_arena_copy(&cli->arena, cay_buf_str(&input));
    if (!kept)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "the parameters are too long");
    return cay_pb_json_read(&google_protobuf_struct_desc, (struct cay_str){kept, input.len}, NULL,
                            &cli->arena, out_params, why, sizeof(why)) == 0 ||
           cay_fail(err, CAY_R_INVALID_ARGUMENT, "--params is not a JSON object: %s", why);
}

static bool read_params(struct cay_cli *cli, struct google_protobuf_struct *params,
                        struct cay_error *err)
{
    const struct cay_args *args = &cli->args;
    struct cay_v1_list_tools_response tools = {};
    size_t word_count = args->word_count - 2;
    if (!read_json_params(cli, params, err))
        return false;
    if (!word_count)
        return true;
    if (!fetch_tools(cli, cay_str(args->words[0]), &tools, err))
        return false;
    const struct cay_v1_tool *tool = find_tool(&tools.tools, cay_str(args->words[1]));
    if (!tool)
        return true; /* the daemon refuses it, with the nearest name */
    size_t count = params->fields.count;
    struct google_protobuf_struct_fields_entry *fields =
        cay_arena_array(&cli->arena, count + word_count, sizeof(*fields));
    if (!fields)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    if (count)
        memcpy(fields, params->fields.items, count * sizeof(*fields));
    for (size_t i = 0; i < word_count; i++) {
        if (!read_param(cli, tool, args->words[2 + i], &fields[count + i], err))
            return false;
    }
    params->fields.items = fields;
    params->fields.count = count + word_count;
    return true;
}

static void print_result(struct cay_output *out, const struct cay_v1_tool_result *result)
{
    bool ends_line = true;
    for (size_t i = 0; i < result->content.count; i++) {
        const struct cay_v1_content_block *block = &result->content.items[i];
        if (block->which_block == CAY_V1_CONTENT_BLOCK_BLOCK_TEXT) {
            struct cay_str text = block->block.text;
            cay_output_lines(out, CAY_STYLE_PLAIN, text);
            ends_line = !text.len || text.ptr[text.len - 1] == '\n';
        } else if (block->which_block == CAY_V1_CONTENT_BLOCK_BLOCK_IMAGE) {
            cay_output_printf(out, "(an image of %zu bytes; --json has it)\n",
                              block->block.image->data.len);
        }
    }
    if (!ends_line)
        cay_output_printf(out, "\n");
}

static bool run_tool(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_args *args = &cli->args;
    if (cay_args_has(args, "list"))
        return list_tools(cli, cay_str(args->words[0]), err);
    if (args->word_count < 2)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "TOOL is missing; 'cay tools' lists the tools with their parameters");
    struct google_protobuf_struct params = {};
    struct cay_v1_tool_call call = {
        .tool_name = cay_str(args->words[1]),
        .params = &params,
        .user = cay_values_text(cli, "user"),
        .cwd = cay_values_text(cli, "cwd"),
    };
    struct cay_v1_execute_tool_request request = {
        .session_id = cay_str(args->words[0]),
        .call = &call,
    };
    struct cay_v1_execute_tool_response response = {};
    struct cay_client *client = NULL;
    /* A tool takes as long as it takes: no timeout but the one that was asked for. */
    if (!read_params(cli, &params, err) || !cay_cli_client(cli, CAY_CALL_STREAM, &client, err) ||
        !cay_client_call(client, &cay_v1_methods[CAY_V1_SANDBOX_SERVICE_EXECUTE_TOOL], &request,
                         &cli->arena, &response, err))
        return false;
    if (!response.result)
        return cay_fail(err, CAY_R_INTERNAL, "the answer has no result");
    if (response.result->is_error)
        cli->exit_status = CAY_EXIT_TOOL_ERROR;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_execute_tool_response_desc, &response, err);
    print_result(&cli->out, response.result);
    return true;
}

static void offer_tools(struct cay_completion *completion)
{
    struct cay_v1_list_tools_response tools = {};
    struct cay_error ignored = {};
    struct cay_arena *arena = &completion->cli->arena;
    cay_session_offer(completion);
    if (!completion->word_count ||
        !fetch_tools(completion->cli, (struct cay_str){}, &tools, &ignored))
        return;
    const struct cay_v1_tool *tool =
        completion->word_count > 1 ? find_tool(&tools.tools, cay_str(completion->words[1])) : NULL;
    for (size_t i = 0; completion->word_count == 1 && i < tools.tools.count; i++) {
        const char *name = cay_arena_copy(arena, tools.tools.items[i].name);
        if (name)
            cay_completion_offer(completion, name, "");
    }
    const struct google_protobuf_struct *properties = tool ? properties_of(tool) : NULL;
    for (size_t i = 0; properties && i < properties->fields.count; i++) {
        struct cay_str key = properties->fields.items[i].key;
        const char *name = cay_arena_printf(arena, "%.*s=", (int)key.len, key.ptr);
        if (name)
            cay_completion_offer(completion, name, "");
    }
}

static const struct cay_flag tool_flags[] = {
    {.name = "params",
     .value = "JSON",
     .help = "parameters as a JSON object, '-' for standard input"},
    {.name = "user", .letter = 'u', .value = "USER", .help = "run it as this user of the sandbox"},
    {.name = "cwd", .value = "DIR", .help = "where relative paths begin"},
    {.name = "list", .help = "list the tools of the session, instead of calling one"},
    {},
};

const struct cay_command cay_command_tool = {
    .name = "tool",
    .arguments = "SESSION TOOL [NAME=VALUE...]",
    .summary = "Call a tool in a session, as an agent would",
    .details = "cay prints the text of the result and ends with status 1 when the tool failed at\n"
               "its task. "
               "Values are read as the tool's schema says: text, numbers, true and false.",
    .examples =
        "  cay tool demo edit_file path=a.txt old_string=hi new_string=ho\n"
        "  cay tool demo grep pattern=TODO path=src max_results=20\n"
        "  echo '{\"path\":\"a.txt\",\"content\":\"hi\\n\"}' | cay tool demo write --params -",
    .flags = tool_flags,
    .group = CAY_GROUP_FILES,
    .words_min = 1,
    .words_max = UINT32_MAX,
    .run = run_tool,
    .complete = offer_tools,
};

const struct cay_command cay_command_tools = {
    .name = "tools",
    .arguments = "",
    .summary = "List the tools and their parameters",
    .details = "Parameters in brackets may be left out. With --json cay prints their schemas.",
    .group = CAY_GROUP_FILES,
    .run = run_tools,
};
