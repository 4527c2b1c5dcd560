/* SPDX-License-Identifier: Apache-2.0 */
/* What every control promises of sandboxes. */
#include "tests/conform/control_world.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { CROWD = 50, MANY = 34, LABELS = 64, LABEL_BYTES = 1024 };

static size_t count_of(const struct cay_pair *labels, size_t label_count)
{
    struct cay_sandbox_list *list = NULL;
    assert_done(cay_control_list(world.control, labels, label_count, NULL, &list, &world.err));
    size_t count = list->count;
    cay_sandbox_list_free(list);
    return count;
}

static const char *label_of(const struct cay_sandbox_info *info, const char *name)
{
    for (size_t i = 0; i < info->label_count; i++)
        if (strcmp(info->labels[i].name, name) == 0)
            return info->labels[i].value;
    return NULL;
}

static void a_sandbox_is_made_told_of_and_removed(void **)
{
    const struct cay_pair labels[] = {world.label, {"task", "täsk 1"}, {"empty", ""}};
    struct cay_sandbox_request request = world_request();
    struct cay_sandbox_info *info = NULL;
    struct cay_sandbox_list *list = NULL;
    request.labels = labels;
    request.label_count = 3;
    assert_done(cay_control_create(world.control, &request, NULL, &info, &world.err));
    assert_true(info->sandbox_id[0] && info->address[0]);
    assert_string_equal(info->state, "active");
    assert_int_equal(info->label_count, 3);
    assert_string_equal(label_of(info, "task"), "täsk 1");
    assert_string_equal(label_of(info, "empty"), "");
    assert_in_range(info->created_ms / 1000, time(NULL) - 60, time(NULL) + 60);
    if (world.template_name)
        assert_string_equal(info->template_name, world.template_name);
    assert_done(cay_control_list(world.control, labels, 3, NULL, &list, &world.err));
    assert_int_equal(list->count, 1);
    assert_string_equal(list->items[0]->sandbox_id, info->sandbox_id);
    assert_string_equal(list->items[0]->address, info->address);
    assert_string_equal(label_of(list->items[0], "task"), "täsk 1");
    assert_int_equal(list->items[0]->created_ms, info->created_ms);
    cay_sandbox_list_free(list);
    assert_done(cay_control_destroy(world.control, info->sandbox_id, NULL, &world.err));
    assert_int_equal(count_of(labels, 3), 0);
    assert_done(cay_control_destroy(world.control, info->sandbox_id, NULL, &world.err));
    cay_sandbox_info_free(info);
}

static void a_sandbox_needs_nothing_but_defaults(void **)
{
    struct cay_sandbox_request request = world_request();
    const char *one = world_create(&request);
    const char *other = world_create(&request);
    assert_string_not_equal(one, other);
    request.sandbox_id = "";
    request.network = request.runtime = "";
    assert_done(cay_control_create(world.control, &request, NULL, NULL, &world.err));
    assert_done(cay_control_create(world.control, &request, NULL, NULL, NULL));
    assert_int_equal(count_of(&world.label, 1), 4);
}

static void a_create_can_be_repeated_by_its_id(void **)
{
    char id[WORD_BYTES];
    struct cay_sandbox_request request = world_request();
    struct cay_sandbox_info *info = NULL;
    snprintf(id, sizeof(id), "conform-%s", world.label.value);
    request.sandbox_id = id;
    if (!cay_control_create(world.control, &request, NULL, &info, &world.err)) {
        assert_true(cay_error_is(&world.err, "capability_not_supported"));
        print_message("this control gives ids itself\n");
        skip();
    }
    assert_string_equal(info->sandbox_id, id);
    cay_sandbox_info_free(info);
    assert_done(cay_control_create(world.control, &request, NULL, &info, &world.err));
    assert_string_equal(info->sandbox_id, id);
    cay_sandbox_info_free(info);
    assert_int_equal(count_of(&world.label, 1), 1);
    const struct cay_pair others[] = {world.label, {"another", "1"}};
    request.labels = others;
    request.label_count = 2;
    assert_fails("session_exists",
                 cay_control_create(world.control, &request, NULL, NULL, &world.err));
}

static void labels_choose(void **)
{
    struct cay_sandbox_request request = world_request();
    for (int i = 0; i < 6; i++) {
        const struct cay_pair labels[] = {
            world.label, {"half", i % 2 ? "odd" : "even"}, {"third", i % 3 ? "no" : "yes"}};
        request.labels = labels;
        request.label_count = 3;
        world_create(&request);
    }
    assert_int_equal(count_of(&world.label, 1), 6);
    assert_int_equal(count_of((struct cay_pair[]){world.label, {"half", "odd"}}, 2), 3);
    assert_int_equal(
        count_of((struct cay_pair[]){world.label, {"half", "odd"}, {"third", "yes"}}, 3), 1);
    assert_int_equal(count_of((struct cay_pair[]){world.label, {"half", ""}}, 2), 0);
    assert_int_equal(count_of((struct cay_pair[]){world.label, {"third", NULL}}, 2), 0);
    assert_true(count_of(NULL, 0) >= 6);
}

/* Labels of this size make a host answer in several pages long before there are many sandboxes. */
static void a_list_has_all_pages(void **)
{
    static char names[LABELS][16];
    static char value[LABEL_BYTES + 1];
    struct cay_pair labels[LABELS] = {world.label};
    struct cay_sandbox_request request = world_request();
    struct cay_sandbox_list *list = NULL;
    memset(value, 'v', LABEL_BYTES);
    for (int i = 1; i < LABELS; i++) {
        snprintf(names[i], sizeof(names[i]), "label-%d", i);
        labels[i] = (struct cay_pair){names[i], value};
    }
    request.labels = labels;
    request.label_count = LABELS;
    for (int i = 0; i < MANY; i++)
        world_create(&request);
    assert_done(cay_control_list(world.control, &world.label, 1, NULL, &list, &world.err));
    assert_int_equal(list->count, MANY);
    for (size_t i = 0; i < list->count; i++) {
        assert_int_equal(list->items[i]->label_count, LABELS);
        assert_string_equal(label_of(list->items[i], "label-63"), value);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(list->items[i]->sandbox_id, list->items[j]->sandbox_id);
        if (i)
            assert_true(list->items[i]->created_ms >= list->items[i - 1]->created_ms);
    }
    cay_sandbox_list_free(list);
    assert_int_equal(count_of(labels, LABELS), MANY);
}

static void capabilities_stay(void **)
{
    const struct cay_control_capabilities *can = NULL;
    const struct cay_control_capabilities *again = NULL;
    assert_done(cay_control_capabilities(world.control, NULL, &can, &world.err));
    assert_true(can->concurrent_sandboxes >= 0 && can->max_sandbox_duration_ms >= 0);
    assert_true(can->snapshots || !can->rollback);
    world_create(NULL);
    assert_done(cay_control_capabilities(world.control, NULL, &again, &world.err));
    assert_ptr_equal(can, again);
    assert_done(cay_control_capabilities(world.control, NULL, &again, NULL));
}

static void what_is_not_there_says_so(void **)
{
    struct cay_process_request request = CAY_PROCESS_REQUEST;
    struct cay_process_status *status = NULL;
    struct cay_sandbox_request bad = world_request();
    request.binary = "true";
    request.sandbox_id = "conform-nowhere";
    assert_done(cay_control_destroy(world.control, "conform-nowhere", NULL, &world.err));
    assert_fails("session_not_found",
                 cay_control_pause(world.control, "conform-nowhere", NULL, &world.err));
    assert_fails("session_not_found",
                 cay_control_resume(world.control, "conform-nowhere", NULL, &world.err));
    assert_fails("session_not_found",
                 cay_control_launch(world.control, &request, NULL, &status, &world.err));
    assert_fails("session_not_found",
                 cay_control_kill(world.control, "conform-nowhere", "p", 0, NULL, &world.err));
    assert_fails("session_not_found", cay_control_status(world.control, "conform-nowhere", "p",
                                                         NULL, &status, &world.err));
    const char *id = world_create(NULL);
    assert_fails("process_not_found",
                 cay_control_status(world.control, id, "p-nothing", NULL, &status, &world.err));
    assert_fails("process_not_found",
                 cay_control_kill(world.control, id, "p-nothing", 0, NULL, &world.err));
    bad.template_name = "there-is-no-such-template";
    assert_fails("base_not_found", cay_control_create(world.control, &bad, NULL, NULL, &world.err));
    assert_null(status);
}

static void nothing_is_taken_for_something(void **)
{
    struct cay_control *control = NULL;
    struct cay_control *const given = world.control;
    struct cay_sandbox_list *list = NULL;
    struct cay_process_status *status = NULL;
    struct cay_process_request request = CAY_PROCESS_REQUEST;
    struct cay_error *err = &world.err;
    assert_fails("invalid_argument", cay_control_open(NULL, NULL, &control, err));
    assert_fails("invalid_argument", cay_control_open("", NULL, &control, err));
    assert_fails("invalid_argument", cay_control_open("nodes:x", NULL, &control, err));
    assert_fails("invalid_argument", cay_control_open("node", NULL, &control, err));
    assert_fails("invalid_argument", cay_control_open(world.address, NULL, NULL, err));
    assert_false(cay_control_open(NULL, NULL, NULL, NULL));
    cay_control_close(NULL);
    assert_fails("invalid_argument", cay_control_capabilities(given, NULL, NULL, err));
    assert_fails("invalid_argument", cay_control_create(NULL, NULL, NULL, NULL, err));
    assert_fails("invalid_argument", cay_control_list(NULL, NULL, 0, NULL, &list, err));
    assert_fails("invalid_argument", cay_control_list(given, NULL, 0, NULL, NULL, err));
    assert_fails("invalid_argument", cay_control_list(given, NULL, 1, NULL, &list, err));
    assert_fails("invalid_argument",
                 cay_control_list(given, &(struct cay_pair){NULL, "x"}, 1, NULL, &list, err));
    assert_fails("invalid_argument",
                 cay_control_list(given, &(struct cay_pair){"", "x"}, 1, NULL, &list, err));
    for (int i = 0; i < 2; i++) {
        const char *nothing = i ? "" : NULL;
        assert_fails("invalid_argument", cay_control_destroy(given, nothing, NULL, err));
        assert_fails("invalid_argument", cay_control_pause(given, nothing, NULL, err));
        assert_fails("invalid_argument", cay_control_resume(given, nothing, NULL, err));
        assert_fails("invalid_argument", cay_control_kill(given, nothing, "p", 0, NULL, err));
        assert_fails("invalid_argument", cay_control_kill(given, "s", nothing, 0, NULL, err));
        assert_fails("invalid_argument",
                     cay_control_status(given, "s", nothing, NULL, &status, err));
        request.binary = nothing;
        request.sandbox_id = "s";
        assert_fails("invalid_argument", cay_control_launch(given, &request, NULL, NULL, err));
    }
    assert_fails("invalid_argument", cay_control_destroy(NULL, "s", NULL, err));
    assert_fails("invalid_argument", cay_control_kill(given, "s", "p", -1, NULL, err));
    assert_fails("invalid_argument", cay_control_kill(given, "s", "p", 65, NULL, err));
    assert_fails("invalid_argument", cay_control_status(given, "s", "p", NULL, NULL, err));
    assert_fails("invalid_argument", cay_control_launch(given, NULL, NULL, NULL, err));
    assert_false(cay_control_launch(NULL, NULL, NULL, NULL, NULL));
    cay_sandbox_info_free(NULL);
    cay_sandbox_list_free(NULL);
    cay_process_status_free(NULL);
    assert_true(!control && !list && !status);
}

static void requests_that_make_no_sense_are_refused(void **)
{
    struct cay_error *err = &world.err;
    struct cay_sandbox_request request = world_request();
    struct cay_process_request process = CAY_PROCESS_REQUEST;
    struct cay_call_options options = CAY_CALL_OPTIONS;
    const double wrong[] = {-1, -1e300, strtod("nan", NULL)};
    for (int i = 0; i < 3; i++) {
        request.cpus = wrong[i];
        assert_fails("invalid_argument",
                     cay_control_create(world.control, &request, NULL, NULL, err));
    }
    request = world_request();
    request.memory_bytes = -1;
    assert_fails("invalid_argument", cay_control_create(world.control, &request, NULL, NULL, err));
    request = world_request();
    request.network = "sometimes";
    assert_fails("invalid_argument", cay_control_create(world.control, &request, NULL, NULL, err));
    request = world_request();
    request.template_name = "not \xff UTF-8";
    assert_fails("invalid_argument", cay_control_create(world.control, &request, NULL, NULL, err));
    request = world_request();
    request.size = 0;
    assert_fails("invalid_argument", cay_control_create(world.control, &request, NULL, NULL, err));
    options.size = 0;
    assert_fails("invalid_argument", cay_control_pause(world.control, "s", &options, err));
    process.sandbox_id = "s";
    process.binary = "true";
    process.arg_count = 1;
    assert_fails("invalid_argument", cay_control_launch(world.control, &process, NULL, NULL, err));
    process.args = (const char *const[]){NULL};
    assert_fails("invalid_argument", cay_control_launch(world.control, &process, NULL, NULL, err));
    process.arg_count = 0;
    process.expose_port = 65536;
    assert_fails("invalid_argument", cay_control_launch(world.control, &process, NULL, NULL, err));
    assert_int_equal(count_of(&world.label, 1), 0);
}

static void callers_of_other_headers_are_understood(void **)
{
    struct cay_sandbox_request request = world_request();
    request.size = offsetof(struct cay_sandbox_request, cpus);
    request.cpus = -1; /* behind the end of what the caller has */
    request.runtime = "there is no such runtime";
    world_create(&request);
    struct cay_sandbox_request newer[2] = {world_request()};
    newer[0].size = sizeof(newer);
    world_create(newer);
    newer[1].cpus = 1; /* whatever it means: it cannot be done here */
    assert_fails("not_supported", cay_control_create(world.control, newer, NULL, NULL, &world.err));
    assert_int_equal(count_of(&world.label, 1), 2);
}

static atomic_int failures;

static void *come_and_go(void *)
{
    const struct cay_sandbox_request request = world_request();
    struct cay_sandbox_info *info = NULL;
    struct cay_error err = {};
    if (!cay_control_create(world.control, &request, NULL, &info, &err) ||
        !cay_control_destroy(world.control, info->sandbox_id, NULL, &err)) {
        fprintf(stderr, "%s\n", err.text);
        failures++;
    }
    cay_sandbox_info_free(info);
    return NULL;
}

static void a_crowd_can_use_one_control(void **)
{
    pthread_t threads[CROWD];
    failures = 0;
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
    for (int i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(failures, 0);
    assert_int_equal(count_of(&world.label, 1), 0);
}

static atomic_bool is_over;

/* Looks all the time; what fails may fail for one reason only. */
static void *look(void *)
{
    while (!is_over) {
        struct cay_sandbox_list *list = NULL;
        struct cay_error err = {};
        if (cay_control_list(world.control, &world.label, 1, NULL, &list, &err)) {
            failures += list->count != 1;
            cay_sandbox_list_free(list);
        } else if (cay_error_code(&err) != CAY_CODE_UNAVAILABLE) {
            fprintf(stderr, "%s: %s\n", cay_error_reason(&err), err.text);
            failures++;
        }
    }
    return NULL;
}

struct launches {
    const char *sandbox_id;
    int made;
    atomic_int acknowledged;
};

/* Launches all the time; every program leaves a line of its own. */
static void *launch(void *state)
{
    struct launches *self = state;
    while (!is_over) {
        char script[64];
        const char *const args[] = {"-c", script};
        struct cay_process_request request = CAY_PROCESS_REQUEST;
        struct cay_error err = {};
        snprintf(script, sizeof(script), "echo %d >> ran", ++self->made);
        request.sandbox_id = self->sandbox_id;
        request.binary = "sh";
        request.args = args;
        request.arg_count = 2;
        if (cay_control_launch(world.control, &request, NULL, NULL, &err)) {
            self->acknowledged++;
        } else if (cay_error_code(&err) != CAY_CODE_UNAVAILABLE) {
            fprintf(stderr, "%s: %s\n", cay_error_reason(&err), err.text);
            failures++;
        }
    }
    return NULL;
}

/* All that were acknowledged, and none twice. */
static bool have_run(const struct launches *launches)
{
    char script[200];
    snprintf(script, sizeof(script),
             "for i in $(seq 300); do [ $(wc -l < ran) -ge %d ] && break; sleep 0.1; done; "
             "[ $(wc -l < ran) -ge %d ] && [ -z \"$(sort ran | uniq -d)\" ]",
             launches->acknowledged, launches->acknowledged);
    return world_run(launches->sandbox_id, script) == 0;
}

static void await_launches(struct launches *launches, int count)
{
    int wanted = launches->acknowledged + count;
    for (int64_t end_ms = world_now_ms() + PATIENCE_MS; launches->acknowledged < wanted;) {
        assert_true(world_now_ms() < end_ms);
        world_sleep_ms(5);
    }
}

static void a_host_that_restarts_is_found_again(void **)
{
    char answer[WORD_BYTES];
    pthread_t threads[4];
    pthread_t launcher;
    const char *id = world_create(NULL);
    struct launches launches = {.sandbox_id = id};
    const char *process = world_launch(id, "exit 3");
    cay_process_status_free(world_wait(id, process));
    failures = 0;
    is_over = false;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, look, NULL), 0);
    assert_int_equal(pthread_create(&launcher, NULL, launch, &launches), 0);
    await_launches(&launches, 3);
    bool is_helped = world_help("restart", answer);
    await_launches(&launches, 3);
    is_over = true;
    pthread_join(launcher, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    if (!is_helped) {
        print_message("nobody restarts this host\n");
        skip();
    }
    assert_string_equal(answer, "done");
    assert_int_equal(failures, 0);
    assert_int_equal(count_of(&world.label, 1), 1);
    assert_true(have_run(&launches));
    assert_int_equal(world_run(id, "exit 4"), 4);
    struct cay_process_status *status = world_wait(id, process);
    assert_int_equal(status->exit_code, 3);
    cay_process_status_free(status);
}

static void a_key_that_is_revoked_opens_nothing(void **)
{
    char key[WORD_BYTES];
    char answer[WORD_BYTES];
    struct cay_control *control = NULL;
    struct cay_sandbox_list *list = NULL;
    struct cay_sandbox_request request = world_request();
    struct cay_control_options options = CAY_CONTROL_OPTIONS;
    if (!world_help("key", key)) {
        print_message("nobody makes keys for this host\n");
        skip();
    }
    options.key = key;
    assert_done(cay_control_open(world.address, &options, &control, &world.err));
    assert_done(cay_control_create(control, &request, NULL, NULL, &world.err));
    assert_true(world_help("revoke", answer));
    assert_fails("unauthenticated", cay_control_create(control, &request, NULL, NULL, &world.err));
    assert_fails("unauthenticated",
                 cay_control_list(control, &world.label, 1, NULL, &list, &world.err));
    assert_null(strstr(world.err.text, key));
    cay_control_close(control);
    assert_int_equal(count_of(&world.label, 1), 1);
}

static void a_control_opens_without_its_host(void **)
{
    struct cay_control *control = NULL;
    struct cay_control_options options = CAY_CONTROL_OPTIONS;
    options.timeout_ms = 1;
    assert_done(cay_control_open(world.address, &options, &control, &world.err));
    cay_control_close(control);
    options.timeout_ms = -1;
    assert_fails("invalid_argument",
                 cay_control_open(world.address, &options, &control, &world.err));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(a_sandbox_is_made_told_of_and_removed),
        TEST(a_sandbox_needs_nothing_but_defaults),
        TEST(a_create_can_be_repeated_by_its_id),
        TEST(labels_choose),
        TEST(a_list_has_all_pages),
        TEST(capabilities_stay),
        TEST(what_is_not_there_says_so),
        TEST(nothing_is_taken_for_something),
        TEST(requests_that_make_no_sense_are_refused),
        TEST(callers_of_other_headers_are_understood),
        TEST(a_crowd_can_use_one_control),
        TEST(a_host_that_restarts_is_found_again),
        TEST(a_key_that_is_revoked_opens_nothing),
        TEST(a_control_opens_without_its_host),
    };
    world_open(argc, argv);
    int result = cmocka_run_group_tests(tests, NULL, NULL);
    cay_control_close(world.control);
    return result;
}
