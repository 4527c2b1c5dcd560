/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tool/local/place.h"

#include <pthread.h>
#include <sys/resource.h>

/* Commands in the process of whoever calls: how they end, what is left of them, and what the caller
 * does not notice. */

static void an_end_is_told_as_the_daemon_tells_it(void **state)
{
    struct place *place = *state;
    expect_bash(place, "echo hi", NULL, "hi\n");
    expect_bash(place, "echo hi; echo no >&2; exit 3", NULL, "hi\n[stderr]\nno\n[exit code 3]\n");
    expect_bash(place, "true", NULL, "(no output)\n");
    expect_bash(place, "kill -TERM $$", NULL, "(no output)\n[killed by signal 15]\n");
    expect_bash(place, "cat", "\"stdin\":\"a\\nb\"", "a\nb\n");
    expect_bash(place, "printf '\\\\377x'", NULL, "\xEF\xBF\xBDx\n");
    expect_bash(place, "umask; ls /proc/self/fd | wc -l", NULL, "0022\n4\n");
}

static void the_facts_of_an_end_are_there(void **state)
{
    struct place *place = *state;
    struct try try;
    try_bash(&try, "echo abc; echo de >&2; exit 7", NULL);
    try.tool.tool_call_id = CAY_STR("c1");
    assert_true(try_run(&try, place->local));
    const struct cay_v1_exec_result *exec = try.result.exec;
    assert_true(try.result.is_error);
    assert_string_equal(try.result.error_reason.ptr, "exit_code");
    assert_string_equal(try.result.tool_call_id.ptr, "c1");
    assert_string_equal(try.result.tool_name.ptr, "bash");
    assert_int_equal(try.result.tier, CAY_V1_TOOL_TIER_SANDBOX);
    assert_int_equal(exec->cause, CAY_V1_END_CAUSE_EXITED);
    assert_int_equal(exec->exit_code, 7);
    assert_int_equal(exec->stdout_bytes, 4);
    assert_int_equal(exec->stderr_bytes, 3);
    assert_string_equal(exec->message.ptr, "exit code 7");
    assert_non_null(exec->started_at);
    try_finish(&try);
}

static void a_timeout_kills_all_that_was_started(void **state)
{
    struct place *place = *state;
    struct try try;
    try_bash(&try,
             "setsid sleep 300 & echo $! > a; (trap '' TERM; sleep 300) & echo $! > b; "
             "echo out; sleep 300",
             "\"timeout_ms\":400");
    int64_t before = cay_clock_ms();
    assert_true(try_run(&try, place->local));
    int64_t took = cay_clock_ms() - before;
    assert_true(took >= 400 && took < 5000);
    assert_int_equal(try.result.exec->cause, CAY_V1_END_CAUSE_TIMEOUT_WALL);
    assert_string_equal(try.result.error_reason.ptr, "timeout_wall");
    assert_non_null(strstr(try_text(&try), "out\n[timed out after 0."));
    assert_non_null(strstr(try_text(&try), "processes it started were killed with it]"));
    assert_false(pid_is_alive(place_pid(place, "a")));
    assert_false(pid_is_alive(place_pid(place, "b")));
    try_finish(&try);
}

static void silence_ends_a_command_and_output_does_not(void **state)
{
    struct place *place = *state;
    struct try try;
    try_bash(&try, "for i in 1 2 3 4 5 6; do echo $i; sleep 0.1; done; sleep 300",
             "\"no_output_timeout_ms\":400");
    assert_true(try_run(&try, place->local));
    assert_int_equal(try.result.exec->cause, CAY_V1_END_CAUSE_TIMEOUT_NO_OUTPUT);
    assert_non_null(strstr(try_text(&try), "5\n6\n[no output for too long; killed after "));
    try_finish(&try);
}

static void leftovers_go_on_and_do_not_hold_the_answer_up(void **state)
{
    struct place *place = *state;
    struct try try;
    struct cay_error err = {};
    struct cay_local_processes list;
    try_bash(&try, "(sleep 0.3; echo late; echo done > marker; sleep 300) & echo $! > a; echo now",
             NULL);
    int64_t before = cay_clock_ms();
    assert_true(try_run(&try, place->local));
    assert_true(cay_clock_ms() - before < 300);
    assert_non_null(strstr(try_text(&try), "now\n["));
    assert_non_null(strstr(try_text(&try), "processes it started still run]"));
    assert_true(try.result.exec->leftover_count >= 1);
    assert_false(try.result.exec->leftovers.items[0].killed);
    struct cay_str id = try.result.exec->leftovers.items[0].process_id;
    assert_true(id.len);
    /* It prints, and is not killed for it. */
    place_wait_size(place, "marker", 1);
    assert_true(pid_is_alive(place_pid(place, "a")));
    assert_true(cay_local_list(place->local, &try.arena, &list, &err));
    assert_int_equal(list.count, 1);
    assert_int_equal(list.items[0].origin, CAY_V1_PROCESS_ORIGIN_LEFTOVER);
    assert_true(cay_local_kill(place->local, id, SIGKILL, &err));
    for (int64_t until = cay_clock_ms() + PLACE_WAIT_MS; list.count;) {
        assert_true(cay_clock_ms() < until);
        assert_true(cay_local_list(place->local, &try.arena, &list, &err));
    }
    assert_false(pid_is_alive(place_pid(place, "a")));
    try_finish(&try);
}

static void leftovers_die_with_a_command_that_says_so(void **state)
{
    struct place *place = *state;
    struct try try;
    try_bash(&try, "setsid sleep 300 & echo $! > a", NULL);
    try.policy.leftovers = CAY_V1_LEFTOVER_POLICY_KILL;
    assert_true(try_run(&try, place->local));
    assert_false(try.result.is_error);
    assert_string_equal(try_text(&try),
                        "(no output)\n[1 processes it started were killed with it]\n");
    assert_false(pid_is_alive(place_pid(place, "a")));
    try_finish(&try);
}

static long peak_kib(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

static void a_gigabyte_of_output_takes_no_memory(void **state)
{
    struct place *place = *state;
    struct try try;
    try_bash(&try, "head -c 1000000000 /dev/zero | tr '\\\\0' x", NULL);
    long before = peak_kib();
    assert_true(try_run(&try, place->local));
    assert_true(peak_kib() - before < 16 * 1024);
    assert_int_equal(try.result.exec->stdout_bytes, 1000000000);
    assert_int_equal(try.result.truncation->total_bytes, 1000000000);
    assert_non_null(strstr(try_text(&try), "bytes left out ...]"));
    try_finish(&try);
}

struct progress {
    char id[64];
    char text[256];
    int64_t end;
};

static void on_started(void *context, const char *process_id)
{
    struct progress *progress = context;
    snprintf(progress->id, sizeof(progress->id), "%s", process_id);
}

static void on_output(void *context, const struct cay_v1_output_chunk *chunk)
{
    struct progress *progress = context;
    size_t len = strlen(progress->text);
    assert_int_equal(chunk->offset, progress->end);
    progress->end += (int64_t)chunk->data.len;
    snprintf(progress->text + len, sizeof(progress->text) - len, "%d:%.*s", (int)chunk->stream,
             (int)chunk->data.len, chunk->data.ptr);
}

static void output_is_told_as_it_comes(void **state)
{
    struct place *place = *state;
    struct try try;
    struct progress seen = {};
    const struct cay_local_progress progress = {on_started, on_output, &seen};
    try_bash(&try, "echo a; sleep 0.05; echo b >&2; sleep 0.05; echo c", NULL);
    try.call.progress = &progress;
    assert_true(try_run(&try, place->local));
    assert_string_equal(seen.text, "1:a\n2:b\n1:c\n");
    assert_memory_equal(seen.id, "p-", 2);
    try_finish(&try);
}

static void what_cannot_start_says_so(void **state)
{
    struct place *place = *state;
    struct try try;
    try_bash(&try, "true", NULL);
    try.tool.cwd = CAY_STR("/workspace/nowhere");
    assert_false(try_run(&try, place->local));
    assert_string_equal(try.err.text, "cwd: it cannot be entered: No such file or directory");
    assert_int_equal(try.err.reason, CAY_R_INVALID_ARGUMENT);
    try_finish(&try);
    try_init(&try, "bsh", "{}");
    assert_false(try_run(&try, place->local));
    assert_int_equal(try.err.reason, CAY_R_TOOL_NOT_FOUND);
    assert_non_null(strstr(try.err.text, "did you mean 'bash'?"));
    try_finish(&try);
    try_bash(&try, "true", "\"nothing\":1");
    assert_false(try_run(&try, place->local));
    assert_int_equal(try.err.reason, CAY_R_INVALID_ARGUMENT);
    try_finish(&try);
    try_init(&try, "git_status", "{}");
    struct cay_pb_pair path = {CAY_STR("PATH"), CAY_STR("/nowhere")};
    try.tool.env = (struct cay_pb_pairs){&path, 1};
    assert_true(try_run(&try, place->local));
    assert_string_equal(try.result.error_reason.ptr, "program_not_found");
    assert_string_equal(try_text(&try),
                        "there is no git in this sandbox; install it, or use a base that has it\n");
    try_finish(&try);
}

/* --- by other threads --- */

static void *run_try(void *data)
{
    void **args = data;
    (void)try_run(args[0], ((struct place *)args[1])->local);
    return NULL;
}

static void a_call_is_cancelled_by_another_thread(void **state)
{
    struct place *place = *state;
    struct try try;
    pthread_t thread;
    void *args[] = {&try, place};
    try_bash(&try, "setsid sleep 300 & echo $! > a; echo x > ready; wait", NULL);
    try.call.cancel_fd = eventfd(0, EFD_CLOEXEC);
    assert_int_equal(pthread_create(&thread, NULL, run_try, args), 0);
    place_wait_size(place, "ready", 1);
    assert_int_equal(eventfd_write(try.call.cancel_fd, 1), 0);
    pthread_join(thread, NULL);
    assert_false(try.is_done);
    assert_int_equal(try.err.reason, CAY_R_CANCELED);
    assert_false(pid_is_alive(place_pid(place, "a")));
    close(try.call.cancel_fd);
    try_finish(&try);
}

static void kill_all_brings_everybody_back(void **state)
{
    struct place *place = *state;
    struct try try;
    pthread_t thread;
    void *args[] = {&try, place};
    try_bash(&try, "echo x > ready; sleep 300", NULL);
    assert_int_equal(pthread_create(&thread, NULL, run_try, args), 0);
    place_wait_size(place, "ready", 1);
    cay_local_kill_all(place->local);
    pthread_join(thread, NULL);
    assert_string_equal(try_text(&try), "(no output)\n[killed by signal 9]\n");
    assert_int_equal(try.result.exec->cause, CAY_V1_END_CAUSE_KILLED);
    assert_false(try_run(&try, place->local));
    assert_int_equal(try.err.reason, CAY_R_SESSION_DESTROYING);
    try_finish(&try);
}

static void fifty_threads_run_at_once(void **state)
{
    enum { THREADS = 50 };
    struct place *place = *state;
    static struct try tries[THREADS];
    static void *args[THREADS][2];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        char command[64];
        snprintf(command, sizeof(command), "echo %d; cat; exit %d", i, i);
        try_bash(&tries[i], command, "\"stdin\":\"in\"");
        args[i][0] = &tries[i];
        args[i][1] = place;
        assert_int_equal(pthread_create(&threads[i], NULL, run_try, args[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        char text[64];
        pthread_join(threads[i], NULL);
        int len = snprintf(text, sizeof(text), "%d\nin\n", i);
        if (i)
            snprintf(text + len, sizeof(text) - (size_t)len, "[exit code %d]\n", i);
        assert_string_equal(try_text(&tries[i]), text);
        try_finish(&tries[i]);
    }
}

/* --- in the background, and paused --- */

static struct cay_str start_background(struct place *place, struct try *try, const char *command)
{
    try_bash(try, command, "\"background\":true");
    assert_true(try_run(try, place->local));
    char text[128];
    snprintf(text, sizeof(text), "It runs in the background as process %.*s.\n",
             (int)try->result.process_id.len, try->result.process_id.ptr);
    assert_string_equal(try_text(try), text);
    return try->result.process_id;
}

static void one_in_the_background_is_listed_read_and_killed(void **state)
{
    struct place *place = *state;
    struct try try;
    struct cay_error err = {};
    struct cay_local_processes list;
    struct cay_local_output output;
    struct cay_str id =
        start_background(place, &try, "echo hello; echo oops >&2; echo x > ready; sleep 300");
    place_wait_size(place, "ready", 1);
    assert_true(cay_local_list(place->local, &try.arena, &list, &err));
    assert_int_equal(list.count, 1);
    assert_int_equal(list.items[0].state, CAY_V1_PROCESS_STATE_RUNNING);
    assert_true(cay_str_equal(list.items[0].id, id));
    for (int64_t until = cay_clock_ms() + PLACE_WAIT_MS;;) {
        assert_true(cay_local_output(place->local, id, &try.arena, &output, &err));
        if (output.out_bytes + output.err_bytes == 11)
            break;
        assert_true(cay_clock_ms() < until);
        place_pause();
    }
    assert_true(cay_str_is(output.out, "hello\n"));
    assert_true(cay_str_is(output.err_out, "oops\n"));
    assert_true(cay_local_kill(place->local, id, SIGTERM, &err));
    for (int64_t until = cay_clock_ms() + PLACE_WAIT_MS;;) {
        assert_true(cay_local_list(place->local, &try.arena, &list, &err));
        if (list.items[0].state == CAY_V1_PROCESS_STATE_EXITED)
            break;
        assert_true(cay_clock_ms() < until);
        place_pause();
    }
    assert_int_equal(list.items[0].result->cause, CAY_V1_END_CAUSE_KILLED);
    assert_int_equal(list.items[0].result->signal, SIGTERM);
    assert_false(cay_local_kill(place->local, CAY_STR("p-99"), SIGTERM, &err));
    assert_int_equal(err.reason, CAY_R_PROCESS_NOT_FOUND);
    try_finish(&try);
}

/* The other one is in a session of its own. */
static void pause_really_stops_and_resume_goes_on(void **state)
{
    struct place *place = *state;
    struct try try;
    struct try refused;
    struct cay_error err = {};
    (void)start_background(place, &try,
                           "setsid bash -c 'echo $$ > b; while :; do echo x >> ticks_b; done' & "
                           "echo $$ > a; while :; do echo x >> ticks_a; done");
    place_wait_size(place, "ticks_a", 10);
    place_wait_size(place, "ticks_b", 10);
    assert_true(cay_local_pause(place->local, &err));
    assert_int_equal(pid_state(place_pid(place, "a")), 'T');
    assert_int_equal(pid_state(place_pid(place, "b")), 'T');
    off_t sizes[] = {place_size(place, "ticks_a"), place_size(place, "ticks_b")};
    try_bash(&refused, "true", NULL);
    assert_false(try_run(&refused, place->local));
    assert_int_equal(refused.err.reason, CAY_R_SESSION_PAUSED);
    for (int i = 0; i < 25; i++)
        place_pause();
    assert_int_equal(place_size(place, "ticks_a"), sizes[0]);
    assert_int_equal(place_size(place, "ticks_b"), sizes[1]);
    assert_true(cay_local_resume(place->local, &err));
    place_wait_size(place, "ticks_a", sizes[0] + 10);
    place_wait_size(place, "ticks_b", sizes[1] + 10);
    assert_true(try_run(&refused, place->local));
    try_finish(&refused);
    try_finish(&try);
}

static void time_stands_still_in_a_pause(void **state)
{
    struct place *place = *state;
    struct try try;
    struct cay_error err = {};
    pthread_t thread;
    void *args[] = {&try, place};
    try_bash(&try, "echo x > ready; sleep 0.3; echo done", "\"timeout_ms\":900");
    assert_int_equal(pthread_create(&thread, NULL, run_try, args), 0);
    place_wait_size(place, "ready", 1);
    assert_true(cay_local_pause(place->local, &err));
    int64_t until = cay_clock_ms() + 1200;
    while (cay_clock_ms() < until)
        place_pause();
    assert_true(cay_local_resume(place->local, &err));
    pthread_join(thread, NULL);
    assert_string_equal(try_text(&try), "done\n");
    try_finish(&try);
}

/* --- the caller's own affairs --- */

static void a_caller_that_ignores_its_children_gets_the_status(void **state)
{
    struct place *place = *state;
    struct sigaction before;
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    assert_int_equal(sigaction(SIGCHLD, &ignore, &before), 0);
    expect_bash(place, "echo hi; exit 3", NULL, "hi\n[exit code 3]\n");
    /* And the command has the usual disposition. */
    expect_bash(place, "grep SigIgn /proc/self/status", NULL, "SigIgn:\t0000000000000000\n");
    assert_int_equal(sigaction(SIGCHLD, &before, NULL), 0);
}

static volatile sig_atomic_t child_signals;

static void on_child(int)
{
    child_signals++;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

/* The caller waits for all of its children whenever one ends, and is told of its own only. */
static void a_caller_that_reaps_everybody_does_not_reap_ours(void **state)
{
    struct place *place = *state;
    struct sigaction before;
    const struct sigaction handler = {.sa_handler = on_child};
    assert_int_equal(sigaction(SIGCHLD, &handler, &before), 0);
    child_signals = 0;
    expect_bash(place, "exit 4", NULL, "(no output)\n[exit code 4]\n");
    assert_int_equal(child_signals, 0);
    pid_t own = fork();
    if (own == 0)
        _exit(0);
    while (child_signals == 0)
        place_pause();
    expect_bash(place, "exit 5", NULL, "(no output)\n[exit code 5]\n");
    assert_int_equal(child_signals, 1);
    assert_int_equal(sigaction(SIGCHLD, &before, NULL), 0);
}

static void signals_mask_and_directory_stay_as_they_were(void **state)
{
    struct place *place = *state;
    sigset_t before;
    sigset_t after;
    char cwd[2][4096];
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &before), 0);
    assert_non_null(getcwd(cwd[0], sizeof(cwd[0])));
    mode_t mask = umask(027);
    /* A command that takes no input: its writer is us, and we do not die of SIGPIPE. */
    char *json = malloc(700'000);
    assert_non_null(json);
    size_t len = (size_t)snprintf(json, 700'000, "{\"cmd\":\"exec <&-; sleep 0.05\",\"stdin\":\"");
    memset(json + len, 'x', 600'000);
    snprintf(json + len + 600'000, 64, "\"}");
    struct try try;
    try_init(&try, "bash", json);
    assert_true(try_run(&try, place->local));
    assert_string_equal(try_text(&try), "(no output)\n");
    try_finish(&try);
    free(json);
    assert_int_equal(umask(mask), 027);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    assert_memory_equal(&before, &after, sizeof(before));
    assert_non_null(getcwd(cwd[1], sizeof(cwd[1])));
    assert_string_equal(cwd[0], cwd[1]);
}

/* A caller that dies leaves nothing behind, whatever session its commands are in. */
static void a_crash_of_the_caller_takes_all_with_it(void **state)
{
    struct place *place = *state;
    pid_t caller = fork();
    if (caller == 0) {
        struct cay_local *local = NULL;
        struct try try;
        if (!cay_local_open(place->dir, NULL, &local, &try.err))
            _exit(1);
        try_bash(&try, "setsid sleep 300 & echo $! > a; echo $$ > b; sleep 300", NULL);
        (void)try_run(&try, local);
        _exit(2);
    }
    place_wait_size(place, "b", 2);
    assert_int_equal(kill(caller, SIGKILL), 0);
    assert_int_equal(waitpid(caller, NULL, 0), caller);
    int64_t until = cay_clock_ms() + PLACE_WAIT_MS;
    while (pid_is_alive(place_pid(place, "a")) || pid_is_alive(place_pid(place, "b"))) {
        assert_true(cay_clock_ms() < until);
        place_pause();
    }
}

static void nobody_needs_to_be_root(void **state)
{
    struct place *place = *state;
    if (geteuid() != 0) {
        print_message("skipped: the other cases are of somebody else already\n");
        skip();
    }
    char path[300];
    snprintf(path, sizeof(path), "/tmp/cay-local-%d", (int)getpid());
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chown(path, 65534, 65534), 0);
    pid_t child = fork();
    if (child == 0) {
        struct cay_local *local = NULL;
        struct cay_error err = {};
        struct try try;
        if (setgid(65534) < 0 || setuid(65534) < 0 || !cay_local_open(path, NULL, &local, &err))
            _exit(1);
        try_init(&try, "write_file", "{\"path\":\"a.txt\",\"content\":\"mine\"}");
        if (!try_run(&try, local) || try.result.is_error)
            _exit(2);
        try_bash(&try, "id -u; cat a.txt; stat -c %u a.txt; (sleep 300 &)", NULL);
        if (!try_run(&try, local) || strncmp(try_text(&try), "65534\nmine65534\n", 16) != 0)
            _exit(3);
        if (!cay_local_pause(local, &err) || !cay_local_resume(local, &err))
            _exit(4);
        cay_local_close(local);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    place_remove_dir(path);
    assert_int_equal(status, 0);
    (void)place;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, place_open, place_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(an_end_is_told_as_the_daemon_tells_it),
        CASE(the_facts_of_an_end_are_there),
        CASE(a_timeout_kills_all_that_was_started),
        CASE(silence_ends_a_command_and_output_does_not),
        CASE(leftovers_go_on_and_do_not_hold_the_answer_up),
        CASE(leftovers_die_with_a_command_that_says_so),
        CASE(a_gigabyte_of_output_takes_no_memory),
        CASE(output_is_told_as_it_comes),
        CASE(what_cannot_start_says_so),
        CASE(a_call_is_cancelled_by_another_thread),
        CASE(kill_all_brings_everybody_back),
        CASE(fifty_threads_run_at_once),
        CASE(one_in_the_background_is_listed_read_and_killed),
        CASE(pause_really_stops_and_resume_goes_on),
        CASE(time_stands_still_in_a_pause),
        CASE(a_caller_that_ignores_its_children_gets_the_status),
        CASE(a_caller_that_reaps_everybody_does_not_reap_ours),
        CASE(signals_mask_and_directory_stay_as_they_were),
        CASE(a_crash_of_the_caller_takes_all_with_it),
        CASE(nobody_needs_to_be_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
