/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/help.h"

#include "base/json.h"
#include "cli/command.h"
#include "cli/completion.h"

enum {
    USAGE_COLUMNS = 30, /* wider ones get a line of their own */
    WIDTH = 80,
    LISTING_BYTES_MAX = 1024 * 1024,
};

static const char *const group_titles[CAY_GROUP_COUNT] = {
    [CAY_GROUP_SANDBOX] = "Sandboxes", [CAY_GROUP_FILES] = "Files and tools",
    [CAY_GROUP_HISTORY] = "History",   [CAY_GROUP_HOST] = "Host",
    [CAY_GROUP_OTHER] = "Other",
};

static void print_title(struct cay_output *out, const char *title)
{
    cay_output_text(out, CAY_STYLE_BOLD, cay_str(title));
    cay_output_printf(out, "\n");
}

/* The words of a text from this column on, in lines that fit a terminal. An empty line stays. */
static void print_words(struct cay_output *out, size_t column, const char *text)
{
    size_t at = column;
    while (*text) {
        size_t len = strcspn(text, " \n");
        size_t width = cay_output_width((struct cay_str){text, len});
        if (at > column && at + 1 + width > WIDTH) {
            cay_output_printf(out, "\n%*s", (int)column, "");
            at = column;
        } else if (at > column) {
            cay_output_printf(out, " ");
            at++;
        }
        cay_output_printf(out, "%.*s", (int)len, text);
        at += width;
        text += len;
        size_t gap = strspn(text, " \n");
        if (text[gap] && gap >= 2 && memcmp(text, "\n\n", 2) == 0) {
            cay_output_printf(out, "\n\n%*s", (int)column, "");
            at = column;
        }
        text += gap;
    }
    cay_output_printf(out, "\n");
}

static void print_entry(struct cay_output *out, const char *name, const char *rest,
                        const char *help)
{
    size_t width = strlen(name) + (*rest ? 1 + strlen(rest) : 0);
    cay_output_printf(out, "  %s%s%s", name, *rest ? " " : "", rest);
    if (width > USAGE_COLUMNS)
        cay_output_printf(out, "\n%*s", 2 + USAGE_COLUMNS + 2, "");
    else
        cay_output_printf(out, "%*s", (int)(USAGE_COLUMNS - width + 2), "");
    print_words(out, 2 + USAGE_COLUMNS + 2, help);
}

static void print_flags(struct cay_output *out, const char *title, const struct cay_flag *flags)
{
    bool has_title = false;
    for (; flags && flags->name; flags++) {
        char name[64];
        if (flags->is_hidden)
            continue;
        if (!has_title)
            print_title(out, title);
        has_title = true;
        if (flags->letter)
            snprintf(name, sizeof(name), "-%c, --%s", flags->letter, flags->name);
        else
            snprintf(name, sizeof(name), "--%s", flags->name);
        print_entry(out, name, flags->value ? flags->value : "", flags->help);
    }
    if (has_title)
        cay_output_printf(out, "\n");
}

static bool is_asked_for(const struct cay_command *command, const char *name)
{
    if (!name)
        return !command->is_hidden;
    size_t len = strlen(name);
    return strncmp(command->name, name, len) == 0 &&
           (command->name[len] == '\0' || command->name[len] == ' ');
}

static void print_group(struct cay_output *out, enum cay_group group, const char *name)
{
    bool has_title = false;
    for (size_t i = 0; i < cay_command_count; i++) {
        const struct cay_command *command = cay_commands[i];
        if (command->group != group || command->is_hidden || !is_asked_for(command, name))
            continue;
        if (!has_title)
            print_title(out, group_titles[group]);
        has_title = true;
        print_entry(out, command->name, command->arguments, command->summary);
    }
    if (has_title)
        cay_output_printf(out, "\n");
}

static void print_overview(struct cay_output *out, const char *name)
{
    if (name)
        cay_output_printf(out, "Usage: cay %s COMMAND [FLAGS]\n\n", name);
    else
        cay_output_printf(out, "Usage: cay COMMAND [FLAGS]\n\n"
                               "Sandboxes for AI agents, on a machine you own.\n\n");
    for (int group = CAY_GROUP_SANDBOX; group < CAY_GROUP_COUNT; group++)
        print_group(out, (enum cay_group)group, name);
    if (!name) {
        print_flags(out, "Flags of every command", cay_global_flags);
        print_title(out, "Environment");
        for (const struct cay_variable *variable = cay_variables; variable->name; variable++)
            print_entry(out, variable->name, "", variable->help);
        cay_output_printf(out, "\n");
    }
    cay_output_printf(out, "'cay help %s%sCOMMAND' says more about a command.\n", name ? name : "",
                      name ? " " : "");
}

static void print_command(struct cay_output *out, const struct cay_command *command)
{
    cay_output_printf(out, "Usage: cay %s%s", command->name, command->flags ? " [FLAGS]" : "");
    if (*command->arguments)
        cay_output_printf(out, " %s", command->arguments);
    cay_output_printf(out, "\n\n%s.\n", command->summary);
    if (command->details)
        print_words(out, 0, command->details);
    cay_output_printf(out, "\n");
    print_flags(out, "Flags", command->flags);
    if (command->examples) {
        print_title(out, "Examples");
        cay_output_printf(out, "%s\n\n", command->examples);
    }
    cay_output_printf(out, "'cay help' lists the flags that every command has.\n");
}

static void list_flags(struct cay_json_writer *json, const struct cay_flag *flags)
{
    cay_json_key(json, "flags");
    cay_json_array_begin(json);
    for (; flags && flags->name; flags++) {
        if (flags->is_hidden)
            continue;
        cay_json_object_begin(json);
        cay_json_key(json, "name");
        cay_json_text(json, flags->name);
        if (flags->letter) {
            cay_json_key(json, "letter");
            cay_json_string(json, (struct cay_str){&flags->letter, 1});
        }
        if (flags->value) {
            cay_json_key(json, "value");
            cay_json_text(json, flags->value);
        }
        cay_json_key(json, "help");
        cay_json_text(json, flags->help);
        cay_json_object_end(json);
    }
    cay_json_array_end(json);
}

static void list_commands(struct cay_json_writer *json, const char *name)
{
    cay_json_key(json, "commands");
    cay_json_array_begin(json);
    for (size_t i = 0; i < cay_command_count; i++) {
        const struct cay_command *command = cay_commands[i];
        if (command->is_hidden || !is_asked_for(command, name))
            continue;
        cay_json_object_begin(json);
        cay_json_key(json, "name");
        cay_json_text(json, command->name);
        cay_json_key(json, "arguments");
        cay_json_text(json, command->arguments);
        cay_json_key(json, "group");
        cay_json_text(json, group_titles[command->group]);
        cay_json_key(json, "summary");
        cay_json_text(json, command->summary);
        list_flags(json, command->flags);
        cay_json_object_end(json);
    }
    cay_json_array_end(json);
}

/* The same as the help, for programs: the man page is checked against it. */
static void list(struct cay_output *out, const char *name)
{
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_buf_init(&buf, LISTING_BYTES_MAX);
    struct cay_json_writer json = {.buf = &buf};
    cay_json_object_begin(&json);
    list_commands(&json, name);
    list_flags(&json, cay_global_flags);
    cay_json_key(&json, "environment");
    cay_json_array_begin(&json);
    for (const struct cay_variable *variable = cay_variables; variable->name; variable++) {
        cay_json_object_begin(&json);
        cay_json_key(&json, "name");
        cay_json_text(&json, variable->name);
        cay_json_key(&json, "help");
        cay_json_text(&json, variable->help);
        cay_json_object_end(&json);
    }
    cay_json_array_end(&json);
    cay_json_object_end(&json);
    cay_output_json(out, cay_buf_str(&buf));
}

bool cay_help_show(struct cay_cli *cli, const char *name, struct cay_error *err)
{
    const struct cay_command *command = NULL;
    if (name) {
        command = cay_args_command(cay_commands, cay_command_count, cay_str(name));
        if (!command && !cay_args_is_noun(cay_commands, cay_command_count, cay_str(name)))
            return cay_args_unknown_command(cay_commands, cay_command_count, name, err);
    }
    if (cli->out.is_json)
        list(&cli->out, name);
    else if (command)
        print_command(&cli->out, command);
    else
        print_overview(&cli->out, name);
    return true;
}

static bool run_help(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_args *args = &cli->args;
    if (cay_args_has(args, "list"))
        cli->out.is_json = true;
    const char *name = args->word_count ? args->words[0] : NULL;
    if (args->word_count == 2)
        name = cay_arena_printf(&cli->arena, "%s %s", args->words[0], args->words[1]);
    return cay_help_show(cli, name, err);
}

bool cay_help_version(struct cay_cli *cli, struct cay_error *)
{
    if (cli->out.is_json)
        cay_output_json(&cli->out, CAY_STR("{\"version\":\"" CAY_VERSION "\"}"));
    else
        cay_output_printf(&cli->out, "cay " CAY_VERSION "\n");
    return true;
}

static const struct cay_flag help_flags[] = {
    {.name = "list", .help = "print what there is as JSON", .is_hidden = true},
    {},
};

const struct cay_command cay_command_help = {
    .name = "help",
    .arguments = "[COMMAND]",
    .summary = "Show help for cay or one of its commands",
    .flags = help_flags,
    .group = CAY_GROUP_OTHER,
    .words_max = 2,
    .run = run_help,
    .complete = cay_completion_commands,
};

const struct cay_command cay_command_version = {
    .name = "version",
    .arguments = "",
    .summary = "Show the version of cay",
    .details = "'cay status' shows the version of the daemon.",
    .group = CAY_GROUP_OTHER,
    .run = cay_help_version,
};
