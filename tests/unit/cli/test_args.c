/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "cli/command.h"

static const struct cay_flag exec_flags[] = {
    {.name = "env", .letter = 'e', .value = "NAME=VALUE", .help = "h"},
    {.name = "interactive", .letter = 'i', .help = "h"},
    {.name = "tty", .letter = 't', .help = "h"},
    {.name = "secret-switch", .help = "h", .is_hidden = true},
    {},
};

static const struct cay_command exec_command = {
    .name = "exec",
    .arguments = "SESSION -- COMMAND...",
    .flags = exec_flags,
    .words_min = 2,
    .words_max = 100,
};
static const struct cay_command key_ls = {.name = "key ls", .arguments = ""};
static const struct cay_command key_create = {.name = "key create", .arguments = ""};
static const struct cay_command hidden = {.name = "complete", .arguments = "", .is_hidden = true};

static const struct cay_command port = {.name = "port", .arguments = "SESSION", .words_max = 1};
static const struct cay_command port_rm = {.name = "port rm", .arguments = ""};

static const struct cay_command *const commands[] = {&exec_command, &key_ls, &key_create,
                                                     &hidden,       &port,   &port_rm};

#define PARSE(args, err, ...)                                              \
    cay_args_parse(commands, CAY_COUNT(commands),                          \
                   (int)CAY_COUNT(((const char *[]){"cay", __VA_ARGS__})), \
                   (const char *[]){"cay", __VA_ARGS__}, args, err)

static void words_and_flags_may_be_mixed(void **)
{
    struct cay_args args = {};
    struct cay_error err = {};
    assert_true(PARSE(&args, &err, "--json", "exec", "-it", "demo", "--env=A=b", "--timeout", "5s",
                      "-e", "C=d", "--", "sh", "-c", "--json"));
    assert_ptr_equal(args.command, &exec_command);
    assert_null(args.noun);
    assert_int_equal(args.word_count, 4);
    assert_int_equal(args.dash_at, 1);
    assert_string_equal(args.words[0], "demo");
    assert_string_equal(args.words[3], "--json");
    assert_true(cay_args_has(&args, "json"));
    assert_true(cay_args_has(&args, "interactive"));
    assert_true(cay_args_has(&args, "tty"));
    assert_false(cay_args_has(&args, "help"));
    assert_string_equal(cay_args_text(&args, "timeout"), "5s");
    assert_null(cay_args_text(&args, "url"));
    size_t cursor = 0;
    assert_string_equal(cay_args_each(&args, "env", &cursor), "A=b");
    assert_string_equal(cay_args_each(&args, "env", &cursor), "C=d");
    assert_null(cay_args_each(&args, "env", &cursor));
    assert_true(cay_args_check_words(&args, &err));
    cay_args_finish(&args);
}

static void the_longer_name_of_two_commands_counts(void **)
{
    struct cay_args args = {};
    struct cay_error err = {};
    assert_true(PARSE(&args, &err, "port", "demo"));
    assert_ptr_equal(args.command, &port);
    assert_string_equal(args.words[0], "demo");
    cay_args_finish(&args);
    assert_true(PARSE(&args, &err, "port", "rm", "demo"));
    assert_ptr_equal(args.command, &port_rm);
    assert_int_equal(args.word_count, 1);
    cay_args_finish(&args);
    assert_true(PARSE(&args, &err, "port", "--", "rm"));
    assert_ptr_equal(args.command, &port);
    assert_string_equal(args.words[0], "rm");
    cay_args_finish(&args);
}

static void the_last_of_two_values_counts(void **)
{
    struct cay_args args = {};
    struct cay_error err = {};
    assert_true(PARSE(&args, &err, "key", "--url", "a", "ls", "--url=b", "--url="));
    assert_ptr_equal(args.command, &key_ls);
    assert_string_equal(cay_args_text(&args, "url"), "");
    assert_int_equal(args.dash_at, 0);
    cay_args_finish(&args);
}

static void a_noun_alone_is_kept_for_help(void **)
{
    struct cay_args args = {};
    struct cay_error err = {};
    assert_true(PARSE(&args, &err, "key", "--help"));
    assert_null(args.command);
    assert_string_equal(args.noun, "key");
    cay_args_finish(&args);
    assert_true(
        cay_args_parse(commands, CAY_COUNT(commands), 1, (const char *[]){"cay"}, &args, &err));
    assert_null(args.command);
    assert_null(args.noun);
    cay_args_finish(&args);
    /* A caller may leave out even the program's name. */
    assert_true(
        cay_args_parse(commands, CAY_COUNT(commands), 0, (const char *[]){NULL}, &args, &err));
    cay_args_finish(&args);
}

static void assert_text(const struct cay_error *err, const char *text)
{
    assert_int_equal(err->reason, CAY_R_INVALID_ARGUMENT);
    assert_string_equal(err->text, text);
}

static void what_is_unknown_is_told_with_the_nearest_name(void **)
{
    struct cay_args args = {};
    struct cay_error err = {};
    assert_false(PARSE(&args, &err, "exce"));
    assert_text(&err, "unknown command 'exce'; did you mean 'exec'?");
    assert_false(PARSE(&args, &err, "kye", "ls"));
    assert_text(&err, "unknown command 'kye'; did you mean 'key'?");
    assert_false(PARSE(&args, &err, "key", "crate"));
    assert_text(&err, "unknown command 'key crate'; did you mean 'key create'?");
    assert_false(PARSE(&args, &err, "key", "somethingelse"));
    assert_text(&err, "unknown command 'key somethingelse'; 'cay help key' lists its commands");
    assert_false(PARSE(&args, &err, "complte"));
    assert_text(&err, "unknown command 'complte'; 'cay help' lists the commands");
    assert_false(PARSE(&args, &err, "exec", "--evn", "A=b"));
    assert_text(&err, "'cay exec' has no flag '--evn'; did you mean '--env'?");
    assert_false(PARSE(&args, &err, "exec", "--qqqqq"));
    assert_text(&err, "'cay exec' has no flag '--qqqqq'; see 'cay help exec'");
    assert_false(PARSE(&args, &err, "--env", "A=b", "exec"));
    assert_false(PARSE(&args, &err, "exec", "-ix"));
    assert_text(&err,
                "'cay exec' has no flag '-x'; if it is for the command, write '--' before the "
                "command; see 'cay help exec'");
    assert_null(args.words);
}

static void values_are_neither_missing_nor_too_many(void **)
{
    struct cay_args args = {};
    struct cay_error err = {};
    assert_false(PARSE(&args, &err, "exec", "--env"));
    assert_text(&err, "--env needs a value: --env NAME=VALUE");
    assert_false(PARSE(&args, &err, "exec", "-ei", "A=b"));
    assert_text(&err, "-e needs a value: -e NAME=VALUE");
    assert_false(PARSE(&args, &err, "exec", "--tty=yes"));
    assert_text(&err, "--tty takes no value");
}

static void words_are_counted(void **)
{
    struct cay_args args = {};
    struct cay_error err = {};
    assert_true(PARSE(&args, &err, "exec", "demo"));
    assert_false(cay_args_check_words(&args, &err));
    assert_text(&err, "an argument is missing; usage: cay exec SESSION -- COMMAND...");
    cay_args_finish(&args);
    assert_true(PARSE(&args, &err, "key", "ls", "-"));
    assert_string_equal(args.words[0], "-");
    assert_false(cay_args_check_words(&args, &err));
    assert_text(&err, "the argument '-' is one too many; usage: cay key ls");
    cay_args_finish(&args);
}

/* The real table: help and completion count on it. */
static void every_command_is_complete(void **)
{
    for (size_t i = 0; i < cay_command_count; i++) {
        const struct cay_command *command = cay_commands[i];
        assert_non_null(command->name);
        assert_non_null(command->arguments);
        assert_non_null(command->summary);
        assert_true(command->summary[strlen(command->summary) - 1] != '.');
        assert_non_null(command->run);
        assert_in_range(command->group, CAY_GROUP_SANDBOX, CAY_GROUP_COUNT - 1);
        assert_true(command->words_min <= command->words_max);
        assert_int_equal(command->words_max > 0, *command->arguments != '\0');
        assert_ptr_equal(cay_args_command(cay_commands, cay_command_count, cay_str(command->name)),
                         command);
        for (const struct cay_flag *flag = command->flags; flag && flag->name; flag++) {
            assert_non_null(flag->help);
            for (const struct cay_flag *global = cay_global_flags; global->name; global++) {
                /* A flag may say what a global one means for its command, not be another. */
                if (strcmp(flag->name, global->name) == 0)
                    assert_string_equal(flag->value, global->value);
                assert_true(!flag->letter || flag->letter != global->letter);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_and_flags_may_be_mixed),
        cmocka_unit_test(the_longer_name_of_two_commands_counts),
        cmocka_unit_test(the_last_of_two_values_counts),
        cmocka_unit_test(a_noun_alone_is_kept_for_help),
        cmocka_unit_test(what_is_unknown_is_told_with_the_nearest_name),
        cmocka_unit_test(values_are_neither_missing_nor_too_many),
        cmocka_unit_test(words_are_counted),
        cmocka_unit_test(every_command_is_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
