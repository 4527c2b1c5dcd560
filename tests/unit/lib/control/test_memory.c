/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation fails once: that is an error with a reason, and nothing is lost. */
#include "tests/unit/test.h"

#include "cay/control.h"

/* The linker puts these before the C library's (--wrap). */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);

static long until_failure = -1; /* allocations; below 0: none fails */

static bool fails_now(void)
{
    return until_failure >= 0 && until_failure-- == 0;
}

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails_now() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *text)
{
    return fails_now() ? NULL : __real_strdup(text);
}

/* False when memory ran out; any other failure has the reason that is expected. A buffer does not
 * tell its ceiling from the end of memory, so a message may also be said to be too large. */
static bool tells(bool is_done, const char *otherwise, const struct cay_error *err)
{
    if (!is_done && (cay_error_is(err, "out_of_memory") || cay_error_is(err, "message_too_large")))
        return false;
    if (!is_done && !cay_error_is(err, otherwise))
        fail_msg("%s: %s", cay_error_reason(err), err->text);
    return true;
}

/* All that can be asked of a host that is not there. */
static void use(void)
{
    const struct cay_pair labels[] = {{"a", "1"}, {"b", "2"}};
    struct cay_sandbox_request sandbox = CAY_SANDBOX_REQUEST;
    struct cay_process_request process = CAY_PROCESS_REQUEST;
    struct cay_control *control = NULL;
    struct cay_sandbox_list *list = NULL;
    struct cay_text url = {};
    struct cay_error err = {};
    sandbox.labels = labels;
    sandbox.label_count = 2;
    process.sandbox_id = "s";
    process.binary = "true";
    process.args = (const char *const[]){"a", "b"};
    process.arg_count = 2;
    tells(cay_address_to_url("host:80", false, &url, &err), "", &err);
    cay_text_free(&url);
    if (!tells(cay_control_open("node:unix:/nowhere/cayd.sock", NULL, &control, &err), "", &err))
        return;
    tells(cay_control_create(control, &sandbox, NULL, NULL, &err), "unavailable", &err);
    tells(cay_control_list(control, labels, 2, NULL, &list, &err), "unavailable", &err);
    tells(cay_control_launch(control, &process, NULL, NULL, &err), "unavailable", &err);
    tells(cay_control_destroy(control, "s", NULL, &err), "unavailable", &err);
    cay_control_close(control);
}

static void memory_that_is_not_there_is_an_error(void **)
{
    enum { MOST = 1000 };
    long count = 0;
    for (; count < MOST; count++) {
        until_failure = count;
        use();
        if (until_failure >= 0)
            break;
    }
    until_failure = -1;
    assert_in_range(count, 10, MOST - 1); /* all of them were tried, and there are some */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_that_is_not_there_is_an_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
