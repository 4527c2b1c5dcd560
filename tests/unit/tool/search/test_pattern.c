/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/stop.h"
#include "tool/search/pattern.h"
#include "tool/search/pattern_internal.h"

static uint32_t seed = 12345;

static uint32_t next_random(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static void literals_are_found_where_they_first_stand(void **)
{
    static const char letters[] = "abAB_ \n";
    for (int round = 0; round < 20000; round++) {
        char text[200];
        char word[12];
        size_t text_len = next_random(sizeof(text));
        size_t word_len = 1 + next_random(sizeof(word) - 1);
        for (size_t i = 0; i < text_len; i++)
            text[i] = letters[next_random(sizeof(letters) - 1)];
        for (size_t i = 0; i < word_len; i++)
            word[i] = letters[next_random(round % 3 ? 2 : sizeof(letters) - 1)];
        /* Mallocs of the exact size let the sanitizer see every byte read beyond the end. */
        char *exact = malloc(text_len + 1);
        assert_non_null(exact);
        memcpy(exact, text, text_len);
        bool caseless = round % 2;
        struct cay_literal literal;
        cay_literal_init(&literal, (struct cay_str){word, word_len}, caseless);
        const char *found = cay_literal_find(&literal, exact, text_len);
        const char *expected = NULL;
        for (size_t at = 0; !expected && at + word_len <= text_len; at++) {
            struct cay_str part = {exact + at, word_len};
            struct cay_str whole = {word, word_len};
            if (caseless ? cay_str_equal_nocase(part, whole) : cay_str_equal(part, whole))
                expected = exact + at;
        }
        assert_ptr_equal(found, expected);
        free(exact);
    }
}

static void required_strings_are_read_from_expressions(void **)
{
    static const struct {
        const char *pattern, *required;
        bool exact, one_line;
    } cases[] = {
        {"pthread_mutex_lock", "pthread_mutex_lock", true, true},
        {"static inline [a-z_]+ \\*?[a-z_]+_init\\(", "static inline ", false, true},
        {"[A-Z]+_SUSPEND", "_SUSPEND", false, true},
        {"\\bvoid\\s+\\w+\\s*\\(", "void", false, false},
        {"ab?c", "c", false, true},
        {"abc*", "ab", false, true},
        {"ab+c", "ab", false, true},
        {"foo|bar", "", false, true},
        {"x(foo|bar)yz", "yz", false, true},
        {"x(?:foo)?", "x", false, true},
        {"(foo)+", "foo", false, true},
        {"(foo){0,3}z", "z", false, true},
        {"a.b", "b", false, true},
        {"a\\.b", "a.b", true, true},
        {"^abc$", "abc", false, true},
        {"[^x]y", "y", false, false},
        {"((a|b)long)", "long", false, true},
        {"a{2}", "a", false, true},
        {"\\t=", "\t=", true, true},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        struct cay_pattern_facts facts;
        cay_pattern_read(cay_str(cases[i].pattern), false, &facts);
        bool right =
            facts.known && facts.exact == cases[i].exact && facts.one_line == cases[i].one_line &&
            cay_str_is((struct cay_str){facts.required, facts.required_len}, cases[i].required);
        if (!right)
            fail_msg("%s: known %d exact %d one_line %d required '%.*s'", cases[i].pattern,
                     facts.known, facts.exact, facts.one_line, (int)facts.required_len,
                     facts.required);
    }
}

static void what_is_not_understood_is_left_to_the_engine(void **)
{
    static const char *const strange[] = {
        "(?=a)b",      "a(?i)b",       "(?x) a", "\\Qa\\E", "a++b",
        "(?<n>a)",     "[[:alpha:]]x", "\\x41",  "a{x",     "(*UTF)a",
        "(?#comment)", "\\1",          "\\Aab",  "ab\\z",   "(a"};
    for (size_t i = 0; i < CAY_COUNT(strange); i++) {
        struct cay_pattern_facts facts;
        cay_pattern_read(cay_str(strange[i]), false, &facts);
        if (facts.known)
            fail_msg("%s was taken as known", strange[i]);
    }
}

/* Numbers of the lines that match. */
static size_t search(struct cay_pattern *pattern, struct cay_str text, size_t *lines, size_t max)
{
    struct cay_matcher matcher;
    assert_true(cay_matcher_init(&matcher, pattern, INT64_MAX));
    size_t count = 0;
    size_t start = 0;
    size_t end = 0;
    for (size_t from = 0; count < max && cay_matcher_next(&matcher, text, from, &start, &end);
         from = end + 1)
        lines[count++] = start;
    cay_matcher_finish(&matcher);
    return count;
}

static void all_ways_of_searching_find_the_same_lines(void **)
{
    static const char *const patterns[] = {
        "ab",     "(?i)ab",   "a+b",    "a*",       "^a",         "b$",       "^$",
        "[ab]c",  "(a|b)c",   "(ab)?c", "a.c",      "\\bab\\b",   "a\\s*b",   "[^a]b",
        "x?",     "(ab|c)+b", "a{2,3}", "c\\W",     "(?:a(b)c)+", "\\w+ \\w", "k|s",
        "(?i)sk", "a.*b.*c",  "c?a",    "\xC3\xBC", "[\xC3\xBC]", ".\xC3",    "aab|bba",
    };
    static const char *const words[] = {"a", "b",  "c",  "ab",       "AB",
                                        " ", "\n", "\n", "\xC3\xBC", "\xC3",
                                        "k", "S",  "\t", "abc",      "\xE2\x84\xAA"};
    for (size_t i = 0; i < CAY_COUNT(patterns); i++) {
        for (int round = 0; round < 60; round++) {
            char text[400];
            size_t len = 0;
            for (size_t words_left = next_random(60); words_left; words_left--) {
                const char *word = words[next_random(CAY_COUNT(words))];
                memcpy(text + len, word, strlen(word));
                len += strlen(word);
            }
            struct cay_pattern pattern;
            char problem[200];
            struct cay_pattern_options options = {};
            if (0 != cay_pattern_compile(&pattern, cay_str(patterns[i]), &options, problem,
                                         sizeof(problem))) {
                /* Half a character is no expression. */
                assert_string_equal(patterns[i], ".\xC3");
                break;
            }
            size_t fast[400];
            size_t slow[400];
            size_t fast_count = search(&pattern, (struct cay_str){text, len}, fast, 400);
            pattern.kind = CAY_PATTERN_LINES;
            size_t slow_count = search(&pattern, (struct cay_str){text, len}, slow, 400);
            if (fast_count != slow_count || memcmp(fast, slow, fast_count * sizeof(size_t)) != 0)
                fail_msg("%s on '%.*s': %zu and %zu lines", patterns[i], (int)len, text, fast_count,
                         slow_count);
            cay_pattern_finish(&pattern);
        }
    }
}

static void a_literal_in_any_case_knows_more_letters_than_ascii(void **)
{
    /* The Kelvin sign is a k, the long s an s, as in the engine. */
    struct cay_pattern pattern;
    char problem[200];
    struct cay_pattern_options options = {.literal = true, .ignore_case = true};
    assert_int_equal(
        cay_pattern_compile(&pattern, CAY_STR("ok.x"), &options, problem, sizeof(problem)), 0);
    size_t lines[8];
    struct cay_str text = CAY_STR("ok.x\nokkx\nO\xE2\x84\xAA.X\n");
    assert_int_equal(search(&pattern, text, lines, 8), 2);
    assert_int_equal(lines[1], 10);
    cay_pattern_finish(&pattern);
}

static void no_expression_runs_away(void **)
{
    char text[4000];
    memset(text, 'a', sizeof(text));
    static const char *const evil[] = {
        "(a+)+$b",           "(a|aa)+\\z(?!.)c",      "(a*)*c\\1",
        "(.*)(.*)(.*)(.*)x", "(?:(?:a?){100}){100}b", "(?R)?a(?R)?c"};
    for (size_t i = 0; i < CAY_COUNT(evil); i++) {
        struct cay_pattern pattern;
        char problem[200];
        struct cay_pattern_options options = {};
        if (0 !=
            cay_pattern_compile(&pattern, cay_str(evil[i]), &options, problem, sizeof(problem)))
            continue;
        struct cay_matcher matcher;
        assert_true(cay_matcher_init(&matcher, &pattern, INT64_MAX));
        size_t start = 0;
        size_t end = 0;
        int64_t started = cay_clock_ms();
        assert_false(
            cay_matcher_next(&matcher, (struct cay_str){text, sizeof(text)}, 0, &start, &end));
        if (cay_clock_ms() - started > 3000)
            fail_msg("%s took %lld ms", evil[i], (long long)(cay_clock_ms() - started));
        cay_matcher_finish(&matcher);
        cay_pattern_finish(&pattern);
    }
}

static void a_search_ends_at_its_deadline(void **)
{
    enum { BYTES = 1024 * 1024, DEADLINE_MS = 200, GRACE_MS = 5000 };
    /* Each place of a line costs less than is allowed: a line of a megabyte very much. */
    static const char *const slow[] = {"a{0,200}a{0,200}[cd]", "(?s)a{0,200}a{0,200}[cd]"};
    cay_autofree char *text = cay_alloc(BYTES);
    for (size_t i = 0; i < 2 * CAY_COUNT(slow); i++) {
        memset(text, 'a', BYTES);
        for (size_t at = 999; i >= CAY_COUNT(slow) && at < BYTES; at += 1000)
            text[at] = '\n';
        struct cay_pattern pattern;
        char problem[200];
        struct cay_pattern_options options = {};
        assert_int_equal(cay_pattern_compile(&pattern, cay_str(slow[i % CAY_COUNT(slow)]), &options,
                                             problem, sizeof(problem)),
                         0);
        struct cay_matcher matcher;
        int64_t started = cay_clock_ms();
        assert_true(cay_matcher_init(&matcher, &pattern, started + DEADLINE_MS));
        size_t start = 0;
        size_t end = 0;
        assert_false(cay_matcher_next(&matcher, (struct cay_str){text, BYTES}, 0, &start, &end));
        assert_true(matcher.late);
        assert_in_range(cay_clock_ms() - started, DEADLINE_MS, GRACE_MS);
        cay_matcher_finish(&matcher);
        cay_pattern_finish(&pattern);
    }
}

/* Processor time of a thread: what the machine does for others meanwhile does not count. */
static int64_t cpu_ms(clockid_t clock)
{
    struct timespec now;
    assert_int_equal(clock_gettime(clock, &now), 0);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

struct asking {
    bool flag;
    bool is_over;
    clockid_t clock;
    int64_t asked_cpu_ms;
};

static void *ask_soon(void *data)
{
    struct asking *asking = data;
    while (cpu_ms(asking->clock) < 50 && !__atomic_load_n(&asking->is_over, __ATOMIC_ACQUIRE))
        usleep(1000);
    asking->asked_cpu_ms = cpu_ms(asking->clock);
    cay_stop_ask(&asking->flag);
    return NULL;
}

struct evil_search {
    const char *pattern;
    const struct cay_str *text;
    int64_t deadline_ms; /* 0: it is asked to stop instead */
    int64_t overrun_ms;
    bool is_late;
};

/* On a thread of its own, whose processor time begins at nothing. */
static void *search_evil(void *data)
{
    struct evil_search *self = data;
    struct asking asking = {};
    struct cay_pattern pattern;
    struct cay_pattern_options options = {};
    char problem[200];
    pthread_t asker;
    assert_int_equal(
        cay_pattern_compile(&pattern, cay_str(self->pattern), &options, problem, sizeof(problem)),
        0);
    assert_int_equal(pthread_getcpuclockid(pthread_self(), &asking.clock), 0);
    int64_t begun = cay_clock_ms();
    if (!self->deadline_ms) {
        assert_int_equal(pthread_create(&asker, NULL, ask_soon, &asking), 0);
        (void)cay_stop_watch(&asking.flag);
    }
    struct cay_matcher matcher;
    assert_true(cay_matcher_init(&matcher, &pattern,
                                 self->deadline_ms ? begun + self->deadline_ms : INT64_MAX));
    size_t start = 0;
    size_t end = 0;
    assert_false(cay_matcher_next(&matcher, *self->text, 0, &start, &end));
    self->is_late = matcher.late;
    int64_t cpu = cpu_ms(asking.clock);
    if (!self->deadline_ms) {
        __atomic_store_n(&asking.is_over, true, __ATOMIC_RELEASE);
        assert_int_equal(pthread_join(asker, NULL), 0);
        (void)cay_stop_watch(NULL);
        self->overrun_ms = cpu - asking.asked_cpu_ms;
    } else {
        self->overrun_ms = cpu - self->deadline_ms;
    }
    cay_matcher_finish(&matcher);
    cay_pattern_finish(&pattern);
    return NULL;
}

/* Also where one match, at one place, would go on for very long: by the deadline, and when nobody
 * wants the answer any more. */
static void a_search_ends_within_a_tenth_of_a_second(void **)
{
    enum { BYTES = 1024 * 1024, OVERRUN_MS = 100 };
    cay_autofree char *line = cay_alloc(BYTES);
    cay_autofree char *lines = cay_alloc(BYTES);
    memset(line, 'a', BYTES);
    memset(lines, 'a', BYTES);
    for (size_t at = 1000; at < BYTES; at += 1000)
        lines[at] = '\n';
    char many[2000] = "";
    for (size_t i = 0; i < 90; i++)
        memcpy(many + i * 11, "(?:a*[bc])?", 11);
    memcpy(many + (size_t)90 * 11, "[de]", 5);
    const struct cay_str texts[] = {{line, BYTES}, {lines, BYTES}};
    const char *const evil[] = {"(?:(?:a*b)?a)*[de]", "(?:a*[bc])*[de]", "a*a*a*a*[bc]",
                                "(a+)+$b|[de]z", many};
    for (size_t i = 0; i < 4 * CAY_COUNT(evil); i++) {
        struct evil_search search = {
            .pattern = evil[i / 4], .text = &texts[i % 2], .deadline_ms = i % 4 < 2 ? 50 : 0};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, search_evil, &search), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        if (search.is_late && search.overrun_ms > OVERRUN_MS)
            fail_msg("%.40s on %zu: %lld ms too long", evil[i / 4], i % 2,
                     (long long)search.overrun_ms);
    }
}

static void long_lines_are_searched_in_parts(void **)
{
    /* What begins at the end of one part and ends in the next is found, also between the bytes of a
     * character. */
    static const char needle[] = "x\xC3\xA9y";
    enum { BYTES = 4 * CAY_PATTERN_STARTS, NEEDLE = sizeof(needle) - 1 };
    cay_autofree char *text = cay_alloc(BYTES);
    struct cay_pattern pattern;
    char problem[200];
    struct cay_pattern_options options = {};
    assert_int_equal(cay_pattern_compile(&pattern, cay_str("(?<![z])[xw][^a]+[yv]"), &options,
                                         problem, sizeof(problem)),
                     0);
    for (size_t at = CAY_PATTERN_STARTS - 8; at < CAY_PATTERN_STARTS + 8; at++) {
        struct cay_matcher matcher;
        size_t start = 0;
        size_t end = 0;
        memset(text, 'a', BYTES);
        memcpy(text + at, needle, NEEDLE);
        assert_true(cay_matcher_init(&matcher, &pattern, INT64_MAX));
        assert_true(cay_matcher_next(&matcher, (struct cay_str){text, BYTES}, 0, &start, &end));
        text[at - 1] = 'z';
        assert_false(cay_matcher_next(&matcher, (struct cay_str){text, BYTES}, 0, &start, &end));
        cay_matcher_finish(&matcher);
    }
    cay_pattern_finish(&pattern);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(literals_are_found_where_they_first_stand),
        cmocka_unit_test(required_strings_are_read_from_expressions),
        cmocka_unit_test(what_is_not_understood_is_left_to_the_engine),
        cmocka_unit_test(all_ways_of_searching_find_the_same_lines),
        cmocka_unit_test(a_literal_in_any_case_knows_more_letters_than_ascii),
        cmocka_unit_test(no_expression_runs_away),
        cmocka_unit_test(a_search_ends_at_its_deadline),
        cmocka_unit_test(a_search_ends_within_a_tenth_of_a_second),
        cmocka_unit_test(long_lines_are_searched_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
