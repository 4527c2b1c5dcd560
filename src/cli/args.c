/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/args.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/nearest.h"
#include "cli/command.h"

enum {
    NAMES_MAX = 256, /* candidates of one suggestion; the tables are shorter */
    NAMES_BYTES_MAX = 64 * 1024,
};

const struct cay_flag cay_global_flags[] = {
    {.name = "url",
     .value = "URL",
     .help = "the daemon: unix:PATH, http://HOST:PORT or https://HOST"},
    {.name = "json", .help = "print JSON: one document, or one line per message of a stream"},
    {.name = "timeout", .value = "DURATION", .help = "give up after this time, e.g. 30s, 5m"},
    {.name = "help", .letter = 'h', .help = "show help for cay or the command"},
    {.name = "version", .help = "show the version of cay"},
    {},
};

static const struct cay_flag *find_flag(const struct cay_flag *flags, struct cay_str name)
{
    for (; flags && flags->name; flags++) {
        if (cay_str_is(name, flags->name))
            return flags;
    }
    return NULL;
}

const struct cay_flag *cay_args_flag(const struct cay_command *command, struct cay_str name)
{
    const struct cay_flag *flag = command ? find_flag(command->flags, name) : NULL;
    return flag ? flag : find_flag(cay_global_flags, name);
}

static const struct cay_flag *find_letter(const struct cay_flag *flags, char letter)
{
    for (; flags && flags->name; flags++) {
        if (flags->letter == letter)
            return flags;
    }
    return NULL;
}

const struct cay_flag *cay_args_letter(const struct cay_command *command, char letter)
{
    const struct cay_flag *flag = command ? find_letter(command->flags, letter) : NULL;
    return flag ? flag : find_letter(cay_global_flags, letter);
}

const struct cay_command *cay_args_command(const struct cay_command *const *commands, size_t count,
                                           struct cay_str name)
{
    for (size_t i = 0; i < count; i++) {
        if (cay_str_is(name, commands[i]->name))
            return commands[i];
    }
    return NULL;
}

bool cay_args_is_noun(const struct cay_command *const *commands, size_t count, struct cay_str word)
{
    for (size_t i = 0; i < count; i++) {
        const char *name = commands[i]->name;
        if (strncmp(name, word.ptr, word.len) == 0 && name[word.len] == ' ')
            return true;
    }
    return false;
}

/* Names as they may be typed: "status", "key create", and "key" alone. */
static size_t command_names(const struct cay_command *const *commands, size_t count,
                            struct cay_arena *arena, const char *names[NAMES_MAX])
{
    size_t name_count = 0;
    for (size_t i = 0; i < count && name_count + 2 <= NAMES_MAX; i++) {
        const char *name = commands[i]->name;
        const char *space = strchr(name, ' ');
        if (commands[i]->is_hidden)
            continue;
        names[name_count++] = name;
        char *noun = NULL;
        if (space)
            noun = cay_arena_copy(arena, (struct cay_str){name, (size_t)(space - name)});
        if (noun)
            names[name_count++] = noun;
    }
    return name_count;
}

bool cay_args_unknown_command(const struct cay_command *const *commands, size_t count,
                              const char *name, struct cay_error *err)
{
    const char *names[NAMES_MAX];
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, NAMES_BYTES_MAX);
    size_t name_count = command_names(commands, count, &arena, names);
    const char *nearest = cay_nearest(cay_str(name), names, name_count);
    if (nearest)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "unknown command '%.80s'; did you mean '%s'?",
                        name, nearest);
    /* Of two words, the first may be the right one. */
    size_t noun_len = strcspn(name, " ");
    if (name[noun_len] && cay_args_is_noun(commands, count, (struct cay_str){name, noun_len}))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "unknown command '%.80s'; 'cay help %.*s' lists its commands", name,
                        (int)noun_len, name);
    return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "unknown command '%.80s'; 'cay help' lists the commands", name);
}

/* What parsing needs besides the result. */
struct parser {
    const struct cay_command *const *commands;
    size_t command_count;
    const char *const *argv;
    int argc;
    int at;
    struct cay_args *args;
};

/* "port" is a command and "port rm" another: the longer name counts. */
static void take_longer_name(struct parser *parser)
{
    if (parser->at >= parser->argc)
        return;
    cay_autofree char *name =
        cay_asprintf("%s %s", parser->args->command->name, parser->argv[parser->at]);
    const struct cay_command *longer =
        cay_args_command(parser->commands, parser->command_count, cay_str(name));
    if (!longer)
        return;
    parser->args->command = longer;
    parser->at++;
}

/* The words before a command is known are its name. */
static bool take_name(struct parser *parser, const char *word, struct cay_error *err)
{
    struct cay_args *args = parser->args;
    char *name = args->noun ? cay_asprintf("%s %s", args->noun, word) : cay_strdup(word);
    free(args->noun);
    args->noun = name;
    args->command = cay_args_command(parser->commands, parser->command_count, cay_str(name));
    if (args->command) {
        take_longer_name(parser);
        free(cay_take_ptr(args->noun));
        return true;
    }
    if (cay_args_is_noun(parser->commands, parser->command_count, cay_str(name)))
        return true;
    return cay_args_unknown_command(parser->commands, parser->command_count, name, err);
}

static void add_value(struct cay_args *args, const struct cay_flag *flag, const char *text)
{
    args->values[args->value_count++] = (struct cay_flag_value){flag, text};
}

static size_t add_flag_names(const struct cay_flag *flags, const char **names, size_t count)
{
    for (; flags && flags->name && count < NAMES_MAX; flags++) {
        if (!flags->is_hidden)
            names[count++] = flags->name;
    }
    return count;
}

static bool unknown_flag(const struct cay_command *command, struct cay_str name,
                         struct cay_error *err)
{
    const char *names[NAMES_MAX];
    size_t count = add_flag_names(command ? command->flags : NULL, names, 0);
    count = add_flag_names(cay_global_flags, names, count);
    const char *nearest = cay_nearest(name, names, count);
    const char *of = command ? command->name : "";
    const char *space = command ? " " : "";
    int len = (int)CAY_MIN(name.len, (size_t)40);
    if (nearest)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "'cay%s%s' has no flag '--%.*s'; did you mean '--%s'?", space, of, len,
                        name.ptr, nearest);
    return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "'cay%s%s' has no flag '--%.*s'; see 'cay help%s%s'", space, of, len, name.ptr,
                    space, of);
}

/* The argument after a flag that wants a value. */
static bool take_value(struct parser *parser, const struct cay_flag *flag, struct cay_error *err)
{
    if (parser->at >= parser->argc)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "--%s needs a value: --%s %s", flag->name,
                        flag->name, flag->value);
    add_value(parser->args, flag, parser->argv[parser->at++]);
    return true;
}

static bool take_long(struct parser *parser, const char *text, struct cay_error *err)
{
    const char *equals = strchr(text, '=');
    struct cay_str name = {text, equals ? (size_t)(equals - text) : strlen(text)};
    const struct cay_flag *flag = cay_args_flag(parser->args->command, name);
    if (!flag)
        return unknown_flag(parser->args->command, name, err);
    if (!flag->value && equals)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "--%s takes no value", flag->name);
    if (flag->value && !equals)
        return take_value(parser, flag, err);
    add_value(parser->args, flag, equals ? equals + 1 : NULL);
    return true;
}

static bool no_letter(const struct cay_command *command, char letter, struct cay_error *err)
{
    const char *name = command ? command->name : "";
    const char *space = command ? " " : "";
    if (command && strstr(command->arguments, "-- "))
        return cay_fail(
            err, CAY_R_INVALID_ARGUMENT,
            "'cay %s' has no flag '-%c'; if it is for the command, write '--' before the "
            "command; see 'cay help %s'",
            name, letter, name);
    return cay_fail(err, CAY_R_INVALID_ARGUMENT, "'cay%s%s' has no flag '-%c'; see 'cay help%s%s'",
                    space, name, letter, space, name);
}

static bool take_letters(struct parser *parser, const char *letters, struct cay_error *err)
{
    for (; *letters; letters++) {
        const struct cay_flag *flag = cay_args_letter(parser->args->command, *letters);
        if (!flag)
            return no_letter(parser->args->command, *letters, err);
        if (flag->value && letters[1])
            return cay_fail(err, CAY_R_INVALID_ARGUMENT, "-%c needs a value: -%c %s", *letters,
                            *letters, flag->value);
        if (flag->value)
            return take_value(parser, flag, err);
        add_value(parser->args, flag, NULL);
    }
    return true;
}

static bool take_all(struct parser *parser, struct cay_error *err)
{
    struct cay_args *args = parser->args;
    bool is_after_dashes = false;
    while (parser->at < parser->argc) {
        const char *word = parser->argv[parser->at++];
        bool done = true;
        if (is_after_dashes || word[0] != '-' || !word[1]) {
            if (!args->command)
                done = take_name(parser, word, err);
            else
                args->words[args->word_count++] = word;
        } else if (strcmp(word, "--") == 0) {
            is_after_dashes = true;
            args->dash_at = args->word_count;
        } else if (word[1] == '-') {
            done = take_long(parser, word + 2, err);
        } else {
            done = take_letters(parser, word + 1, err);
        }
        if (!done)
            return false;
    }
    if (!is_after_dashes)
        args->dash_at = args->word_count;
    return true;
}

static size_t count_flags(int argc, const char *const *argv)
{
    size_t count = 0;
    for (int i = 1; i < argc; i++)
        count += strlen(argv[i]); /* joined letters are one flag each */
    return count;
}

bool cay_args_parse(const struct cay_command *const *commands, size_t command_count, int argc,
                    const char *const *argv, struct cay_args *out_args, struct cay_error *err)
{
    struct cay_args args = {
        .words = cay_alloc((size_t)CAY_MAX(argc, 1) * sizeof(char *)),
        .values = cay_alloc((count_flags(argc, argv) + 1) * sizeof(struct cay_flag_value)),
    };
    struct parser parser = {
        .commands = commands,
        .command_count = command_count,
        .argv = argv,
        .argc = argc,
        .at = 1,
        .args = &args,
    };
    if (!take_all(&parser, err)) {
        cay_args_finish(&args);
        return false;
    }
    *out_args = args;
    return true;
}

void cay_args_finish(struct cay_args *args)
{
    free(cay_take_ptr(args->noun));
    free(cay_take_ptr(args->words));
    free(cay_take_ptr(args->values));
    *args = (struct cay_args){};
}

bool cay_args_check_words(const struct cay_args *args, struct cay_error *err)
{
    const struct cay_command *command = args->command;
    const char *space = *command->arguments ? " " : "";
    if (args->word_count < command->words_min)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "an argument is missing; usage: cay %s%s%s",
                        command->name, space, command->arguments);
    if (args->word_count <= command->words_max)
        return true;
    return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "the argument '%.60s' is one too many; usage: cay %s%s%s",
                    args->words[command->words_max], command->name, space, command->arguments);
}

const char *cay_args_each(const struct cay_args *args, const char *name, size_t *cursor)
{
    assert(cay_args_flag(args->command, cay_str(name)));
    while (*cursor < args->value_count) {
        const struct cay_flag_value *value = &args->values[(*cursor)++];
        if (strcmp(value->flag->name, name) == 0)
            return value->text ? value->text : "";
    }
    return NULL;
}

const char *cay_args_text(const struct cay_args *args, const char *name)
{
    size_t cursor = 0;
    const char *last = NULL;
    for (const char *text; (text = cay_args_each(args, name, &cursor));)
        last = text;
    return last;
}

bool cay_args_has(const struct cay_args *args, const char *name)
{
    return cay_args_text(args, name) != NULL;
}
