/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the cases of the suite for controls share. The suite takes the address of any control, and
 * from its environment what it needs of the world around it:
 *
 *     CONTROL_KEY       the API key; not set: none
 *     CONTROL_TEMPLATE  what sandboxes are made from; not set: the default
 *     CONTROL_HELP      two descriptors, "READ,WRITE", to somebody who does what a client cannot:
 *                       "restart" the host, make a "key", "revoke" it. Each is a line and is
 *                       answered by one. Not set: those cases are skipped.
 *
 * A template has sh, sleep, dd, date, true, and busybox with its httpd.
 */

#include "tests/unit/test.h"

#include "cay/control.h"

enum { PATIENCE_MS = 60'000, WORD_BYTES = 512 };

struct world {
    struct cay_control *control;
    const char *address;
    const char *template_name;
    const char *key;
    struct cay_pair label; /* of all that the suite makes */
    struct cay_error err;
};

extern struct world world;

/* For main: opens the control; ends the program when that fails. */
void world_open(int argc, char **argv);

/* Destroys what a case made. */
int world_clear(void **state);

/* A request with the suite's label and template. */
struct cay_sandbox_request world_request(void);
/* The id of a new sandbox. Valid until sixteen others were given. */
const char *world_create(const struct cay_sandbox_request *request);

/* Launches sh with a script; the id of the process, as above. */
const char *world_launch(const char *sandbox_id, const char *script);
/* Waits until the process has ended. To be freed. */
struct cay_process_status *world_wait(const char *sandbox_id, const char *process_id);
/* The exit code of a script that ends by itself. */
int world_run(const char *sandbox_id, const char *script);

/* Asks for help; false when there is nobody. The answer is the line without its end. */
bool world_help(const char *wish, char answer[WORD_BYTES]);

int64_t world_now_ms(void);
void world_sleep_ms(int ms);

#define assert_done(call)                                                                 \
    do {                                                                                  \
        if (!(call))                                                                      \
            fail_msg("%s: %s (%s)", #call, world.err.text, cay_error_reason(&world.err)); \
    } while (0)

#define assert_fails(reason, call)                                                             \
    do {                                                                                       \
        if (call)                                                                              \
            fail_msg("%s: wanted %s, but it succeeds", #call, reason);                         \
        if (!cay_error_is(&world.err, reason) || !world.err.text[0])                           \
            fail_msg("%s: wanted %s, got %s: %s", #call, reason, cay_error_reason(&world.err), \
                     world.err.text);                                                          \
    } while (0)

#define TEST(name) cmocka_unit_test_teardown(name, world_clear)
