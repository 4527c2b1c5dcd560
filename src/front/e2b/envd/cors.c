/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/envd/cors.h"

#include "front/e2b/envd/signed.h"

const struct cay_http_header cay_e2b_cors_headers[CAY_E2B_CORS_HEADERS] = {
    {CAY_STR("access-control-allow-origin"), CAY_STR("*")},
    {CAY_STR("access-control-expose-headers"), CAY_STR("*")},
};

bool cay_e2b_cors_is_question(const struct cay_exchange *exchange,
                              const struct cay_e2b_target *target)
{
    if (!cay_str_is(exchange->method, "OPTIONS"))
        return false;
    if (target->place == CAY_E2B_SANDBOX)
        return target->port == CAY_E2B_ENVD_PORT;
    /* A path of the services alone is no sign: some are pages of the daemon, too. */
    struct cay_str wanted = cay_http_header(&exchange->headers, "access-control-request-headers");
    return target->place == CAY_E2B_NOWHERE &&
           (cay_http_list_has(wanted, "e2b-sandbox-id") || cay_e2b_is_signed(exchange));
}

void cay_e2b_cors_answer(struct cay_exchange *exchange)
{
    static const struct cay_http_header headers[] = {
        {CAY_STR("access-control-allow-origin"), CAY_STR("*")},
        {CAY_STR("access-control-allow-methods"), CAY_STR("GET, HEAD, POST")},
        /* The star does not stand for this one. */
        {CAY_STR("access-control-allow-headers"), CAY_STR("*, authorization")},
        {CAY_STR("access-control-max-age"), CAY_STR("7200")},
    };
    cay_exchange_respond(exchange, 204, headers, CAY_COUNT(headers), 0);
    cay_exchange_finish(exchange, NULL, 0);
}
