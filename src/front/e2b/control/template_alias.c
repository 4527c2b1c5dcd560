/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/control/handlers.h"
#include "front/e2b/control/snapshot.h"
#include "front/e2b/control/template.h"

/* Whether there is a template of a name. */

static void reply_template(struct cay_rest_request *request, struct cay_str id, bool is_everybodys)
{
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, 4096);
    struct cay_json_writer json = {.buf = &body};
    cay_json_object_begin(&json);
    cay_json_key(&json, "templateID");
    cay_json_string(&json, id);
    cay_json_key(&json, "public");
    cay_json_bool(&json, is_everybodys);
    cay_json_object_end(&json);
    cay_rest_reply_json(request, 200, cay_buf_str(&body));
}

static void found_template(struct cay_rest_request *request, struct cay_str name,
                           const struct cay_v1_base *base)
{
    if (base)
        reply_template(request, cay_e2b_template_name(name), !base->owner.len);
    else
        cay_rest_reply_fault(request, 404, "there is no such template; 'cay base ls' lists them");
}

static void got_snapshot(struct cay_rest_request *request, struct cay_str session_id)
{
    if (session_id.len)
        reply_template(request, session_id, false);
    else
        cay_e2b_template_find(request, request->params[0], found_template);
}

void cay_e2b_template_alias(struct cay_rest_request *request)
{
    cay_e2b_snapshot_find(request, request->params[0], got_snapshot);
}
