/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/secret.h"

struct target {
    char *listen;
    char *config;
    char *name;
    struct cay_secret token;
    bool tls;
    bool color;
    bool help;
    int64_t max_sessions;
    int64_t idle_timeout;
    uint64_t disk;
    double high_water;
    int store;
    struct cay_conf_list allow;
};

static const char *const stores[] = {"auto", "overlay", "btrfs", NULL};

static const struct cay_conf_entry entries[] = {
    {CAY_CONF_FIELD(struct target, listen), .type = CAY_CONF_STRING, .fallback = "127.0.0.1:4747",
     .letter = 'l', .metavar = "ADDR", .help = "Address and port to serve on."},
    {CAY_CONF_FIELD(struct target, config), .type = CAY_CONF_STRING,
     .sources = CAY_CONF_FLAG | CAY_CONF_ENVIRONMENT, .metavar = "FILE",
     .help = "The file to read."},
    {CAY_CONF_FIELD(struct target, name), .type = CAY_CONF_STRING, .min = 1, .max = 8,
     .help = "What this host calls itself."},
    {CAY_CONF_FIELD(struct target, token), .type = CAY_CONF_SECRET, .help = "Shared secret."},
    {CAY_CONF_FIELD(struct target, tls), .type = CAY_CONF_BOOL, .fallback = "false",
     .help = "Whether to encrypt."},
    {CAY_CONF_FIELD(struct target, color), .type = CAY_CONF_BOOL, .fallback = "true",
     .help = "Whether to colour."},
    {CAY_CONF_FIELD(struct target, help), .type = CAY_CONF_BOOL, .sources = CAY_CONF_FLAG,
     .letter = 'h', .help = "Show this text."},
    {CAY_CONF_FIELD(struct target, max_sessions), .type = CAY_CONF_INTEGER, .min = 1, .max = 10'000,
     .fallback = "64", .help = "How many sessions may exist at once."},
    {CAY_CONF_FIELD(struct target, idle_timeout), .type = CAY_CONF_DURATION, .min = 1000,
     .max = 86'400'000, .fallback = "5m", .help = "When an idle session is paused."},
    {CAY_CONF_FIELD(struct target, disk), .type = CAY_CONF_SIZE, .min = 1 << 20,
     .max = INT64_C(1) << 40, .fallback = "10G", .help = "Space of a session."},
    {CAY_CONF_FIELD(struct target, high_water), .type = CAY_CONF_RATIO, .fallback = "80%",
     .help = "How full the pool may get."},
    {CAY_CONF_FIELD(struct target, store), .type = CAY_CONF_ENUM, .choices = stores,
     .fallback = "auto", .help = "Where snapshots live."},
    {CAY_CONF_FIELD(struct target, allow), .type = CAY_CONF_LIST, .fallback = "a, b",
     .help = "Who may come in."},
};

struct fixture {
    struct target target;
    struct cay_conf conf;
    struct cay_error err;
    char directory[32];
    char path[64];
};

static int begin(void **state)
{
    struct fixture *fixture = cay_new(struct fixture);
    cay_conf_init(&fixture->conf, entries, CAY_COUNT(entries), &fixture->target,
                  sizeof(fixture->target));
    snprintf(fixture->directory, sizeof(fixture->directory), "/tmp/cay-test-conf-XXXXXX");
    if (!mkdtemp(fixture->directory))
        return -1;
    snprintf(fixture->path, sizeof(fixture->path), "%s/cayd.conf", fixture->directory);
    *state = fixture;
    return 0;
}

static int end(void **state)
{
    struct fixture *fixture = *state;
    cay_conf_finish(&fixture->conf);
    unlink(fixture->path);
    rmdir(fixture->directory);
    free(fixture);
    return 0;
}

static bool load_bytes(struct fixture *fixture, struct cay_str text)
{
    FILE *file = fopen(fixture->path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(text.ptr, 1, text.len, file), text.len);
    assert_int_equal(fclose(file), 0);
    return cay_conf_load_file(&fixture->conf, fixture->path, &fixture->err);
}

static bool load_text(struct fixture *fixture, const char *text)
{
    return load_bytes(fixture, cay_str(text));
}

/* The error's text with the temporary directory taken out. */
static const char *sentence(struct fixture *fixture)
{
    static char text[sizeof(fixture->err.text)];
    char *at = strstr(fixture->err.text, fixture->directory);
    if (!at) {
        snprintf(text, sizeof(text), "%s", fixture->err.text);
    } else {
        snprintf(text, sizeof(text), "%.*s%s", (int)(at - fixture->err.text), fixture->err.text,
                 at + strlen(fixture->directory) + 1);
    }
    assert_int_equal(fixture->err.reason, CAY_R_INVALID_ARGUMENT);
    return text;
}

static bool load_variables(struct fixture *fixture, const char *const *variables)
{
    static const char *const ignored[] = {"CAY_URL", "CAY_API_KEY", NULL};
    return cay_conf_load_environment(&fixture->conf, variables, ignored, &fixture->err);
}

#define VARIABLES(...) ((const char *const[]){__VA_ARGS__, NULL})

#define load_words(fixture, out_rest, ...)                                            \
    cay_conf_load_flags(&(fixture)->conf,                                             \
                        (int)CAY_COUNT(((const char *const[]){"cayd", __VA_ARGS__})), \
                        (const char *const[]){"cayd", __VA_ARGS__}, (out_rest), &(fixture)->err)

static void fallbacks_fill_every_type(void **state)
{
    struct fixture *fixture = *state;
    const struct target *target = &fixture->target;
    assert_string_equal(target->listen, "127.0.0.1:4747");
    assert_null(target->config);
    assert_int_equal(target->token.len, 0);
    assert_false(target->tls);
    assert_true(target->color);
    assert_int_equal(target->max_sessions, 64);
    assert_int_equal(target->idle_timeout, 300'000);
    assert_true(target->disk == UINT64_C(10) << 30);
    assert_true(target->high_water == 0.8);
    assert_int_equal(target->store, 0);
    assert_int_equal(target->allow.count, 2);
    assert_string_equal(target->allow.items[1], "b");
    assert_int_equal(cay_conf_source_of(&fixture->conf, "disk"), CAY_CONF_DEFAULT);
}

static void a_file_sets_every_type(void **state)
{
    struct fixture *fixture = *state;
    const struct target *target = &fixture->target;
    assert_true(load_text(fixture, "# a comment\n"
                                   "\n"
                                   "listen=0.0.0.0:1   # all of them\r\n"
                                   "  name\t=  a#b  \n"
                                   "token = \"s3 # \\\"x\\\\\" # quoted\n"
                                   "tls = Yes\ncolor = off\n"
                                   "max_sessions = 10000\n"
                                   "idle_timeout = 1h30m\n"
                                   "disk = 512M\n"
                                   "high_water = 0.5\n"
                                   "store = btrfs\n"
                                   "allow = x , y\n"
                                   "allow = z"));
    assert_string_equal(target->listen, "0.0.0.0:1");
    assert_string_equal(target->name, "a#b");
    assert_true(cay_str_is(cay_secret_view(&target->token), "s3 # \"x\\"));
    assert_true(target->tls);
    assert_false(target->color);
    assert_int_equal(target->max_sessions, 10'000);
    assert_int_equal(target->idle_timeout, 5'400'000);
    assert_int_equal(target->disk, 512 << 20);
    assert_true(target->high_water == 0.5);
    assert_int_equal(target->store, 2);
    assert_int_equal(target->allow.count, 3);
    assert_string_equal(target->allow.items[0], "x");
    assert_string_equal(target->allow.items[2], "z");
}

static void an_empty_value_is_empty_text_or_an_empty_list(void **state)
{
    struct fixture *fixture = *state;
    assert_true(load_text(fixture, "\xEF\xBB\xBFlisten =\nallow = # none\n"));
    assert_string_equal(fixture->target.listen, "");
    assert_int_equal(fixture->target.allow.count, 0);
    assert_true(load_text(fixture, ""));
}

static void a_mistake_in_the_file_names_its_line_and_the_remedy(void **state)
{
    static const struct {
        const char *text;
        const char *want;
    } cases[] = {
        {"# x\n\nlisen = a\n", "unknown key 'lisen' in cayd.conf:3; did you mean 'listen'?"},
        {"max-sessions = 1\n",
         "unknown key 'max-sessions' in cayd.conf:1; did you mean 'max_sessions'?"},
        {"frobnicate = 1\n", "unknown key 'frobnicate' in cayd.conf:1"},
        {"x\x1b[2J = 1\n", "unknown key 'x?[2J' in cayd.conf:1"},
        {"[section]\n", "cayd.conf:1 is not of the form 'key = value'"},
        {"max_sessions = 0\n",
         "max_sessions in cayd.conf:1 is '0'; it must be a whole number from 1 to 10000"},
        {"\nmax_sessions = 1e3\n",
         "max_sessions in cayd.conf:2 is '1e3'; it must be a whole number from 1 to 10000"},
        {"name =\n", "name in cayd.conf:1 is ''; it must be text of 1 to 8 bytes"},
        {"tls = maybe\n", "tls in cayd.conf:1 is 'maybe'; it must be true or false"},
        {"idle_timeout = 30\n", "idle_timeout in cayd.conf:1 is '30'; it must be a duration such "
                                "as 30s, 5m or 1h30m, from 1s to 1d"},
        {"disk = 1k\n", "disk in cayd.conf:1 is '1k'; it must be a size such as 4096, 512M or "
                        "2GiB, from 1MiB to 1TiB"},
        {"high_water = 2\n", "high_water in cayd.conf:1 is '2'; it must be a ratio from 0 to 1 "
                             "such as 0.8 or 80%"},
        {"store = zfs\n",
         "store in cayd.conf:1 is 'zfs'; it must be one of auto, overlay or btrfs"},
        {"allow = a,,b\n", "allow in cayd.conf:1 is 'a,,b'; it must be a list with commas between "
                           "its items"},
        {"config = x\n", "config cannot be set by the file; use --config"},
        {"tls = on\ntls = off\n", "tls is set twice, in cayd.conf:2 and in line 1; keep one"},
        {"listen = \"abc\n", "listen in cayd.conf:1 has a broken quoted value; write \"...\" with "
                             "\\\" and \\\\ inside"},
        {"listen = \"a\" b\n", "listen in cayd.conf:1 has a broken quoted value; write \"...\" "
                               "with \\\" and \\\\ inside"},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        struct fixture *fixture = *state;
        assert_false(load_text(fixture, cases[i].text));
        assert_string_equal(sentence(fixture), cases[i].want);
    }
}

static void a_zero_byte_or_too_long_a_value_is_refused(void **state)
{
    struct fixture *fixture = *state;
    assert_false(load_bytes(fixture, (struct cay_str){"name = a\0b\n", 11}));
    assert_string_equal(sentence(fixture), "cayd.conf:1 is not of the form 'key = value'");
    char text[5100] = "listen = ";
    memset(text + 9, 'x', 5000);
    assert_false(load_text(fixture, text));
    assert_non_null(strstr(sentence(fixture), "xxx...'; it must be at most 4096 bytes long"));
}

static void a_secret_is_not_shown_in_errors(void **state)
{
    struct fixture *fixture = *state;
    char text[5100] = "token = ";
    memset(text + 8, 's', 5000);
    assert_false(load_text(fixture, text));
    assert_string_equal(sentence(fixture),
                        "token in cayd.conf:1 is '***'; it must be at most 4096 bytes long");
}

static void the_file_must_be_regular_and_small(void **state)
{
    struct fixture *fixture = *state;
    assert_false(cay_conf_load_file(&fixture->conf, fixture->path, &fixture->err));
    assert_int_equal(fixture->err.sys_errno, ENOENT);
    assert_string_equal(sentence(fixture),
                        "read the configuration 'cayd.conf': No such file or directory");
    assert_false(cay_conf_load_file(&fixture->conf, fixture->directory, &fixture->err));
    assert_non_null(strstr(fixture->err.text, "is not a regular file"));
    /* A fifo without a writer must not stop the daemon. */
    assert_int_equal(mkfifo(fixture->path, 0600), 0);
    assert_false(cay_conf_load_file(&fixture->conf, fixture->path, &fixture->err));
    assert_string_equal(sentence(fixture), "the configuration 'cayd.conf' is not a regular file");
    unlink(fixture->path);

    cay_autofree char *large = cay_alloc(CAY_CONF_FILE_BYTES_MAX + 1);
    memset(large, '\n', CAY_CONF_FILE_BYTES_MAX + 1);
    assert_true(load_bytes(fixture, (struct cay_str){large, CAY_CONF_FILE_BYTES_MAX}));
    assert_false(load_bytes(fixture, (struct cay_str){large, CAY_CONF_FILE_BYTES_MAX + 1}));
    assert_string_equal(sentence(fixture),
                        "the configuration 'cayd.conf' is larger than the 1 MiB that is read");
}

static void variables_are_read_and_others_left_alone(void **state)
{
    struct fixture *fixture = *state;
    assert_true(load_variables(
        fixture, VARIABLES("PATH=/bin", "CAY_LISTEN=[::]:1", "CAY_URL=x", "CAY_API_KEY=y",
                           "CAYENNE=hot", "CAY_MAX_SESSIONS=7", "CAY_STORE=", "CAY_CONFIG=/c")));
    assert_string_equal(fixture->target.listen, "[::]:1");
    assert_int_equal(fixture->target.max_sessions, 7);
    assert_int_equal(fixture->target.store, 0);
    assert_string_equal(fixture->target.config, "/c");
}

static void a_mistake_in_the_environment_names_the_variable(void **state)
{
    static const struct {
        const char *variable;
        const char *want;
    } cases[] = {
        {"CAY_LISEN=x",
         "unknown variable 'CAY_LISEN' in the environment; did you mean 'CAY_LISTEN'?"},
        {"CAY_listen=x",
         "unknown variable 'CAY_listen' in the environment; did you mean 'CAY_LISTEN'?"},
        {"CAY_APIKEY=x",
         "unknown variable 'CAY_APIKEY' in the environment; did you mean 'CAY_API_KEY'?"},
        {"CAY_=x", "unknown variable 'CAY_' in the environment"},
        {"CAY_MAX_SESSIONS=-1",
         "CAY_MAX_SESSIONS is '-1'; it must be a whole number from 1 to 10000"},
        {"CAY_HELP=1", "help cannot be set by the environment; use --help"},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        struct fixture *fixture = *state;
        assert_false(load_variables(fixture, VARIABLES(cases[i].variable)));
        assert_string_equal(sentence(fixture), cases[i].want);
    }
}

static void flags_land_in_the_target(void **state)
{
    struct fixture *fixture = *state;
    const struct target *target = &fixture->target;
    int rest = 0;
    assert_true(load_words(fixture, &rest, "--max-sessions", "7", "--disk=2G", "-l", "a:1", "--tls",
                           "--no-color", "--allow", "x", "--allow=y,z", "-h", "--", "--word"));
    assert_int_equal(rest, 13);
    assert_int_equal(target->max_sessions, 7);
    assert_true(target->disk == UINT64_C(2) << 30);
    assert_string_equal(target->listen, "a:1");
    assert_true(target->tls);
    assert_false(target->color);
    assert_true(target->help);
    assert_int_equal(target->allow.count, 3);
    assert_string_equal(target->allow.items[2], "z");
    assert_true(load_words(fixture, &rest, "--tls=false", "-", "--tls"));
    assert_int_equal(rest, 2);
    assert_false(target->tls);
}

static void assert_flag_fails(struct fixture *fixture, const char *word, const char *want)
{
    int rest = 42;
    assert_false(load_words(fixture, &rest, word));
    assert_string_equal(sentence(fixture), want);
    assert_int_equal(rest, 42);
}

static void a_mistake_in_a_flag_names_the_flag(void **state)
{
    struct fixture *fixture = *state;
    assert_flag_fails(fixture, "--lisen", "unknown flag '--lisen'; did you mean '--listen'?");
    assert_flag_fails(fixture, "--lisen=secret",
                      "unknown flag '--lisen'; did you mean '--listen'?");
    assert_flag_fails(fixture, "--max_sessions=1",
                      "unknown flag '--max_sessions'; did you mean '--max-sessions'?");
    assert_flag_fails(fixture, "--no-listen",
                      "unknown flag '--no-listen'; did you mean '--listen'?");
    assert_flag_fails(fixture, "-z", "unknown flag '-z'; --help lists them");
    assert_flag_fails(fixture, "--listen", "--listen needs a value: ADDR");
    assert_flag_fails(fixture, "--max-sessions=x",
                      "--max-sessions is 'x'; it must be a whole number from 1 to 10000");
    assert_flag_fails(fixture, "--tls=x", "--tls is 'x'; it must be true or false");
    assert_flag_fails(fixture, "--=x", "unknown flag '--'; --help lists them");
}

static void a_higher_source_wins_whatever_is_read_first(void **state)
{
    struct fixture *fixture = *state;
    const struct target *target = &fixture->target;
    int rest = 0;
    assert_true(load_words(fixture, &rest, "--listen", "flag", "--allow", "flag"));
    assert_true(load_variables(fixture, VARIABLES("CAY_LISTEN=env", "CAY_NAME=env")));
    assert_true(load_text(fixture, "listen = file\nname = file\nstore = btrfs\nallow = file\n"));
    assert_string_equal(target->listen, "flag");
    assert_string_equal(target->name, "env");
    assert_int_equal(target->store, 2);
    assert_int_equal(target->allow.count, 1);
    assert_string_equal(target->allow.items[0], "flag");
    assert_int_equal(cay_conf_source_of(&fixture->conf, "listen"), CAY_CONF_FLAG);
    assert_int_equal(cay_conf_source_of(&fixture->conf, "name"), CAY_CONF_ENVIRONMENT);
    assert_int_equal(cay_conf_source_of(&fixture->conf, "store"), CAY_CONF_FILE);
    /* What loses is still checked, also for being written twice. */
    assert_false(load_text(fixture, "listen = a\nlisten = b\n"));
    assert_false(load_variables(fixture, VARIABLES("CAY_STORE=zfs")));
}

static void lists_have_a_limit(void **state)
{
    struct fixture *fixture = *state;
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, 1 << 16);
    for (unsigned i = 0; i < CAY_CONF_LIST_ITEMS_MAX; i++)
        cay_buf_printf(&text, "allow = %u\n", i);
    assert_true(load_bytes(fixture, cay_buf_str(&text)));
    assert_int_equal(fixture->target.allow.count, CAY_CONF_LIST_ITEMS_MAX);
    assert_false(load_text(fixture, "allow = more\n"));
    assert_string_equal(sentence(fixture), "allow has more than 256 items");
}

#define CONF_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONF_TEST(fallbacks_fill_every_type),
        CONF_TEST(a_file_sets_every_type),
        CONF_TEST(an_empty_value_is_empty_text_or_an_empty_list),
        CONF_TEST(a_mistake_in_the_file_names_its_line_and_the_remedy),
        CONF_TEST(a_zero_byte_or_too_long_a_value_is_refused),
        CONF_TEST(a_secret_is_not_shown_in_errors),
        CONF_TEST(the_file_must_be_regular_and_small),
        CONF_TEST(variables_are_read_and_others_left_alone),
        CONF_TEST(a_mistake_in_the_environment_names_the_variable),
        CONF_TEST(flags_land_in_the_target),
        CONF_TEST(a_mistake_in_a_flag_names_the_flag),
        CONF_TEST(a_higher_source_wins_whatever_is_read_first),
        CONF_TEST(lists_have_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
