/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tool/local/place.h"

#include <pthread.h>
#include <stdatomic.h>

/* Every allocation fails once: nothing aborts, nothing leaks, and the error is the right one. The
 * allocator of the whole program is ours, so that also what the C library and PCRE2 ask for fails;
 * under a sanitizer, which has its own, the cases are skipped. */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_OWN_ALLOCATOR 0
static atomic_long fail_at;
static atomic_long live;
static atomic_long failures;
#else
#define HAS_OWN_ALLOCATOR 1

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *ptr, size_t size);
void __libc_free(void *ptr);

static atomic_long fail_at; /* 0: none fails; n: the n-th from now */
static atomic_long live;    /* allocations that were not freed */
static atomic_long failures;

static bool fails(void)
{
    if (atomic_load(&fail_at) <= 0 || atomic_fetch_sub(&fail_at, 1) != 1)
        return false;
    atomic_fetch_add(&failures, 1);
    errno = ENOMEM;
    return true;
}

static void *counted(void *ptr)
{
    atomic_fetch_add(&live, ptr != NULL);
    return ptr;
}

void *malloc(size_t size)
{
    return fails() ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : counted(__libc_calloc(count, size));
}

void *realloc(void *ptr, size_t size)
{
    if (fails())
        return NULL;
    void *grown = __libc_realloc(ptr, size);
    return ptr ? grown : counted(grown);
}

void *reallocarray(void *ptr, size_t count, size_t size)
{
    return realloc(ptr, count * size);
}

char *strndup(const char *text, size_t len)
{
    char *copy = calloc(1, len + 1);
    return copy ? memcpy(copy, text, strnlen(text, len)) : NULL;
}

void free(void *ptr)
{
    atomic_fetch_sub(&live, ptr != NULL);
    __libc_free(ptr);
}
#endif

enum { TEXT_BYTES = 8192 };

static const struct {
    const char *tool, *json;
} calls[] = {
    {"write_file", "{\"path\":\"d/e/new.txt\",\"content\":\"one\\ntwo\\n\"}"},
    {"write_file", "{\"path\":\"a0.txt\",\"content\":\"needle\\n\"}"},
    {"read_file", "{\"path\":\"a0.txt\"}"},
    {"read_file", "{\"path\":\"nowhere\"}"},
    {"edit_file", "{\"path\":\"edit.txt\",\"old_string\":\"two\",\"new_string\":\"2\"}"},
    {"edit_file", "{\"path\":\"edit.txt\",\"old_string\":\"four\",\"new_string\":\"2\"}"},
    {"list_dir", "{\"depth\":3}"},
    {"glob", "{\"pattern\":\"**/*.{txt,c}\"}"},
    {"grep", "{\"pattern\":\"need.e\",\"context_lines\":2}"},
    {"grep", "{\"pattern\":\"n[a-z]+e\",\"include\":\"*.txt\",\"ignore_case\":true}"},
    {"grep", "{\"pattern\":\"needle\",\"literal\":true}"},
    {"git_log", "{\"repo\":\"/workspace\",\"path\":\"a0.txt\"}"},
    {"bash", "{\"cmd\":\"echo hi; echo no >&2; exit 3\",\"stdin\":\"in\"}"},
    {"bash", "{\"cmd\":\"sleep 5 & echo hi\"}"},
    {"raed_file", "{}"},
};

static void put_files(struct place *place)
{
    for (int i = 0; i < 60; i++) {
        char name[32];
        snprintf(name, sizeof(name), "a%d.txt", i);
        place_write(place, name, "a needle\nand more\n");
    }
}

static void wait_until_nobody_is_left(struct cay_local *local)
{
    struct cay_error err = {};
    struct cay_local_processes list = {.count = 1};
    int64_t until = cay_clock_ms() + PLACE_WAIT_MS;
    while (list.count) {
        struct cay_arena arena;
        cay_arena_init(&arena, 1 << 20);
        assert_true(cay_clock_ms() < until);
        assert_true(cay_local_list(local, &arena, &list, &err));
        for (size_t i = 0; i < list.count; i++)
            (void)cay_local_kill(local, list.items[i].id, SIGKILL, &err);
        cay_arena_finish(&arena);
    }
}

/* True when the n-th allocation was made, and failed. `usual` is what it says otherwise. */
static bool run_failing(struct place *place, size_t which, long n, char usual[TEXT_BYTES])
{
    struct try try;
    place_write(place, "edit.txt", "one\ntwo\n");
    try_init(&try, calls[which].tool, calls[which].json);
    long failed_before = atomic_load(&failures);
    atomic_store(&fail_at, n);
    bool is_done = try_run(&try, place->local);
    atomic_store(&fail_at, 0);
    bool has_failed = atomic_load(&failures) != failed_before;
    if (!is_done && has_failed && try.err.reason != CAY_R_RESOURCE_EXHAUSTED &&
        try.err.reason != CAY_R_TOOL_NOT_FOUND)
        fail_msg("%s, allocation %ld: %s: %s", calls[which].tool, n,
                 cay_reason_info(try.err.reason)->name, try.err.text);
    if (is_done && n == 0 && usual)
        snprintf(usual, TEXT_BYTES, "%s", try_text(&try));
    else if (is_done && usual && strcmp(try_text(&try), usual) != 0)
        fail_msg("%s, allocation %ld: %s", calls[which].tool, n, try_text(&try));
    try_finish(&try);
    wait_until_nobody_is_left(place->local);
    return has_failed;
}

static void skip_without_allocator(void)
{
    if (HAS_OWN_ALLOCATOR)
        return;
    print_message("skipped: a sanitizer has the allocator\n");
    skip();
}

/* Twice: in the first round what is made once and kept is made. */
static void every_allocation_of_a_call_may_fail(void **state)
{
    struct place *place = *state;
    skip_without_allocator();
    put_files(place);
    for (int round = 0; round < 2; round++) {
        for (size_t which = 0; which < sizeof(calls) / sizeof(calls[0]); which++) {
            long before = atomic_load(&live);
            long n = 1;
            char usual[TEXT_BYTES] = "";
            if (round)
                (void)run_failing(place, which, 0, usual);
            while (run_failing(place, which, n, round ? usual : NULL))
                n++;
            assert_true(n < 2000);
            if (round && atomic_load(&live) != before)
                fail_msg("%s %s leaks %ld of %ld", calls[which].tool, calls[which].json,
                         atomic_load(&live) - before, n);
        }
    }
}

static void every_allocation_of_open_may_fail(void **state)
{
    struct place *place = *state;
    skip_without_allocator();
    struct cay_pb_pair pair = {CAY_STR("A"), CAY_STR("b")};
    const struct cay_local_options options = {.id = CAY_STR("id"), .env = {&pair, 1}};
    long before = atomic_load(&live);
    for (long n = 1;; n++) {
        struct cay_local *local = NULL;
        struct cay_error err = {};
        atomic_store(&fail_at, n);
        bool is_open = cay_local_open(place->dir, &options, &local, &err);
        bool has_failed = atomic_exchange(&fail_at, 0) <= 0;
        assert_true(is_open || err.reason == CAY_R_RESOURCE_EXHAUSTED);
        cay_local_close(local);
        assert_int_equal(atomic_load(&live), before);
        if (!has_failed)
            return;
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, place_open, place_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(every_allocation_of_a_call_may_fail),
        CASE(every_allocation_of_open_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
