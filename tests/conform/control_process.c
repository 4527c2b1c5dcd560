/* SPDX-License-Identifier: Apache-2.0 */
/* What every control promises of processes, ports, pauses and limits. */
#include "tests/conform/control_world.h"

#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MIB = 1024 * 1024, PAGE_BYTES = 4096 };

static const struct cay_control_capabilities *capabilities(void)
{
    const struct cay_control_capabilities *can = NULL;
    assert_done(cay_control_capabilities(world.control, NULL, &can, &world.err));
    return can;
}

static void the_exit_code_is_told(void **)
{
    const char *id = world_create(NULL);
    assert_int_equal(world_run(id, "exit 0"), 0);
    assert_int_equal(world_run(id, "exit 7"), 7);
    assert_int_equal(world_run(id, "exit 255"), 255);
}

static void a_process_runs_until_it_is_killed(void **)
{
    const int numbers[] = {0, SIGKILL, SIGTERM, SIGUSR1};
    const int ended_by[] = {SIGTERM, SIGKILL, SIGTERM, SIGUSR1};
    const char *id = world_create(NULL);
    for (int i = 0; i < 4; i++) {
        struct cay_process_status *status = NULL;
        const char *process = world_launch(id, "exec sleep 1000");
        assert_done(cay_control_status(world.control, id, process, NULL, &status, &world.err));
        assert_in_range(status->state, CAY_PROCESS_STARTING, CAY_PROCESS_RUNNING);
        assert_string_equal(status->process_id, process);
        assert_string_equal(status->address, "");
        assert_true(!status->has_exit_code && !status->signal && !status->is_listening);
        cay_process_status_free(status);
        assert_done(cay_control_kill(world.control, id, process, numbers[i], NULL, &world.err));
        status = world_wait(id, process);
        assert_int_equal(status->signal, ended_by[i]);
        assert_false(status->has_exit_code);
        cay_process_status_free(status);
        assert_done(cay_control_kill(world.control, id, process, 0, NULL, &world.err));
    }
}

static void a_signal_reaches_all_that_a_process_started(void **)
{
    const char *id = world_create(NULL);
    const char *process = world_launch(id, "sleep 1000 & echo $! > child; wait");
    for (int64_t end_ms = world_now_ms() + PATIENCE_MS; world_run(id, "[ -s child ]") != 0;)
        assert_true(world_now_ms() < end_ms);
    assert_int_equal(world_run(id, "kill -0 $(cat child)"), 0);
    assert_done(cay_control_kill(world.control, id, process, SIGKILL, NULL, &world.err));
    cay_process_status_free(world_wait(id, process));
    for (int64_t end_ms = world_now_ms() + PATIENCE_MS;
         world_run(id, "kill -0 $(cat child) 2>/dev/null") == 0;)
        assert_true(world_now_ms() < end_ms);
}

static void a_process_gets_its_arguments_and_variables(void **)
{
    const char *const args[] = {"-c",
                                "[ $# = 3 ] || exit 10\n"
                                "[ \"$1\" = '' ] || exit 11\n"
                                "[ \"$2\" = 'two words; $HOME' ] || exit 12\n"
                                "[ \"$3\" = 'ü' ] || exit 13\n"
                                "[ \"$NAME\" = 'a value' ] || exit 14\n"
                                "[ \"${EMPTY-none}\" = '' ] || exit 15\n"
                                "[ -d usr ] || exit 16\n",
                                "sh",
                                "",
                                "two words; $HOME",
                                "ü"};
    const struct cay_pair environment[] = {{"NAME", "a value"}, {"EMPTY", NULL}};
    const char *id = world_create(NULL);
    struct cay_process_request request = CAY_PROCESS_REQUEST;
    struct cay_process_status *status = NULL;
    request.sandbox_id = id;
    request.binary = "sh";
    request.args = args;
    request.arg_count = 6;
    request.environment = environment;
    request.environment_count = 2;
    request.cwd = "/";
    assert_done(cay_control_launch(world.control, &request, NULL, &status, &world.err));
    struct cay_process_status *end = world_wait(id, status->process_id);
    assert_int_equal(end->exit_code, 0);
    cay_process_status_free(status);
    cay_process_status_free(end);
}

static void a_program_that_cannot_be_started_is_an_error(void **)
{
    const char *id = world_create(NULL);
    struct cay_process_request request = CAY_PROCESS_REQUEST;
    struct cay_process_status *status = NULL;
    request.sandbox_id = id;
    request.binary = "there-is-no-such-program";
    assert_false(cay_control_launch(world.control, &request, NULL, &status, &world.err));
    assert_int_equal(cay_error_code(&world.err), CAY_CODE_NOT_FOUND);
    request.binary = "/etc/passwd";
    assert_false(cay_control_launch(world.control, &request, NULL, &status, NULL));
    request.binary = "true";
    request.user = "there-is-no-such-user";
    assert_fails("user_not_found",
                 cay_control_launch(world.control, &request, NULL, &status, &world.err));
    assert_null(status);
}

/* --- ports --- */

/* Connects to "host:port" as anybody would. */
static int dial(const char *address)
{
    char host[WORD_BYTES];
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const char *colon = strrchr(address, ':');
    assert_non_null(colon);
    snprintf(host, sizeof(host), "%.*s", (int)(colon - address), address);
    size_t len = strlen(host);
    char *name = host;
    if (len && host[0] == '[') {
        host[len - 1] = '\0';
        name++;
    }
    if (getaddrinfo(name, colon + 1, &hints, &found) != 0)
        fail_msg("'%s' is no address", address);
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) < 0) {
        close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

/* The server answers with this text. */
static bool serves(const char *address, const char *text)
{
    static const char request[] = "GET /index.html HTTP/1.0\r\n\r\n";
    char page[PAGE_BYTES + 1] = "";
    size_t len = 0;
    int fd = dial(address);
    if (fd < 0)
        return false;
    if (write(fd, request, strlen(request)) == (ssize_t)strlen(request)) {
        for (ssize_t got; len < PAGE_BYTES && (got = read(fd, page + len, PAGE_BYTES - len)) > 0;)
            len += (size_t)got;
    }
    close(fd);
    page[len] = '\0';
    return strncmp(page, "HTTP/1.", 7) == 0 && strstr(page, text);
}

static bool launch_server(const char *id, const char *text, struct cay_process_status **out_status)
{
    char script[WORD_BYTES];
    const char *const args[] = {"-c", script};
    struct cay_process_request request = CAY_PROCESS_REQUEST;
    snprintf(script, sizeof(script),
             "mkdir -p www && echo %s > www/index.html && "
             "exec busybox httpd -f -p 127.0.0.1:8080 -h www",
             text);
    request.sandbox_id = id;
    request.binary = "sh";
    request.args = args;
    request.arg_count = 2;
    request.expose_port = 8080;
    return cay_control_launch(world.control, &request, NULL, out_status, &world.err);
}

static bool is_listening(const char *id, const char *process)
{
    struct cay_process_status *status = NULL;
    assert_done(cay_control_status(world.control, id, process, NULL, &status, &world.err));
    assert_int_not_equal(status->state, CAY_PROCESS_EXITED);
    bool listens = status->is_listening;
    cay_process_status_free(status);
    return listens;
}

static void wait_until_it_listens(const char *id, const char *process)
{
    for (int64_t end_ms = world_now_ms() + PATIENCE_MS; !is_listening(id, process);) {
        assert_true(world_now_ms() < end_ms);
        world_sleep_ms(20);
    }
}

static void skip_without_ports(void)
{
    struct cay_process_status *status = NULL;
    if (capabilities()->expose_port)
        return;
    assert_fails("capability_not_supported", launch_server(world_create(NULL), "x", &status));
    assert_null(status);
    world_clear(NULL);
    print_message("this control exposes no ports, and says so\n");
    skip();
}

static void an_exposed_port_is_reached(void **)
{
    skip_without_ports();
    struct cay_process_status *one = NULL;
    struct cay_process_status *two = NULL;
    const char *ids[] = {world_create(NULL), world_create(NULL)};
    assert_done(launch_server(ids[0], "first", &one));
    assert_done(launch_server(ids[1], "second", &two));
    assert_string_not_equal(one->address, two->address);
    wait_until_it_listens(ids[0], one->process_id);
    wait_until_it_listens(ids[1], two->process_id);
    assert_true(serves(one->address, "first"));
    assert_true(serves(two->address, "second"));
    assert_true(serves(one->address, "first"));
    struct cay_process_status *again = NULL;
    assert_done(
        cay_control_status(world.control, ids[0], one->process_id, NULL, &again, &world.err));
    assert_string_equal(again->address, one->address);
    cay_process_status_free(again);
    assert_done(cay_control_kill(world.control, ids[0], one->process_id, 0, NULL, &world.err));
    cay_process_status_free(world_wait(ids[0], one->process_id));
    for (int64_t end_ms = world_now_ms() + PATIENCE_MS; serves(one->address, "first");)
        assert_true(world_now_ms() < end_ms);
    assert_true(serves(two->address, "second"));
    cay_process_status_free(one);
    cay_process_status_free(two);
}

static void a_server_lives_on_over_a_restart_of_the_host(void **)
{
    char answer[WORD_BYTES];
    skip_without_ports();
    struct cay_process_status *status = NULL;
    const char *id = world_create(NULL);
    assert_done(launch_server(id, "still here", &status));
    wait_until_it_listens(id, status->process_id);
    if (!world_help("restart", answer)) {
        print_message("nobody restarts this host\n");
        skip();
    }
    for (int64_t end_ms = world_now_ms() + PATIENCE_MS; !serves(status->address, "still here");) {
        assert_true(world_now_ms() < end_ms);
        world_sleep_ms(20);
    }
    cay_process_status_free(status);
}

/* --- pauses --- */

static void skip_without_pauses(void)
{
    if (capabilities()->pause)
        return;
    const char *id = world_create(NULL);
    assert_fails("capability_not_supported",
                 cay_control_pause(world.control, id, NULL, &world.err));
    world_clear(NULL);
    print_message("this control pauses nothing, and says so\n");
    skip();
}

static void a_pause_stops_what_runs(void **)
{
    skip_without_pauses();
    struct cay_sandbox_list *list = NULL;
    const char *id = world_create(NULL);
    /* A process that would end while it is paused, if it ran. */
    const char *process = world_launch(id, "sleep 1.5; exit 5");
    assert_done(cay_control_pause(world.control, id, NULL, &world.err));
    assert_done(cay_control_list(world.control, &world.label, 1, NULL, &list, &world.err));
    assert_string_equal(list->items[0]->state, "paused");
    cay_sandbox_list_free(list);
    for (int64_t end_ms = world_now_ms() + 2200; world_now_ms() < end_ms; world_sleep_ms(50)) {
        struct cay_process_status *status = NULL;
        assert_done(cay_control_status(world.control, id, process, NULL, &status, &world.err));
        assert_int_equal(status->state, CAY_PROCESS_RUNNING);
        cay_process_status_free(status);
    }
    assert_done(cay_control_resume(world.control, id, NULL, &world.err));
    struct cay_process_status *end = world_wait(id, process);
    assert_int_equal(end->exit_code, 5);
    cay_process_status_free(end);
    assert_int_equal(world_run(id, "exit 6"), 6);
}

static void a_paused_sandbox_refuses_and_can_be_destroyed(void **)
{
    skip_without_pauses();
    const char *id = world_create(NULL);
    struct cay_process_request request = CAY_PROCESS_REQUEST;
    request.sandbox_id = id;
    request.binary = "true";
    assert_done(cay_control_pause(world.control, id, NULL, &world.err));
    assert_fails("session_paused", cay_control_pause(world.control, id, NULL, &world.err));
    assert_fails("session_paused",
                 cay_control_launch(world.control, &request, NULL, NULL, &world.err));
    assert_done(cay_control_destroy(world.control, id, NULL, &world.err));
    assert_fails("session_not_found", cay_control_resume(world.control, id, NULL, &world.err));
}

/* --- limits --- */

/* A sandbox with limits, or none: a host that cannot keep them must not make it. */
static const char *create_limited(const struct cay_sandbox_request *request)
{
    struct cay_sandbox_info *info = NULL;
    if (!cay_control_create(world.control, request, NULL, &info, &world.err)) {
        assert_true(cay_error_is(&world.err, "capability_not_supported"));
        print_message("this control does not limit that, and says so\n");
        skip();
    }
    static char id[WORD_BYTES];
    snprintf(id, sizeof(id), "%s", info->sandbox_id);
    cay_sandbox_info_free(info);
    return id;
}

static void memory_is_limited(void **)
{
    struct cay_sandbox_request request = world_request();
    request.memory_bytes = 64 * MIB;
    const char *id = create_limited(&request);
    assert_int_equal(world_run(id, "dd if=/dev/zero of=/dev/null bs=4194304 count=1"), 0);
    struct cay_process_status *end =
        world_wait(id, world_launch(id, "exec dd if=/dev/zero of=/dev/null bs=268435456 count=1"));
    assert_int_equal(end->signal, SIGKILL);
    cay_process_status_free(end);
}

static void processes_are_limited(void **)
{
    static const char script[] =
        "i=0; while [ $i -lt 40 ]; do sleep 100 & i=$((i+1)); done; exit 0";
    struct cay_sandbox_request request = world_request();
    request.process_count = 20;
    const char *id = create_limited(&request);
    assert_int_not_equal(world_run(id, script), 0);
    assert_int_equal(world_run(world_create(NULL), script), 0);
}

static void processors_are_limited(void **)
{
    /* For two seconds as much as it gets; then the hundredths of seconds that it got. */
    static const char script[] = "end=$(( $(date +%s) + 3 ))\n"
                                 "while [ $(date +%s) -lt $end ]; do :; done\n"
                                 "read -r line < /proc/self/stat\n"
                                 "set -- ${line##*) }\n"
                                 "used=$(( ${12} + ${13} + ${14} + ${15} ))\n"
                                 "[ $used -gt 254 ] && used=254\n"
                                 "exit $used\n";
    struct cay_sandbox_request request = world_request();
    request.cpus = 0.2;
    int used = world_run(create_limited(&request), script);
    assert_in_range(used, 5, 100); /* of 200 to 300; 60 is what it may have */
}

static void disk_is_limited(void **)
{
    static const char script[] =
        "i=0; while [ $i -lt 150 ]; do\n"
        "dd if=/dev/urandom of=f$i bs=1048576 count=1 2>/dev/null || exit 3\n"
        "i=$((i+1)); sleep 0.05; done; exit 0";
    struct cay_sandbox_request request = world_request();
    request.disk_bytes = 8 * MIB;
    const char *id = create_limited(&request);
    struct cay_process_status *end = world_wait(id, world_launch(id, script));
    assert_false(end->has_exit_code && end->exit_code == 0);
    cay_process_status_free(end);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(the_exit_code_is_told),
        TEST(a_process_runs_until_it_is_killed),
        TEST(a_signal_reaches_all_that_a_process_started),
        TEST(a_process_gets_its_arguments_and_variables),
        TEST(a_program_that_cannot_be_started_is_an_error),
        TEST(an_exposed_port_is_reached),
        TEST(a_server_lives_on_over_a_restart_of_the_host),
        TEST(a_pause_stops_what_runs),
        TEST(a_paused_sandbox_refuses_and_can_be_destroyed),
        TEST(memory_is_limited),
        TEST(processes_are_limited),
        TEST(processors_are_limited),
        TEST(disk_is_limited),
    };
    world_open(argc, argv);
    int result = cmocka_run_group_tests(tests, NULL, NULL);
    cay_control_close(world.control);
    return result;
}
