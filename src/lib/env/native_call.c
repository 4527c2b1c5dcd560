/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>

#include "api/limits.h"
#include "base/clock.h"
#include "lib/env/native.h"

/* All of it, whatever the daemon does: include/cay/env.h promises that. */
enum { TIDY_MS_MAX = 1000 };

/* Before each repetition. A daemon that is restarted answers again within this. */
static const int waits_ms[] = {50, 200, 500, 1000};

void cay_native_repeat_begin(struct cay_native_repeat *repeat, const struct cay_origin *origin,
                             const struct cay_call_options *options)
{
    int64_t timeout_ms = options->timeout_ms ? options->timeout_ms : origin->timeout_ms;
    *repeat = (struct cay_native_repeat){.options = *options};
    if (timeout_ms > 0 && !__builtin_add_overflow(cay_clock_ms(), timeout_ms, &repeat->until_ms))
        repeat->options.timeout_ms = timeout_ms;
}

/* Nothing was under way when nobody listened to begin with: whoever calls is told at once. */
static bool is_worth_it(const struct cay_native_repeat *repeat, const struct cay_error *err)
{
    if (err->reason == CAY_R_DAEMON_RESTARTING)
        return true;
    return err->reason == CAY_R_UNAVAILABLE &&
           (repeat->attempts > 0 || (err->sys_errno != ECONNREFUSED && err->sys_errno != ENOENT &&
                                     err->sys_errno != EACCES && err->sys_errno != EPERM));
}

bool cay_native_repeat_again(struct cay_native_repeat *repeat, const struct cay_error *err)
{
    if (repeat->attempts >= CAY_COUNT(waits_ms) || !is_worth_it(repeat, err))
        return false;
    int64_t wait_ms = waits_ms[repeat->attempts++];
    int64_t left_ms = repeat->until_ms ? repeat->until_ms - cay_clock_ms() - wait_ms : 1;
    if (left_ms <= 0)
        return false;
    if (repeat->until_ms)
        repeat->options.timeout_ms = left_ms;
    /* A cancel ends the wait, and then the attempt. */
    const struct cay_cancel *cancel = repeat->options.cancel;
    struct pollfd entry = {.fd = cay_cancel_fd(cancel), .events = POLLIN};
    (void)poll(&entry, 1, (int)wait_ms);
    return true;
}

bool cay_native_call(struct cay_origin *origin, const struct cay_call_options *options,
                     const struct cay_pb_method *method, bool is_safe, const void *request,
                     struct cay_arena *arena, void *out_response, struct cay_error *err)
{
    struct cay_native_repeat repeat;
    cay_native_repeat_begin(&repeat, origin, options);
    for (;;) {
        if (cay_client_call_with(origin->client, &repeat.options, method, request, arena,
                                 out_response, err))
            return true;
        if (!is_safe || !cay_native_repeat_again(&repeat, err))
            return false;
    }
}

bool cay_native_is_open_ended(const struct cay_error *err)
{
    enum cay_connect_code code = cay_error_code(err);
    return code == CAY_CODE_UNAVAILABLE || code == CAY_CODE_DEADLINE_EXCEEDED ||
           code == CAY_CODE_CANCELED || code == CAY_CODE_INTERNAL ||
           err->reason == CAY_R_OUT_OF_MEMORY || err->reason == CAY_R_MESSAGE_TOO_LARGE;
}

int64_t cay_native_tidy_until(void)
{
    return cay_clock_ms() + TIDY_MS_MAX;
}

struct cay_call_options cay_native_tidy_options(int64_t until_ms)
{
    int64_t left_ms = until_ms - cay_clock_ms() - CAY_CLIENT_GRACE_MS;
    return (struct cay_call_options){.size = sizeof(struct cay_call_options),
                                     .timeout_ms = CAY_MAX(left_ms, 1)};
}

bool cay_native_remove(struct cay_origin *origin, const char *session_id,
                       const struct cay_call_options *options, struct cay_error *err)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    const struct cay_v1_destroy_session_request request = {.session_id = cay_str(session_id),
                                                           .missing_ok = true};
    struct cay_v1_destroy_session_response response;
    return cay_native_call(origin, options, &cay_v1_sandbox_service_destroy_session_method, true,
                           &request, &arena, &response, err);
}
