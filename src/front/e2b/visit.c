/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/visit.h"

const struct cay_rest_status cay_e2b_statuses[CAY_E2B_STATUSES] =
    {
        {CAY_R_SESSION_PAUSED, 409},    {CAY_R_INVALID_STATE, 409},
        {CAY_R_TOOLS_IN_FLIGHT, 409},   {CAY_R_SESSION_DESTROYING, 404},
        {CAY_R_MESSAGE_TOO_LARGE, 413}, /* a 429 would be tried again */
};

void cay_e2b_write_fault(struct cay_json_writer *json, int status, const char *message)
{
    cay_json_object_begin(json);
    cay_json_key(json, "code");
    cay_json_i64(json, status);
    cay_json_key(json, "message");
    cay_json_text(json, message);
    cay_json_object_end(json);
}

void cay_e2b_visit_closed(struct cay_rest_request *request)
{
    cay_list_remove(&cay_e2b_visit(request)->in_door);
}

struct cay_rest_request *cay_e2b_request_new(struct cay_e2b *e2b, struct cay_exchange *exchange,
                                             const struct cay_rest_dialect *dialect)
{
    struct cay_rest_request *request = cay_rest_request_new(e2b->porch, exchange, dialect);
    cay_e2b_visit(request)->e2b = e2b;
    cay_e2b_visit(request)->request = request;
    return request;
}

struct cay_rest_request *cay_e2b_request_to(struct cay_e2b *e2b,
                                            const struct cay_e2b_target *target,
                                            struct cay_exchange *exchange,
                                            const struct cay_rest_dialect *dialect)
{
    struct cay_rest_request *request = cay_e2b_request_new(e2b, exchange, dialect);
    cay_e2b_visit(request)->sandbox_id = target->id;
    cay_e2b_visit(request)->port = target->port;
    return request;
}

struct cay_caller cay_e2b_door_caller(void)
{
    return (struct cay_caller){.role = CAY_ROLE_ADMIN, .owner = "local", .is_door = true};
}
