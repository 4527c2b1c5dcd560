/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conform/control_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { REMEMBERED = 16 };

struct world world;

int64_t world_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1'000'000;
}

void world_sleep_ms(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1'000'000L}, NULL);
}

void world_open(int argc, char **argv)
{
    static char run[64];
    struct cay_control_options options = CAY_CONTROL_OPTIONS;
    if (getenv("TEST_LIST"))
        return;
    if (argc != 2) {
        fprintf(stderr, "usage: %s CONTROL\n", argv[0]);
        exit(2);
    }
    snprintf(run, sizeof(run), "%d", getpid());
    world = (struct world){
        .address = argv[1],
        .template_name = getenv("CONTROL_TEMPLATE"),
        .key = getenv("CONTROL_KEY"),
        .label = {"conform", run},
    };
    options.key = world.key;
    options.timeout_ms = PATIENCE_MS;
    if (!cay_control_open(world.address, &options, &world.control, &world.err)) {
        fprintf(stderr, "%s: %s\n", world.address, world.err.text);
        exit(1);
    }
}

int world_clear(void **)
{
    struct cay_sandbox_list *list = NULL;
    if (!cay_control_list(world.control, &world.label, 1, NULL, &list, &world.err))
        return -1;
    for (size_t i = 0; i < list->count; i++)
        cay_control_destroy(world.control, list->items[i]->sandbox_id, NULL, NULL);
    cay_sandbox_list_free(list);
    return 0;
}

struct cay_sandbox_request world_request(void)
{
    struct cay_sandbox_request request = CAY_SANDBOX_REQUEST;
    request.template_name = world.template_name;
    request.labels = &world.label;
    request.label_count = 1;
    return request;
}

/* A few at a time, so that cases need not free them. */
static const char *remember(const char *id)
{
    static char ids[REMEMBERED][WORD_BYTES];
    static unsigned next;
    char *place = ids[next++ % REMEMBERED];
    snprintf(place, WORD_BYTES, "%s", id);
    return place;
}

const char *world_create(const struct cay_sandbox_request *request)
{
    const struct cay_sandbox_request usual = world_request();
    struct cay_sandbox_info *info = NULL;
    assert_done(
        cay_control_create(world.control, request ? request : &usual, NULL, &info, &world.err));
    const char *id = remember(info->sandbox_id);
    cay_sandbox_info_free(info);
    return id;
}

const char *world_launch(const char *sandbox_id, const char *script)
{
    const char *const args[] = {"-c", script};
    struct cay_process_request request = CAY_PROCESS_REQUEST;
    struct cay_process_status *status = NULL;
    request.sandbox_id = sandbox_id;
    request.binary = "sh";
    request.args = args;
    request.arg_count = 2;
    assert_done(cay_control_launch(world.control, &request, NULL, &status, &world.err));
    const char *id = remember(status->process_id);
    cay_process_status_free(status);
    return id;
}

struct cay_process_status *world_wait(const char *sandbox_id, const char *process_id)
{
    for (int64_t end_ms = world_now_ms() + PATIENCE_MS; world_now_ms() < end_ms;) {
        struct cay_process_status *status = NULL;
        assert_done(
            cay_control_status(world.control, sandbox_id, process_id, NULL, &status, &world.err));
        if (status->state == CAY_PROCESS_EXITED)
            return status;
        cay_process_status_free(status);
        world_sleep_ms(10);
    }
    fail_msg("process %s does not end", process_id);
    return NULL;
}

int world_run(const char *sandbox_id, const char *script)
{
    struct cay_process_status *status = world_wait(sandbox_id, world_launch(sandbox_id, script));
    assert_true(status->has_exit_code);
    assert_int_equal(status->signal, 0);
    int code = status->exit_code;
    cay_process_status_free(status);
    return code;
}

bool world_help(const char *wish, char answer[WORD_BYTES])
{
    const char *ends = getenv("CONTROL_HELP");
    int reads = -1;
    int writes = -1;
    size_t len = 0;
    if (!ends || sscanf(ends, "%d,%d", &reads, &writes) != 2)
        return false;
    assert_int_equal(dprintf(writes, "%s\n", wish), strlen(wish) + 1);
    for (; len < WORD_BYTES - 1; len++) {
        assert_int_equal(read(reads, answer + len, 1), 1);
        if (answer[len] == '\n')
            break;
    }
    answer[len] = '\0';
    return true;
}
