/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/secret.h"

struct target {
    char *listen;
    char *config;
    char *motd;
    struct cay_secret token;
    bool tls;
    bool color;
    int64_t max_sessions;
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
    {CAY_CONF_FIELD(struct target, motd), .type = CAY_CONF_STRING, .help = "A word of welcome."},
    {CAY_CONF_FIELD(struct target, token), .type = CAY_CONF_SECRET,
     .sources = CAY_CONF_FILE | CAY_CONF_ENVIRONMENT, .help = "Shared secret."},
    {CAY_CONF_FIELD(struct target, tls), .type = CAY_CONF_BOOL, .fallback = "false",
     .help = "Whether to encrypt."},
    {CAY_CONF_FIELD(struct target, color), .type = CAY_CONF_BOOL, .fallback = "true",
     .help = "Whether to colour."},
    {CAY_CONF_FIELD(struct target, max_sessions), .type = CAY_CONF_INTEGER, .min = 1, .max = 10'000,
     .fallback = "64",
     .help = "How many sessions may exist at once. Creating one more fails with "
             "max_sessions_reached | nothing *else* changes."},
    {CAY_CONF_FIELD(struct target, store), .type = CAY_CONF_ENUM, .choices = stores,
     .fallback = "auto", .help = "Where snapshots live."},
    {CAY_CONF_FIELD(struct target, allow), .type = CAY_CONF_LIST, .fallback = "a, b",
     .help = "Who may come in."},
};

static const char *const variables[] = {"CAY_TOKEN=hunter2", "CAY_MOTD= say \"hi\" # now\x1b\n",
                                        NULL};

static const char *text_of(struct cay_buf *buf)
{
    cay_buf_append_byte(buf, '\0');
    assert_false(buf->failed);
    return buf->data;
}

static void the_configuration_in_effect_shows_where_values_come_from(void **)
{
    struct target target;
    struct cay_error err;
    cay_auto(cay_conf_finish) struct cay_conf conf;
    cay_conf_init(&conf, entries, CAY_COUNT(entries), &target, sizeof(target));
    assert_true(cay_conf_load_environment(&conf, variables, NULL, &err));
    int rest = 0;
    const char *const words[] = {"cayd", "--max-sessions", "7", "--allow=x y,#z"};
    assert_true(cay_conf_load_flags(&conf, CAY_COUNT(words), words, &rest, &err));
    cay_auto(cay_buf_finish) struct cay_buf out;
    cay_buf_init(&out, 1 << 16);
    cay_conf_print(&conf, &out);
    assert_string_equal(text_of(&out),
                        "listen = 127.0.0.1:4747                     # default\n"
                        "motd = \" say \\\"hi\\\" # now?"
                        "?\"                # CAY_MOTD\n"
                        "# token = ***                               # CAY_TOKEN\n"
                        "tls = false                                 # default\n"
                        "color = true                                # default\n"
                        "max_sessions = 7                            # --max-sessions\n"
                        "store = auto                                # default\n"
                        "allow = \"x y, #z\"                           # --allow\n");
}

static void what_is_printed_can_be_loaded(void **)
{
    struct target target;
    struct target again;
    struct cay_error err;
    int rest = 0;
    cay_auto(cay_conf_finish) struct cay_conf conf;
    cay_auto(cay_conf_finish) struct cay_conf copy;
    cay_conf_init(&conf, entries, CAY_COUNT(entries), &target, sizeof(target));
    cay_conf_init(&copy, entries, CAY_COUNT(entries), &again, sizeof(again));
    const char *const words[] = {"cayd", "--motd", " \\ \"#\" # ",
                                 "--listen=", "--allow=#a, b \" c"};
    assert_true(cay_conf_load_flags(&conf, CAY_COUNT(words), words, &rest, &err));

    cay_auto(cay_buf_finish) struct cay_buf out;
    cay_buf_init(&out, 1 << 16);
    cay_conf_print(&conf, &out);
    char path[] = "/tmp/cay-test-conf-XXXXXX";
    cay_autoclose int fd = mkostemp(path, O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, out.data, out.len), out.len);
    bool loaded = cay_conf_load_file(&copy, path, &err);
    unlink(path);
    assert_true(loaded);
    assert_string_equal(again.motd, target.motd);
    assert_string_equal(again.listen, "");
    assert_int_equal(again.allow.count, 2);
    assert_string_equal(again.allow.items[0], "#a");
    assert_string_equal(again.allow.items[1], "b \" c");

    cay_buf_clear(&out, 0);
    cay_conf_print(&copy, &out);
    char source[sizeof(path) + 8];
    snprintf(source, sizeof(source), "# %s:1\n", path);
    assert_non_null(strstr(text_of(&out), source));
}

static void help_lists_every_flag(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf out;
    cay_buf_init(&out, 1 << 16);
    cay_conf_print_help(entries, CAY_COUNT(entries), &out);
    assert_string_equal(
        text_of(&out),
        "  -l, --listen ADDR             Address and port to serve on. (default\n"
        "                                127.0.0.1:4747)\n"
        "      --config FILE             The file to read.\n"
        "      --motd TEXT               A word of welcome.\n"
        "      --tls                     Whether to encrypt.\n"
        "      --[no-]color              Whether to colour. (default true)\n"
        "      --max-sessions NUMBER     How many sessions may exist at once. Creating\n"
        "                                one more fails with max_sessions_reached |\n"
        "                                nothing *else* changes. (default 64)\n"
        "      --store CHOICE            Where snapshots live. One of auto, overlay or\n"
        "                                btrfs. (default auto)\n"
        "      --allow LIST              Who may come in. (default a, b)\n");
}

static void the_manual_is_made_of_the_table(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf out;
    cay_buf_init(&out, 1 << 16);
    cay_conf_print_scdoc(entries, CAY_COUNT(entries), &out);
    const char *text = text_of(&out);
    assert_non_null(strstr(text, "*listen* = _ADDR_\n\tAddress and port to serve on.\n\n"
                                 "\tDefault: 127.0.0.1:4747. Flag: *--listen*. "
                                 "Environment: *CAY\\_LISTEN*.\n\n"));
    assert_non_null(strstr(text, "*max\\_sessions* = _NUMBER_\n"));
    assert_non_null(strstr(text, "max\\_sessions\\_reached | nothing \\*else\\* changes.\n"));
    assert_non_null(strstr(text, "*token* = _SECRET_\n\tShared secret.\n\n\t"
                                 "Environment: *CAY\\_TOKEN*.\n"));
    assert_non_null(strstr(text, "\n\n\tOne of auto, overlay or btrfs. Default: auto. Flag: "));
    assert_null(strstr(text, "*config*"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_configuration_in_effect_shows_where_values_come_from),
        cmocka_unit_test(what_is_printed_can_be_loaded),
        cmocka_unit_test(help_lists_every_flag),
        cmocka_unit_test(the_manual_is_made_of_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
