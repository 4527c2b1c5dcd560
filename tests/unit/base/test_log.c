/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"

static struct cay_buf logged;

static void keep(void *data, struct cay_str line)
{
    struct cay_buf *buf = data;
    cay_buf_append_str(buf, line);
}

static int begin(void **)
{
    cay_buf_init(&logged, 1 << 20);
    cay_log_setup(&(struct cay_log_options){});
    cay_log_set_sink(keep, &logged);
    return 0;
}

static int end(void **)
{
    cay_log_set_sink(NULL, NULL);
    cay_buf_finish(&logged);
    return 0;
}

/* The text logged since the last call, from `level=` (logfmt) or `"level"` (JSON) on. */
static const char *take_line(void)
{
    cay_buf_append_byte(&logged, '\0');
    static char text[2 * CAY_LOG_LINE_BYTES_MAX];
    const char *start = strstr(logged.data, "level");
    assert_non_null(start);
    if (start > logged.data && start[-1] == '"')
        start--;
    snprintf(text, sizeof(text), "%s", start);
    cay_buf_clear(&logged, 0);
    return text;
}

static void use_json(void)
{
    cay_log_setup(&(struct cay_log_options){.format = CAY_LOG_JSON});
}

static void every_type_has_its_form_in_logfmt(void **)
{
    cay_log(CAY_INFO, "session.created");
    assert_string_equal(take_line(), "level=info event=session.created\n");
    cay_log(CAY_WARN, "e", CAY_S("id", "abc"), CAY_S("path", CAY_STR("/a/b")), CAY_U("n", 42u),
            CAY_I("i", -7), CAY_F("f", 0.25), CAY_B("yes", true), CAY_B("no", false),
            CAY_D("took", 1'234'567));
    assert_string_equal(take_line(),
                        "level=warn event=e id=abc path=/a/b n=42 i=-7 f=0.25 yes=true "
                        "no=false took=1.23ms\n");
    cay_log(CAY_INFO, "e", CAY_U("max", UINT64_MAX), CAY_I("min", INT64_MIN));
    assert_string_equal(take_line(),
                        "level=info event=e max=18446744073709551615 min=-9223372036854775808\n");
}

static void every_type_has_its_form_in_json(void **)
{
    use_json();
    cay_log(CAY_WARN, "e", CAY_S("id", "abc"), CAY_U("n", 42u), CAY_I("i", -7), CAY_F("f", 0.25),
            CAY_F("nan", (double)NAN), CAY_B("yes", true), CAY_D("took", 1'234'567));
    assert_string_equal(take_line(),
                        "\"level\":\"warn\",\"event\":\"e\",\"id\":\"abc\",\"n\":42,\"i\":-7,"
                        "\"f\":0.25,\"nan\":null,\"yes\":true,\"took_ns\":1234567}\n");
}

static void an_error_becomes_its_parts(void **)
{
    struct cay_error err = {};
    cay_fail_errno(&err, CAY_R_NO_SPACE, -ENOSPC, "write 'x'");
    cay_log(CAY_ERROR, "call.failed", CAY_ERR(&err));
    assert_string_equal(take_line(), "level=error event=call.failed reason=no_space "
                                     "error=\"write 'x': No space left on device\" errno=ENOSPC\n");
}

static void a_secret_is_never_shown(void **)
{
    cay_auto(cay_secret_finish) struct cay_secret secret = {};
    cay_secret_set(&secret, CAY_STR("hunter2"));
    const struct cay_secret *borrowed = &secret;
    cay_log(CAY_INFO, "e", CAY_S("key", &secret), CAY_S("same", borrowed));
    assert_string_equal(take_line(), "level=info event=e key=*** same=***\n");
    use_json();
    cay_log(CAY_INFO, "e", CAY_S("key", &secret));
    assert_string_equal(take_line(), "\"level\":\"info\",\"event\":\"e\",\"key\":\"***\"}\n");
}

static void assert_shown(struct cay_str value, const char *want)
{
    char line[256];
    snprintf(line, sizeof(line), "level=info event=e v=%s\n", want);
    cay_log(CAY_INFO, "e", CAY_S("v", value));
    assert_string_equal(take_line(), line);
}

static void a_hostile_value_cannot_forge_anything_in_logfmt(void **)
{
    assert_shown(CAY_STR(""), "\"\"");
    assert_shown((struct cay_str){}, "\"\"");
    assert_shown(CAY_STR("a b"), "\"a b\"");
    assert_shown(CAY_STR("a=b"), "\"a=b\"");
    assert_shown(CAY_STR("x\nlevel=error event=forged"), "\"x\\nlevel=error event=forged\"");
    assert_shown(CAY_STR("\r\t\"\\"), "\"\\r\\t\\\"\\\\\"");
    assert_shown(CAY_STR("\x1b[31mred"), "\"\\x1b[31mred\"");
    assert_shown((struct cay_str){"a\0b", 3}, "\"a\\x00b\"");
    assert_shown(CAY_STR("\x7f"), "\"\\x7f\"");
    /* A C1 control, a direction override, a zero-width space, a line separator, a tag. */
    assert_shown(CAY_STR("\xC2\x9B"
                         "31m"),
                 "\"\\u009b31m\"");
    assert_shown(CAY_STR("\xE2\x80\xAE"), "\"\\u202e\"");
    assert_shown(CAY_STR("\xE2\x80\x8B"), "\"\\u200b\"");
    assert_shown(CAY_STR("\xE2\x80\xA8"), "\"\\u2028\"");
    assert_shown(CAY_STR("\xF3\xA0\x81\x81"), "\"\\U000e0041\"");
    /* Letters stay letters. */
    assert_shown(CAY_STR("\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80"),
                 "\"\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80\"");
}

static void bytes_that_are_not_utf8_are_escaped_one_by_one(void **)
{
    assert_shown(CAY_STR("\xFF"), "\"\\xff\"");
    assert_shown(CAY_STR("\x9B"), "\"\\x9b\"");
    assert_shown(CAY_STR("\xC3"), "\"\\xc3\"");
    assert_shown(CAY_STR("\xC0\x8A"), "\"\\xc0\\x8a\"");
    assert_shown(CAY_STR("\xE0\x80\x8A"), "\"\\xe0\\x80\\x8a\"");
    assert_shown(CAY_STR("\xED\xA0\x80"), "\"\\xed\\xa0\\x80\"");
    assert_shown(CAY_STR("\xF4\x90\x80\x80"), "\"\\xf4\\x90\\x80\\x80\"");
    assert_shown(CAY_STR("\xE2\x82z"), "\"\\xe2\\x82z\"");
}

static void a_hostile_value_stays_one_json_string(void **)
{
    use_json();
    cay_log(CAY_INFO, "e",
            CAY_S("v", (struct cay_str){"\"}\n\\\x1b\0\xC2\x9B\xF3\xA0\x81\x81\xFF", 13}));
    assert_string_equal(take_line(),
                        "\"level\":\"info\",\"event\":\"e\",\"v\":"
                        "\"\\\"}\\n\\\\\\u001b\\u0000\\u009b\\udb40\\udc41\\ufffd\"}\n");
}

static void a_long_value_is_cut_and_the_fields_after_it_are_kept(void **)
{
    char text[5000];
    memset(text, 'x', sizeof(text));
    cay_log(CAY_INFO, "e", CAY_S("v", ((struct cay_str){text, sizeof(text)})), CAY_S("id", "a"));
    const char *line = take_line();
    assert_in_range(strlen(line), CAY_LOG_VALUE_BYTES_MAX, CAY_LOG_VALUE_BYTES_MAX + 100);
    assert_non_null(strstr(line, "x id=a cut=true\n"));
}

/* Twenty values of 2 KiB, of characters that make the escapes straddle every border. */
static void log_too_much(size_t shift)
{
    char text[3000];
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = "\x1b\xE2\x82\xAC\"a"[(i + shift) % 6];
    struct cay_str v = {text, sizeof(text) - shift * 100};
    cay_log(CAY_INFO, "e", CAY_S("a", v), CAY_S("b", v), CAY_S("c", v), CAY_S("d", v),
            CAY_S("e", v), CAY_U("last", 1u));
}

static void a_long_line_is_cut_and_says_so(void **)
{
    for (size_t shift = 0; shift < 20; shift++) {
        log_too_much(shift);
        assert_true(logged.len <= CAY_LOG_LINE_BYTES_MAX);
        assert_true(logged.len > CAY_LOG_LINE_BYTES_MAX - 400);
        const char *line = take_line();
        assert_string_equal(line + strlen(line) - 11, "\" cut=true\n");
        assert_null(strstr(line, "last"));
        use_json();
        log_too_much(shift);
        line = take_line();
        assert_string_equal(line + strlen(line) - 14, "\",\"cut\":true}\n");
        cay_log_setup(&(struct cay_log_options){});
    }
}

static void levels_below_the_smallest_are_neither_written_nor_evaluated(void **)
{
    unsigned evaluated = 0;
    cay_log(CAY_DEBUG, "e", CAY_U("n", ++evaluated));
    assert_int_equal(evaluated, 0);
    assert_int_equal(logged.len, 0);
    cay_log_set_level(CAY_DEBUG);
    cay_log(CAY_DEBUG, "e", CAY_U("n", ++evaluated));
    assert_string_equal(take_line(), "level=debug event=e n=1\n");
    cay_log_set_level(CAY_ERROR);
    cay_log(CAY_WARN, "e");
    assert_int_equal(logged.len, 0);
}

static void a_line_begins_with_the_time_and_errno_is_kept(void **)
{
    int64_t before = cay_clock_wall_ns();
    errno = EBUSY;
    cay_log(CAY_INFO, "e", CAY_S("v", "a"));
    assert_int_equal(errno, EBUSY);
    int64_t wall_ns = 0;
    assert_memory_equal(logged.data, "time=", 5);
    assert_int_equal(cay_time_parse((struct cay_str){logged.data + 5, 24}, &wall_ns), 0);
    assert_true(wall_ns >= before - CAY_NS_PER_MS && wall_ns <= cay_clock_wall_ns());
    use_json();
    cay_buf_clear(&logged, 0);
    cay_log(CAY_INFO, "e");
    assert_memory_equal(logged.data, "{\"time\":\"2", 10);
}

/* Runs `body` with standard error pointing at `fd`, then reads from `from` what it wrote. */
static size_t capture(int fd, int from, void (*body)(void), char *out, size_t size)
{
    cay_log_set_sink(NULL, NULL);
    cay_autoclose int saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
    body();
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    ssize_t got = read(from, out, size - 1);
    assert_true(got > 0);
    out[got] = '\0';
    return (size_t)got;
}

static void log_to_the_journal(void)
{
    struct stat status;
    assert_int_equal(fstat(STDERR_FILENO, &status), 0);
    char stream[64];
    snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)status.st_dev,
             (unsigned long long)status.st_ino);
    setenv("JOURNAL_STREAM", stream, 1);
    cay_log_setup(&(struct cay_log_options){});
    cay_log(CAY_WARN, "e");
    snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)status.st_dev,
             (unsigned long long)status.st_ino + 1);
    setenv("JOURNAL_STREAM", stream, 1);
    cay_log_setup(&(struct cay_log_options){});
    cay_log(CAY_WARN, "e");
    unsetenv("JOURNAL_STREAM");
}

static void the_journal_gets_a_priority_and_only_the_journal(void **)
{
    int pipe_fds[2];
    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
    char text[512];
    capture(pipe_fds[1], pipe_fds[0], log_to_the_journal, text, sizeof(text));
    static const char want[] = "<4>level=warn event=e\ntime=";
    assert_memory_equal(text, want, sizeof(want) - 1);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

static void log_to_a_terminal(void)
{
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    cay_log_setup(&(struct cay_log_options){});
    cay_log(CAY_ERROR, "e", CAY_S("v", "\x1b]0;title"));
}

static void log_to_a_terminal_without_colour(void)
{
    setenv("NO_COLOR", "1", 1);
    cay_log_setup(&(struct cay_log_options){});
    cay_log(CAY_ERROR, "e");
    unsetenv("NO_COLOR");
}

static void a_terminal_gets_colour_but_no_sequence_of_a_value(void **)
{
    cay_autoclose int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0) {
        print_message("no pseudo-terminals on this machine\n");
        skip();
    }
    char name[64];
    assert_int_equal(ptsname_r(master, name, sizeof(name)), 0);
    cay_autoclose int terminal = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(terminal >= 0);
    char text[512];
    capture(terminal, master, log_to_a_terminal, text, sizeof(text));
    assert_non_null(strstr(text, "\x1b[31merror\x1b[0m"));
    assert_non_null(strstr(text, "\"\\x1b]0;title\""));
    assert_null(strstr(text, "\x1b]"));
    capture(terminal, master, log_to_a_terminal_without_colour, text, sizeof(text));
    assert_null(strchr(text, '\x1b'));
}

enum { THREADS = 4, LINES = 500 };

static void *log_many(void *text)
{
    for (unsigned i = 0; i < LINES; i++)
        cay_log(CAY_INFO, "e", CAY_S("v", (const char *)text));
    return NULL;
}

static void lines_of_many_threads_stay_whole(void **)
{
    char template[] = "/tmp/cay-test-log-XXXXXX";
    cay_autoclose int file = mkostemp(template, O_CLOEXEC | O_APPEND);
    assert_true(file >= 0);
    unlink(template);
    cay_log_set_sink(NULL, NULL);
    cay_autoclose int saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    assert_int_equal(dup2(file, STDERR_FILENO), STDERR_FILENO);
    static char texts[THREADS][1501];
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        memset(texts[i], (int)('a' + i), sizeof(texts[i]) - 1);
        assert_int_equal(pthread_create(&threads[i], NULL, log_many, texts[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);

    assert_int_equal(lseek(file, 0, SEEK_SET), 0);
    FILE *lines = fdopen(cay_take_fd(file), "r");
    assert_non_null(lines);
    size_t count = 0;
    char line[2000];
    for (; fgets(line, sizeof(line), lines); count++) {
        const char *value = strstr(line, " v=");
        assert_non_null(value);
        assert_memory_equal(value + 3, texts[value[3] - 'a'], 1500);
        assert_string_equal(value + 3 + 1500, "\n");
    }
    fclose(lines);
    assert_int_equal(count, THREADS * LINES);
}

#define LOG_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOG_TEST(every_type_has_its_form_in_logfmt),
        LOG_TEST(every_type_has_its_form_in_json),
        LOG_TEST(an_error_becomes_its_parts),
        LOG_TEST(a_secret_is_never_shown),
        LOG_TEST(a_hostile_value_cannot_forge_anything_in_logfmt),
        LOG_TEST(bytes_that_are_not_utf8_are_escaped_one_by_one),
        LOG_TEST(a_hostile_value_stays_one_json_string),
        LOG_TEST(a_long_value_is_cut_and_the_fields_after_it_are_kept),
        LOG_TEST(a_long_line_is_cut_and_says_so),
        LOG_TEST(levels_below_the_smallest_are_neither_written_nor_evaluated),
        LOG_TEST(a_line_begins_with_the_time_and_errno_is_kept),
        LOG_TEST(the_journal_gets_a_priority_and_only_the_journal),
        LOG_TEST(a_terminal_gets_colour_but_no_sequence_of_a_value),
        LOG_TEST(lines_of_many_threads_stay_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
