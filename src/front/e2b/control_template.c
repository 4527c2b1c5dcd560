/* SPDX-License-Identifier: Apache-2.0 */
#include "api/limits.h"
#include "front/e2b/control.h"
#include "front/e2b/control_snapshot.h"

/* Templates are bases. */

static void reply_template(struct cay_e2b_request *request, struct cay_str id)
{
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, 4096);
    struct cay_json_writer json = {.buf = &body};
    cay_json_object_begin(&json);
    cay_json_key(&json, "templateID");
    cay_json_string(&json, id);
    cay_json_key(&json, "public");
    cay_json_bool(&json, true);
    cay_json_object_end(&json);
    cay_e2b_reply_json(request, 200, cay_buf_str(&body));
}

static void got_bases(struct cay_e2b_request *request, struct cay_e2b_call *, const void *response,
                      const struct cay_error *err)
{
    const struct cay_v1_list_bases_response *list = response;
    if (err)
        cay_e2b_reply_error(request, err);
    else if (list->bases.count)
        reply_template(request, list->bases.items[0].name);
    else
        cay_e2b_reply_fault(request, 404, "there is no such template; 'cay base ls' lists them");
}

static void got_snapshot(struct cay_e2b_request *request, struct cay_str session_id)
{
    if (session_id.len) {
        reply_template(request, session_id);
        return;
    }
    struct cay_e2b_call *call = cay_e2b_call_new(request, CAY_V1_BASE_SERVICE_LIST_BASES);
    struct cay_v1_list_bases_request *ask = cay_e2b_call_message(call);
    ask->name = cay_e2b_base_of(request->door, request->params[0]);
    ask->page_size = 1;
    cay_e2b_call_start(call, got_bases);
}

void cay_e2b_template_alias(struct cay_e2b_request *request)
{
    cay_e2b_snapshot_find(request, request->params[0], got_snapshot);
}
