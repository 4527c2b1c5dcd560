/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "front/e2b/e2b.h"
#include "front/router.h"
#include "tests/unit/front/hall.h"

/* One request, and the door it goes through: where E2B's are open, and where they are shut. */
static const struct {
    const char *path;
    const char *open;
    const char *shut;
    const char *id; /* of the headers; NULL: none, as with the next */
    const char *port;
    const char *host;
    const char *query;
    const char *asks_for; /* a browser's question, by OPTIONS */
} cases[] = {
    {"/healthz", "pages", "pages"},
    {"/metrics", "pages", "pages"},
    {"/metricsx", "connect", "connect"},
    {"/cay.v1.KeyService/ListKeys", "connect", "connect"},
    {"/", "connect", "connect"},
    {"/sandboxes", "e2b-control", "connect"},
    {"/v2/sandboxes/abc", "e2b-control", "connect"},
    {"/v9/sandboxes/abc", "connect", "connect"},
    {"/sandboxesx", "connect", "connect"},
    {"/volumes/a", "e2b-control", "connect"},
    /* What is for a sandbox is so whatever its path. */
    {"/healthz", "e2b-envd", "pages", .id = "abc", .port = "49983"},
    {"/sandboxes", "e2b-proxy", "connect", .id = "abc", .port = "8000"},
    {"/sandboxes", "e2b-proxy", "connect", .id = "abc"},
    {"/metrics", "e2b-proxy", "pages", .host = "8000-abc.sbx.test"},
    {"/metrics", "e2b-envd", "pages", .host = "49983-abc.sbx.test"},
    {"/metrics", "pages", "pages", .host = "8000-abc.other.test"},
    {"/files", "e2b-envd", "connect", .query = "path=a&signature=v1_x"},
    {"/files", "connect", "connect", .query = "path=a"},
    {"/process.Process/List", "e2b-envd", "connect", .asks_for = "e2b-sandbox-id"},
    {"/process.Process/List", "connect", "connect", .asks_for = "authorization"},
};

static const char *door_of(const struct cay_router *router, size_t at)
{
    struct cay_http_header fields[3];
    struct cay_http_headers headers = {fields, 0};
    if (cases[at].id)
        fields[headers.count++] =
            (struct cay_http_header){CAY_STR("e2b-sandbox-id"), cay_str(cases[at].id)};
    if (cases[at].port)
        fields[headers.count++] =
            (struct cay_http_header){CAY_STR("e2b-sandbox-port"), cay_str(cases[at].port)};
    if (cases[at].asks_for)
        fields[headers.count++] = (struct cay_http_header){
            CAY_STR("access-control-request-headers"), cay_str(cases[at].asks_for)};
    const struct cay_exchange exchange = {
        .method = cases[at].asks_for ? CAY_STR("OPTIONS") : CAY_STR("POST"),
        .path = cay_str(cases[at].path),
        .host = cay_str(cases[at].host ? cases[at].host : "localhost"),
        .query = cases[at].query ? cay_str(cases[at].query) : (struct cay_str){},
        .headers = headers,
    };
    return cay_router_door(router, &exchange);
}

static void every_request_has_one_door(void **)
{
    static const struct cay_e2b_options e2b = {.is_on = true, .domain = "sbx.test"};
    struct hall hall;
    struct cay_router open;
    struct cay_router shut;
    hall_init(&hall);
    cay_router_init(&open, &hall.service, &e2b, false);
    cay_router_init(&shut, &hall.service, NULL, false);
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        assert_string_equal(door_of(&open, i), cases[i].open);
        assert_string_equal(door_of(&shut, i), cases[i].shut);
    }
    cay_router_finish(&shut);
    cay_router_finish(&open);
}

static void doors_that_are_off_stay_shut(void **)
{
    static const struct cay_e2b_options e2b = {.is_on = false, .domain = "sbx.test"};
    struct hall hall;
    struct cay_router router;
    hall_init(&hall);
    cay_router_init(&router, &hall.service, &e2b, false);
    for (size_t i = 0; i < CAY_COUNT(cases); i++)
        assert_string_equal(door_of(&router, i), cases[i].shut);
    assert_null(hall.watch);
    cay_router_finish(&router);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_has_one_door),
        cmocka_unit_test(doors_that_are_off_stay_shut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
