/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bin/cayd_conf.h"

struct fixture {
    struct cayd_conf values;
    struct cay_conf conf;
    char path[64];
};

/* Only our own variables go: cmocka reads its output format from the environment, too. */
static void clear_cay_variables(void)
{
    for (char **at = environ; *at;) {
        char name[64];
        const char *end = strchr(*at, '=');
        snprintf(name, sizeof(name), "%.*s", end ? (int)(end - *at) : 0, *at);
        if (strncmp(name, "CAY_", 4) == 0) {
            unsetenv(name);
            at = environ;
        } else {
            at++;
        }
    }
}

static int setup(void **state)
{
    struct fixture *self = cay_new(struct fixture);
    clear_cay_variables();
    cay_conf_init(&self->conf, cayd_conf_entries, cayd_conf_entry_count, &self->values,
                  sizeof(self->values));
    snprintf(self->path, sizeof(self->path), "/tmp/cay-test-XXXXXX");
    int fd = mkstemp(self->path);
    assert_true(fd >= 0);
    close(fd);
    *state = self;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *self = *state;
    cay_conf_finish(&self->conf);
    unlink(self->path);
    free(self);
    return 0;
}

static void write_file(const struct fixture *self, const char *text)
{
    FILE *file = fopen(self->path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static bool load(struct fixture *self, struct cay_error *err, const char *one, const char *two,
                 const char *three, const char *four)
{
    const char *const argv[] = {"cayd", one, two, three, four, NULL};
    int argc = 1;
    while (argv[argc])
        argc++;
    return cayd_conf_load(&self->conf, &self->values, argc, argv, err);
}

static void defaults_are_those_of_the_manual(void **state)
{
    struct fixture *self = *state;
    struct cay_error err = {};
    /* Whatever this machine has in /etc does not count. */
    assert_true(load(self, &err, "--config", self->path, NULL, NULL));
    assert_string_equal(self->values.host.data_dir, "/var/lib/cay");
    assert_string_equal(self->values.host.run_dir, "/run/cay");
    assert_int_equal(self->values.listen.count, 1);
    assert_string_equal(self->values.listen.items[0], "127.0.0.1:4747");
    assert_int_equal(self->values.server.head_timeout_ms, 10000);
    assert_int_equal(self->values.server.idle_timeout_ms, 120000);
    assert_false(self->values.insecure_no_auth);
    assert_null(self->values.tls_cert);
}

static void flags_win_over_the_environment_and_that_over_the_file(void **state)
{
    struct fixture *self = *state;
    struct cay_error err = {};
    write_file(self, "data = /file\nrun = /file\nmax_connections = 5\nlog_level = debug\n");
    setenv("CAY_DATA", "/environment", 1);
    setenv("CAY_RUN", "/environment", 1);
    setenv("CAY_CONFIG", self->path, 1);
    assert_true(load(self, &err, "--data", "/flag", NULL, NULL));
    assert_string_equal(self->values.host.data_dir, "/flag");
    assert_string_equal(self->values.host.run_dir, "/environment");
    assert_int_equal(self->values.max_connections, 5);
    assert_int_equal(self->values.log_level, 0);
}

static void listen_may_be_repeated(void **state)
{
    struct fixture *self = *state;
    struct cay_error err = {};
    write_file(self, "");
    setenv("CAY_CONFIG", self->path, 1);
    assert_true(load(self, &err, "--listen=127.0.0.1:0", "--listen", "[::1]:0", NULL));
    assert_int_equal(self->values.listen.count, 2);
    assert_string_equal(self->values.listen.items[1], "[::1]:0");
}

static void mistakes_get_a_sentence(void **state)
{
    struct fixture *self = *state;
    static const struct {
        const char *flag;
        const char *value;
        const char *says;
    } cases[] = {
        {"--dta", "/x", "--data"},
        {"--max-connections", "0", "max-connections"},
        {"--max-connections", "many", "max-connections"},
        {"--head-timeout", "5", "head-timeout"},
        {"--idle-timeout", "-1s", "idle-timeout"},
        {"--log-level", "loud", "debug"},
        {"--data", "", "data"},
        {"--data", NULL, "data"},
        {"serve", NULL, "takes no arguments"},
        {"--config", "/nonexistent/cayd.conf", "/nonexistent/cayd.conf"},
        {"--config", "/tmp", "not a regular file"},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        struct cay_error err = {};
        write_file(self, "");
        cay_conf_finish(&self->conf);
        cay_conf_init(&self->conf, cayd_conf_entries, cayd_conf_entry_count, &self->values,
                      sizeof(self->values));
        if (load(self, &err, cases[i].flag, cases[i].value, NULL, NULL) ||
            !strstr(err.text, cases[i].says))
            print_error("case %zu: %s\n", i, err.text);
        assert_non_null(strstr(err.text, cases[i].says));
    }
}

static void an_unknown_key_names_the_nearest(void **state)
{
    struct fixture *self = *state;
    struct cay_error err = {};
    write_file(self, "\nmax_conections = 5\n");
    assert_false(load(self, &err, "-c", self->path, NULL, NULL));
    assert_non_null(strstr(err.text, "max_connections"));
    assert_non_null(strstr(err.text, ":2"));
    setenv("CAY_DATTA", "/x", 1);
    assert_false(load(self, &err, NULL, NULL, NULL, NULL));
    assert_non_null(strstr(err.text, "CAY_DATA"));
}

static void variables_of_the_client_are_left_alone(void **state)
{
    struct fixture *self = *state;
    struct cay_error err = {};
    write_file(self, "");
    setenv("CAY_URL", "http://x", 1);
    setenv("CAY_API_KEY", "cay_x", 1);
    setenv("CAY_CONFIG", self->path, 1);
    assert_true(load(self, &err, NULL, NULL, NULL, NULL));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(defaults_are_those_of_the_manual),
        CASE(flags_win_over_the_environment_and_that_over_the_file),
        CASE(listen_may_be_repeated),
        CASE(mistakes_get_a_sentence),
        CASE(an_unknown_key_names_the_nearest),
        CASE(variables_of_the_client_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
