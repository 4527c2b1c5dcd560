/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <stdlib.h>

#include "api/cay_v1.h"
#include "api/errand.h"

/* A service whose verbs answer when the test says so. */
static struct cay_call *asked; /* the last call, as long as it is not answered */
static char owner_seen[129];
static int cancels;

static void on_cancel(struct cay_call *)
{
    cancels++;
}

static void wait_for_test(struct cay_service *, struct cay_call *call)
{
    asked = call;
    snprintf(owner_seen, sizeof(owner_seen), "%s", call->caller.owner);
    call->on_cancel = on_cancel;
}

static void answer_at_once(struct cay_service *, struct cay_call *call)
{
    const struct cay_v1_list_keys_request *request = call->request;
    struct cay_v1_list_keys_response response = {.next_page_token = request->owner};
    cay_call_done(call, &response);
}

/* Takes two messages; the second ends the call, inside of being given. */
static int taken;

static void take(struct cay_call *call, const void *message)
{
    static struct cay_v1_write_file_response response;
    if (message && ++taken < 2)
        cay_call_next(call);
    else
        cay_call_done(call, &response);
}

static void read_stream(struct cay_service *, struct cay_call *call)
{
    taken = 0;
    call->on_message = take;
    cay_call_next(call);
}

static cay_verb *const verbs[CAY_V1_METHOD_COUNT] = {
    [CAY_V1_KEY_SERVICE_LIST_KEYS] = answer_at_once,
    [CAY_V1_SANDBOX_SERVICE_GET_SESSION] = wait_for_test,
    [CAY_V1_SANDBOX_SERVICE_WATCH_EVENTS] = wait_for_test,
    [CAY_V1_FILE_SERVICE_WRITE_FILE] = read_stream,
};
static const struct cay_service_ops service_ops = {
    .name = "test",
    .methods = cay_v1_methods,
    .method_count = CAY_V1_METHOD_COUNT,
    .verbs = verbs,
};
static struct cay_service service = {.ops = &service_ops};

struct maker {
    struct cay_errand errand;
    int ends;
    int messages;
    int wants;
    int cuts;
    bool has_room;
    char page[32];
    enum cay_reason reason;
};

static struct maker *of(struct cay_errand *errand)
{
    return CAY_CONTAINER_OF(errand, struct maker, errand);
}

static void ended(struct cay_errand *errand, const void *response, const struct cay_error *err)
{
    struct maker *maker = of(errand);
    maker->ends++;
    maker->reason = err ? err->reason : 0;
    const struct cay_v1_list_keys_response *keys = response;
    if (response && errand->call.method == &cay_v1_methods[CAY_V1_KEY_SERVICE_LIST_KEYS])
        snprintf(maker->page, sizeof(maker->page), "%.*s", (int)keys->next_page_token.len,
                 keys->next_page_token.ptr);
    cay_errand_finish(errand);
}

static bool heard(struct cay_errand *errand, const void *)
{
    of(errand)->messages++;
    return of(errand)->has_room;
}

static void wanted(struct cay_errand *errand)
{
    of(errand)->wants++;
}

static void cut(struct cay_errand *errand, const struct cay_error *)
{
    of(errand)->cuts++;
}

static const struct cay_errand_ops patient = {.ended = ended, .heard = heard, .wanted = wanted};
static const struct cay_errand_ops hasty = {
    .ended = ended, .heard = heard, .wanted = wanted, .cut = cut};
static const struct cay_caller somebody = {.role = CAY_ROLE_USER, .owner = "somebody"};

static void refuse(enum cay_reason reason)
{
    struct cay_error err = {};
    cay_fail(&err, reason, NULL);
    cay_call_fail(cay_take_ptr(asked), &err);
}

static void an_errand_is_answered_at_once(void **)
{
    struct maker maker = {};
    cay_errand_init(&maker.errand, &service, CAY_V1_KEY_SERVICE_LIST_KEYS, &somebody, &patient);
    struct cay_v1_list_keys_request *ask = cay_errand_message(&maker.errand);
    ask->owner = CAY_STR("page");
    cay_errand_start(&maker.errand);
    assert_int_equal(maker.ends, 1);
    assert_string_equal(maker.page, "page");
}

static void an_errand_has_its_callers_rights(void **)
{
    struct maker maker = {};
    cay_errand_init(&maker.errand, &service, CAY_V1_SANDBOX_SERVICE_GET_SESSION, &somebody,
                    &patient);
    assert_non_null(cay_errand_message(&maker.errand));
    cay_errand_start(&maker.errand);
    assert_string_equal(owner_seen, "somebody");
    assert_int_equal(maker.ends, 0);
    refuse(CAY_R_SESSION_NOT_FOUND);
    assert_int_equal(maker.ends, 1);
    assert_int_equal(maker.reason, CAY_R_SESSION_NOT_FOUND);
}

static void who_cancels_hears_nothing_but_the_end(void **)
{
    struct maker maker = {.has_room = true};
    cay_errand_init(&maker.errand, &service, CAY_V1_SANDBOX_SERVICE_WATCH_EVENTS, &somebody,
                    &patient);
    assert_non_null(cay_errand_message(&maker.errand));
    cay_errand_start(&maker.errand);
    static struct cay_v1_watch_events_response event;
    assert_true(cay_call_send(asked, &event));
    maker.has_room = false;
    assert_false(cay_call_send(asked, &event));
    cancels = 0;
    cay_errand_cancel(&maker.errand);
    cay_errand_cancel(&maker.errand);
    assert_int_equal(cancels, 1);
    assert_true(cay_call_send(asked, &event)); /* nobody is there who could be full */
    assert_int_equal(maker.messages, 2);
    refuse(CAY_R_CANCELED);
    assert_int_equal(maker.ends, 1);
}

static void the_end_may_come_while_a_message_is_given(void **)
{
    struct maker maker = {};
    struct cay_v1_write_file_request piece = {};
    cay_errand_init(&maker.errand, &service, CAY_V1_FILE_SERVICE_WRITE_FILE, &somebody, &patient);
    cay_errand_start(&maker.errand);
    assert_int_equal(maker.wants, 1);
    cay_errand_give(&maker.errand, &piece);
    assert_int_equal(maker.wants, 2);
    assert_int_equal(maker.ends, 0);
    cay_errand_give(&maker.errand, &piece);
    assert_int_equal(maker.wants, 2);
    assert_int_equal(maker.ends, 1);
}

static void only_clients_are_cut(void **)
{
    struct maker maker = {};
    struct cay_error err = {};
    cay_fail(&err, CAY_R_DAEMON_RESTARTING, NULL);
    cay_errand_init(&maker.errand, &service, CAY_V1_SANDBOX_SERVICE_GET_SESSION, &somebody,
                    &patient);
    assert_null(maker.errand.call.ops->cut);
    cay_errand_finish(&maker.errand);
    cay_errand_init(&maker.errand, &service, CAY_V1_SANDBOX_SERVICE_GET_SESSION, &somebody, &hasty);
    assert_non_null(cay_errand_message(&maker.errand));
    cay_errand_start(&maker.errand);
    cancels = 0;
    asked->ops->cut(asked, &err);
    assert_int_equal(maker.cuts, 1);
    assert_int_equal(cancels, 1);
    refuse(CAY_R_CANCELED);
    assert_int_equal(maker.ends, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_errand_is_answered_at_once),
        cmocka_unit_test(an_errand_has_its_callers_rights),
        cmocka_unit_test(who_cancels_hears_nothing_but_the_end),
        cmocka_unit_test(the_end_may_come_while_a_message_is_given),
        cmocka_unit_test(only_clients_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
