/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/front/e2b/world.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "front/e2b/e2b.h"

int world_setup(void **state)
{
    static const struct cay_e2b_options e2b = {.is_on = true, .default_base = "usual"};
    struct world *world = cay_new(struct world);
    hall_init(&world->hall);
    harness_open_on(&world->harness, &world->hall.service, &e2b);
    *state = world;
    return 0;
}

int world_teardown(void **state)
{
    struct world *world = *state;
    harness_close(&world->harness);
    cay_buf_finish(&world->answer);
    free(world);
    return 0;
}

int world_ask(struct world *world, const char *method, const char *path, const char *headers,
              const char *body)
{
    char request[2048];
    int len = snprintf(request, sizeof(request),
                       "%s %s HTTP/1.1\r\nHost: a\r\n%sContent-Length: %zu\r\n\r\n%s", method, path,
                       headers, strlen(body), body);
    assert(len > 0 && (size_t)len < sizeof(request));
    (void)len;
    cay_autoclose int fd = harness_connect(&world->harness);
    cay_buf_finish(&world->answer);
    world->answer = (struct cay_buf){};
    world->hall.calls[0] = '\0';
    harness_ask(&world->harness, fd, cay_str(request), &world->answer);
    cay_buf_append_byte(&world->answer, '\0');
    int status = 0;
    if (sscanf(world->answer.data, "HTTP/1.1 %d", &status) != 1)
        return 0;
    return status;
}

bool world_heard(const struct world *world, const char *text)
{
    return harness_has(&world->answer, text);
}
