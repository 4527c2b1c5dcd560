/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/cay_v1.h"
#include "api/errand.h"
#include "api/limits.h"
#include "base/clock.h"
#include "remote/remote.h"
#include "tests/unit/front/harness.h"

/* Errands on a remote whose daemon is the echo service, on the same loop. */

enum { MESSAGES_MAX_AT_ONCE = 64, PATIENCE_S = 10, FILE_BYTES = 64 * 1024 * 1024 };

struct fixture {
    struct harness harness;
    struct cay_remote *remote;
    char folder[64];
    char path[96];
};

static struct cay_remote *connect_as(struct fixture *self, const char *key)
{
    char url[128];
    struct cay_error err = {};
    struct cay_remote *remote = NULL;
    snprintf(url, sizeof(url), "unix:%s", self->path);
    const struct cay_remote_options options = {
        .loop = self->harness.loop,
        .url = url,
        .key = key,
        .methods = cay_v1_methods,
        .method_count = CAY_V1_METHOD_COUNT,
    };
    assert_true(cay_remote_create(&options, &remote, &err));
    return remote;
}

static int setup(void **state)
{
    struct fixture *self = cay_new(struct fixture);
    struct cay_error err = {};
    const char *bound = NULL;
    const char *tmp = getenv("TMPDIR");
    char address[128];
    snprintf(self->folder, sizeof(self->folder), "%.40s/remote-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(self->folder));
    snprintf(self->path, sizeof(self->path), "%s/s", self->folder);
    snprintf(address, sizeof(address), "unix:%s", self->path);
    harness_open(&self->harness);
    assert_true(cay_server_listen(self->harness.server, address, false, &bound, &err));
    self->remote = connect_as(self, "trusted");
    *state = self;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *self = *state;
    cay_remote_destroy(self->remote);
    harness_turn(&self->harness);
    harness_close(&self->harness);
    unlink(self->path);
    rmdir(self->folder);
    free(self);
    return 0;
}

struct maker {
    struct cay_errand errand;
    size_t messages;
    size_t bytes;
    size_t wants;
    size_t stop_at; /* messages before it has enough; 0: never */
    bool is_over;
    struct cay_error err;
    char text[64]; /* of the answer */
    int64_t number;
};

static struct maker *of(struct cay_errand *errand)
{
    return CAY_CONTAINER_OF(errand, struct maker, errand);
}

static void ended(struct cay_errand *errand, const void *response, const struct cay_error *err)
{
    struct maker *maker = of(errand);
    const struct cay_pb_method *method = errand->call.method;
    maker->is_over = true;
    if (err)
        maker->err = *err;
    if (response && method->index == CAY_V1_KEY_SERVICE_LIST_KEYS) {
        const struct cay_v1_list_keys_response *keys = response;
        snprintf(maker->text, sizeof(maker->text), "%.*s", (int)keys->next_page_token.len,
                 keys->next_page_token.ptr);
    }
    if (response && method->index == CAY_V1_FILE_SERVICE_WRITE_FILE)
        maker->number = ((const struct cay_v1_write_file_response *)response)->bytes_written;
    cay_errand_finish(errand);
}

static bool heard(struct cay_errand *errand, const void *message)
{
    struct maker *maker = of(errand);
    maker->messages++;
    if (errand->call.method->index == CAY_V1_FILE_SERVICE_READ_FILE) {
        const struct cay_v1_read_file_response *piece = message;
        if (piece->which_frame == CAY_V1_READ_FILE_RESPONSE_FRAME_DATA)
            maker->bytes += piece->frame.data.len;
    }
    return !maker->stop_at || maker->messages % maker->stop_at != 0;
}

static void wanted(struct cay_errand *errand)
{
    of(errand)->wants++;
}

static const struct cay_errand_ops errand_ops = {.ended = ended, .heard = heard, .wanted = wanted};

static void open_errand(struct maker *maker, struct cay_remote *remote, unsigned method)
{
    static const struct cay_caller caller = {.role = CAY_ROLE_USER, .owner = "alice"};
    cay_errand_init(&maker->errand, cay_remote_service(remote), method, &caller, &errand_ops);
    if (!cay_v1_methods[method].client_streaming)
        (void)cay_errand_message(&maker->errand);
}

static void *prepare(struct maker *maker, struct cay_remote *remote, unsigned method)
{
    open_errand(maker, remote, method);
    return cay_errand_message(&maker->errand);
}

static void open_file(struct maker *maker, struct cay_remote *remote)
{
    struct cay_v1_read_file_request *ask = prepare(maker, remote, CAY_V1_FILE_SERVICE_READ_FILE);
    ask->length = FILE_BYTES;
    ask->has_length = true;
}

static void wait_for(struct fixture *self, const bool *condition)
{
    int64_t until_ns = cay_clock_ns() + PATIENCE_S * (int64_t)CAY_NS_PER_SEC;
    while (!*condition && cay_clock_ns() < until_ns)
        harness_turn(&self->harness);
    assert_true(*condition);
}

/* Until nothing happens any more. */
static void settle(struct fixture *self)
{
    for (int i = 0; i < 50; i++)
        harness_turn(&self->harness);
}

static void a_call_is_answered_as_the_daemon_answers(void **state)
{
    struct fixture *self = *state;
    struct maker maker = {};
    struct cay_v1_list_keys_request *ask =
        prepare(&maker, self->remote, CAY_V1_KEY_SERVICE_LIST_KEYS);
    ask->owner = CAY_STR("me");
    cay_errand_start(&maker.errand);
    assert_false(maker.is_over);
    wait_for(self, &maker.is_over);
    assert_int_equal(maker.err.reason, 0);
    assert_string_equal(maker.text, "me");
}

static void refusals_come_through(void **state)
{
    struct fixture *self = *state;
    static const unsigned methods[] = {CAY_V1_KEY_SERVICE_CREATE_KEY,
                                       CAY_V1_SANDBOX_SERVICE_WATCH_EVENTS,
                                       CAY_V1_SANDBOX_SERVICE_IMPORT_SESSION};
    for (size_t i = 0; i < CAY_COUNT(methods); i++) {
        struct maker maker = {};
        open_errand(&maker, self->remote, methods[i]);
        cay_errand_start(&maker.errand);
        wait_for(self, &maker.is_over);
        assert_int_equal(maker.err.reason, CAY_R_UNIMPLEMENTED);
        assert_non_null(strstr(maker.err.text, "is not available in this version of cayd"));
    }
}

static void a_stream_flows_as_fast_as_it_is_taken(void **state)
{
    struct fixture *self = *state;
    struct maker maker = {.stop_at = 3};
    open_file(&maker, self->remote);
    cay_errand_start(&maker.errand);
    settle(self);
    assert_int_equal(maker.messages, 3);
    /* It has stopped there, too: what is on its way is bounded. */
    const struct cay_server_stats *stats = cay_server_stats(self->harness.server);
    assert_int_equal(self->harness.echo.open_count, 1);
    assert_int_equal(stats->exchanges_open, 1);
    int64_t until_ns = cay_clock_ns() + PATIENCE_S * (int64_t)CAY_NS_PER_SEC;
    maker.stop_at = 0;
    while (!maker.is_over && cay_clock_ns() < until_ns) {
        cay_errand_room(&maker.errand);
        harness_turn(&self->harness);
    }
    assert_true(maker.is_over);
    assert_int_equal(maker.err.reason, 0);
    assert_int_equal(maker.bytes, FILE_BYTES);
}

static void a_client_streams_as_fast_as_it_is_read(void **state)
{
    struct fixture *self = *state;
    enum { PIECES = 300, PIECE_BYTES = 32 * 1024 };
    struct maker maker = {};
    struct cay_v1_write_file_request piece = {
        .which_frame = CAY_V1_WRITE_FILE_REQUEST_FRAME_DATA,
        .frame.data = {self->harness.echo.filler, PIECE_BYTES}};
    open_errand(&maker, self->remote, CAY_V1_FILE_SERVICE_WRITE_FILE);
    cay_errand_start(&maker.errand);
    /* Nobody reads while the loop does not turn: it is not asked for all of them. */
    size_t given = 0;
    for (; maker.errand.wants; given++)
        cay_errand_give(&maker.errand, &piece);
    assert_in_range(given, 2, MESSAGES_MAX_AT_ONCE);
    for (int64_t until_ns = cay_clock_ns() + PATIENCE_S * (int64_t)CAY_NS_PER_SEC;
         given < PIECES && cay_clock_ns() < until_ns;) {
        harness_turn(&self->harness);
        for (; maker.errand.wants && given < PIECES; given++)
            cay_errand_give(&maker.errand, &piece);
    }
    assert_int_equal(given, PIECES);
    assert_false(maker.is_over);
    while (!maker.errand.wants)
        harness_turn(&self->harness);
    cay_errand_give(&maker.errand, NULL);
    wait_for(self, &maker.is_over);
    assert_int_equal(maker.err.reason, 0);
    assert_int_equal(maker.number, PIECES * PIECE_BYTES);
}

static void both_sides_stream(void **state)
{
    struct fixture *self = *state;
    struct maker maker = {};
    struct cay_v1_terminal_request input = {.which_frame = CAY_V1_TERMINAL_REQUEST_FRAME_INPUT,
                                            .frame.input = CAY_STR("hello")};
    open_errand(&maker, self->remote, CAY_V1_PROCESS_SERVICE_TERMINAL);
    cay_errand_start(&maker.errand);
    for (size_t i = 1; i <= 3; i++) {
        while (!maker.errand.wants)
            harness_turn(&self->harness);
        cay_errand_give(&maker.errand, &input);
        settle(self);
        assert_int_equal(maker.messages, i); /* answered before the next is given */
    }
    cay_errand_give(&maker.errand, NULL);
    wait_for(self, &maker.is_over);
    assert_int_equal(maker.err.reason, 0);
}

static void who_leaves_here_leaves_there(void **state)
{
    struct fixture *self = *state;
    struct maker maker = {};
    assert_non_null(prepare(&maker, self->remote, CAY_V1_FILE_SERVICE_REMOVE_FILE));
    cay_errand_start(&maker.errand);
    settle(self);
    assert_int_equal(self->harness.echo.open_count, 1);
    cay_errand_cancel(&maker.errand);
    assert_true(maker.is_over);
    assert_int_equal(maker.err.reason, CAY_R_CANCELED);
    settle(self);
    assert_int_equal(self->harness.echo.cancelled_count, 1);
    echo_release(&self->harness.echo);
    /* Before there is a connection, and in the middle of a stream. */
    struct maker early = {};
    assert_non_null(prepare(&early, self->remote, CAY_V1_KEY_SERVICE_LIST_KEYS));
    cay_errand_start(&early.errand);
    cay_errand_cancel(&early.errand);
    assert_true(early.is_over);
    struct maker stream = {.stop_at = 1};
    open_file(&stream, self->remote);
    cay_errand_start(&stream.errand);
    settle(self);
    cay_errand_cancel(&stream.errand);
    settle(self);
    assert_int_equal(self->harness.echo.open_count, 0);
}

static void deadlines_are_told(void **state)
{
    struct fixture *self = *state;
    struct maker maker = {};
    assert_non_null(prepare(&maker, self->remote, CAY_V1_FILE_SERVICE_REMOVE_FILE));
    maker.errand.call.deadline_ms = cay_loop_now_ms(self->harness.loop) + 50;
    cay_errand_start(&maker.errand);
    wait_for(self, &maker.is_over);
    assert_int_equal(maker.err.reason, CAY_R_DEADLINE_EXCEEDED);
    settle(self);
    assert_int_equal(self->harness.echo.cancelled_count, 1);
}

static void a_daemon_that_goes_away_is_unavailable(void **state)
{
    struct fixture *self = *state;
    static const unsigned methods[] = {CAY_V1_FILE_SERVICE_REMOVE_FILE,
                                       CAY_V1_FILE_SERVICE_READ_FILE,
                                       CAY_V1_PROCESS_SERVICE_TERMINAL};
    for (size_t i = 0; i < CAY_COUNT(methods); i++) {
        struct maker maker = {.stop_at = 1};
        if (methods[i] == CAY_V1_FILE_SERVICE_READ_FILE)
            open_file(&maker, self->remote);
        else
            open_errand(&maker, self->remote, methods[i]);
        cay_errand_start(&maker.errand);
        settle(self);
        assert_false(maker.is_over);
        cay_server_cut(self->harness.server);
        /* What came before is still given to who takes it. */
        for (int turns = 0; !maker.is_over && turns < 10000; turns++) {
            cay_errand_room(&maker.errand);
            harness_turn(&self->harness);
        }
        assert_true(maker.is_over);
        assert_int_equal(maker.err.reason, CAY_R_UNAVAILABLE);
        assert_non_null(strstr(maker.err.text, "broke before the answer was complete"));
    }
}

static void nobody_there_is_unavailable(void **state)
{
    struct fixture *self = *state;
    struct maker maker = {};
    unlink(self->path);
    assert_non_null(prepare(&maker, self->remote, CAY_V1_KEY_SERVICE_LIST_KEYS));
    cay_errand_start(&maker.errand);
    assert_true(maker.is_over);
    assert_int_equal(maker.err.reason, CAY_R_UNAVAILABLE);
    assert_non_null(strstr(maker.err.text, "cannot reach cayd"));
    assert_null(strstr(maker.err.text, self->path)); /* not for who calls here */
}

struct visitor {
    struct cay_whois whois;
    struct cay_caller caller;
    struct cay_error err;
    bool is_answered;
};

static void answered(struct cay_whois *whois, const struct cay_caller *caller,
                     const struct cay_error *err)
{
    struct visitor *visitor = CAY_CONTAINER_OF(whois, struct visitor, whois);
    visitor->is_answered = true;
    if (caller)
        visitor->caller = *caller;
    else
        visitor->err = *err;
}

static struct visitor ask(struct fixture *self, struct cay_remote *remote, const char *secret)
{
    struct visitor visitor = {.whois.answered = answered};
    cay_service_authenticate(cay_remote_service(remote), cay_str(secret), &visitor.whois);
    assert_false(visitor.is_answered);
    wait_for(self, &visitor.is_answered);
    return visitor;
}

static void who_holds_a_secret_is_asked_of_the_daemon(void **state)
{
    struct fixture *self = *state;
    struct visitor known = ask(self, self->remote, "good");
    assert_string_equal(known.caller.owner, "tester");
    assert_string_equal(known.caller.key_id, "key-1");
    assert_int_equal(known.caller.role, CAY_ROLE_USER);
    assert_int_equal(ask(self, self->remote, "bad").err.reason, CAY_R_UNAUTHENTICATED);
    struct visitor gone = {.whois.answered = answered};
    cay_service_authenticate(cay_remote_service(self->remote), CAY_STR("good"), &gone.whois);
    cay_whois_cancel(&gone.whois);
    settle(self);
    assert_false(gone.is_answered);
}

static void who_is_not_trusted_there_forwards_nothing(void **state)
{
    struct fixture *self = *state;
    static const char *const keys[] = {"good", "bad"};
    for (size_t i = 0; i < CAY_COUNT(keys); i++) {
        struct cay_remote *other = connect_as(self, keys[i]);
        struct visitor visitor = ask(self, other, "good");
        assert_int_equal(visitor.err.reason, CAY_R_UNAVAILABLE);
        assert_non_null(strstr(visitor.err.text, "does not trust it"));
        struct maker maker = {};
        assert_non_null(prepare(&maker, other, CAY_V1_KEY_SERVICE_LIST_KEYS));
        cay_errand_start(&maker.errand);
        wait_for(self, &maker.is_over);
        assert_int_equal(maker.err.reason,
                         i == 0 ? CAY_R_PERMISSION_DENIED : CAY_R_UNAUTHENTICATED);
        cay_remote_destroy(other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_call_is_answered_as_the_daemon_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(refusals_come_through, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stream_flows_as_fast_as_it_is_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(a_client_streams_as_fast_as_it_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(both_sides_stream, setup, teardown),
        cmocka_unit_test_setup_teardown(who_leaves_here_leaves_there, setup, teardown),
        cmocka_unit_test_setup_teardown(deadlines_are_told, setup, teardown),
        cmocka_unit_test_setup_teardown(a_daemon_that_goes_away_is_unavailable, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_there_is_unavailable, setup, teardown),
        cmocka_unit_test_setup_teardown(who_holds_a_secret_is_asked_of_the_daemon, setup, teardown),
        cmocka_unit_test_setup_teardown(who_is_not_trusted_there_forwards_nothing, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
