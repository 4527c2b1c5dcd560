/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/secret.h"

enum { WORDS_MAX = 16 };

struct values {
    char *text;
    struct cay_secret secret;
    bool truth;
    int64_t number;
    int64_t wait;
    uint64_t size;
    double ratio;
    int level;
    struct cay_conf_list items;
};

static const char *const levels[] = {"low", "high", NULL};

static const struct cay_conf_entry entries[] = {
    {CAY_CONF_FIELD(struct values, text), .type = CAY_CONF_STRING, .max = 20, .letter = 't',
     .help = "A text."},
    {CAY_CONF_FIELD(struct values, secret), .type = CAY_CONF_SECRET, .help = "A secret."},
    {CAY_CONF_FIELD(struct values, truth), .type = CAY_CONF_BOOL, .letter = 'b', .help = "A bool."},
    {CAY_CONF_FIELD(struct values, number), .type = CAY_CONF_INTEGER, .min = -5, .max = 1000,
     .fallback = "7", .help = "A number."},
    {CAY_CONF_FIELD(struct values, wait), .type = CAY_CONF_DURATION, .help = "A duration."},
    {CAY_CONF_FIELD(struct values, size), .type = CAY_CONF_SIZE, .help = "A size."},
    {CAY_CONF_FIELD(struct values, ratio), .type = CAY_CONF_RATIO, .help = "A ratio."},
    {CAY_CONF_FIELD(struct values, level), .type = CAY_CONF_ENUM, .choices = levels,
     .fallback = "low", .help = "A choice."},
    {CAY_CONF_FIELD(struct values, items), .type = CAY_CONF_LIST, .help = "A list."},
};

static bool load_text(struct cay_conf *conf, struct cay_str text, struct cay_error *err)
{
    char path[64];
    cay_autoclose int fd = memfd_create("conf", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && write(fd, text.ptr, text.len) == (ssize_t)text.len);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return cay_conf_load_file(conf, path, err);
}

/* Controls are printed as '?'. */
static bool is_same_text(const char *a, const char *b)
{
    if (!a || !b)
        return a == b;
    for (; *a || *b; a++, b++) {
        if (*a != *b && !(*b == '?' && ((unsigned char)*a < 0x20 || *a == 0x7F)))
            return false;
    }
    return true;
}

static void check_same(const struct values *a, const struct values *b)
{
    FUZZ_CHECK(is_same_text(a->text, b->text));
    FUZZ_CHECK(a->truth == b->truth && a->number == b->number && a->wait == b->wait);
    FUZZ_CHECK(a->size == b->size && a->level == b->level && a->items.count == b->items.count);
    FUZZ_CHECK(a->ratio >= b->ratio && a->ratio <= b->ratio);
    for (size_t i = 0; i < a->items.count; i++)
        FUZZ_CHECK(is_same_text(a->items.items[i], b->items.items[i]));
}

static void check_bounds(const struct values *values)
{
    FUZZ_CHECK(values->number >= -5 && values->number <= 1000);
    FUZZ_CHECK(!values->text || strlen(values->text) <= 20);
    FUZZ_CHECK(values->ratio >= 0 && values->ratio <= 1);
    FUZZ_CHECK(values->level == 0 || values->level == 1);
    FUZZ_CHECK(values->items.count <= CAY_CONF_LIST_ITEMS_MAX);
}

/* What is accepted is within its bounds and, printed, is accepted again with the same values. */
static void check_file(struct cay_str text)
{
    struct values values;
    struct values again;
    struct cay_conf conf;
    struct cay_conf conf_again;
    struct cay_error err = {};
    cay_conf_init(&conf, entries, CAY_COUNT(entries), &values, sizeof(values));
    bool is_loaded = load_text(&conf, text, &err);
    FUZZ_CHECK(is_loaded || (err.reason == CAY_R_INVALID_ARGUMENT && err.text[0]));
    check_bounds(&values);
    if (!is_loaded) {
        cay_conf_finish(&conf);
        return;
    }
    cay_auto(cay_buf_finish) struct cay_buf printed;
    cay_buf_init(&printed, 4 << 20);
    cay_conf_print(&conf, &printed);
    FUZZ_CHECK(!printed.failed);
    cay_conf_init(&conf_again, entries, CAY_COUNT(entries), &again, sizeof(again));
    if (!load_text(&conf_again, cay_buf_str(&printed), &err)) {
        fprintf(stderr, "%s\n%.*s", err.text, (int)printed.len, printed.data);
        FUZZ_CHECK(!"what was printed cannot be read");
    }
    check_same(&values, &again);
    cay_conf_finish(&conf_again);
    cay_conf_finish(&conf);
}

/* One word per line, as flags and as an environment. */
static void check_words(struct cay_str text)
{
    const char *argv[WORDS_MAX + 2] = {"fuzz"};
    char *words[WORDS_MAX] = {};
    int argc = 1;
    struct cay_str word;
    while (argc <= WORDS_MAX && cay_str_split(&text, '\n', &word)) {
        words[argc - 1] = cay_strndup(word.ptr ? word.ptr : "", word.len);
        argv[argc] = words[argc - 1];
        argc++;
    }
    struct values values;
    struct cay_conf conf;
    struct cay_error err = {};
    int rest = 0;
    cay_conf_init(&conf, entries, CAY_COUNT(entries), &values, sizeof(values));
    if (cay_conf_load_flags(&conf, argc, argv, &rest, &err))
        FUZZ_CHECK(rest >= 1 && rest <= argc);
    else
        FUZZ_CHECK(err.text[0]);
    err = (struct cay_error){};
    FUZZ_CHECK(cay_conf_load_environment(&conf, argv + 1, NULL, &err) || err.text[0]);
    check_bounds(&values);
    cay_conf_finish(&conf);
    for (int i = 0; i < WORDS_MAX; i++)
        free(words[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cay_str text = {(const char *)data, size};
    check_file(text);
    check_words(text);
    return 0;
}
