/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "api/call.h"
#include "api/cay_v1.h"

/* The end of a call, in each of its ways. */

static int ends;

static void done(struct cay_call *, const void *)
{
    ends++;
}

static void failed(struct cay_call *, const struct cay_error *)
{
    ends++;
}

static bool send_message(struct cay_call *, const void *)
{
    return true;
}

static const struct cay_call_ops plain = {.done = done, .fail = failed, .send = send_message};
static const struct cay_call_ops keeping = {
    .done = done, .fail = failed, .send = send_message, .send_kept = send_message};

static void end_failed(struct cay_call *call)
{
    struct cay_error err = {};
    cay_fail(&err, CAY_R_CANCELED, NULL);
    cay_call_fail(call, &err);
}

static struct cay_v1_execute_tool_stream_response last;

static void end_plain(struct cay_call *call)
{
    cay_call_done(call, NULL);
}

static void end_last(struct cay_call *call)
{
    cay_call_done_last(call, &last);
}

static void end_kept(struct cay_call *call)
{
    cay_call_done_kept(call, &last);
}

/* What a call was counted in, it is counted out of, however it ends. */
static void every_end_leaves_the_service(void **)
{
    static void (*const ways[])(struct cay_call *) = {end_failed, end_plain, end_last, end_kept};
    static const struct cay_call_ops *const doors[] = {&plain, &keeping};
    for (size_t i = 0; i < CAY_COUNT(ways); i++) {
        for (size_t j = 0; j < CAY_COUNT(doors); j++) {
            size_t count = 1;
            struct cay_call call = {
                .ops = doors[j],
                .method = &cay_v1_methods[CAY_V1_SANDBOX_SERVICE_EXECUTE_TOOL_STREAM],
                .counted_in = &count,
            };
            cay_arena_init(&call.arena, 1 << 20);
            ends = 0;
            ways[i](&call);
            assert_int_equal(ends, 1);
            assert_int_equal(count, 0);
            cay_arena_finish(&call.arena);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_end_leaves_the_service),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
