/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/control_shape.h"

static void text(struct cay_json_writer *json, const char *key, struct cay_str value)
{
    cay_json_key(json, key);
    if (value.len)
        cay_json_string(json, value);
    else
        cay_json_null(json);
}

struct cay_str cay_e2b_template_of(const struct cay_v1_session *session)
{
    return session->base;
}

void cay_e2b_write_sandbox(struct cay_json_writer *json, const struct cay_e2b_door *door,
                           const struct cay_v1_session *session,
                           const struct cay_v1_session_tokens *tokens)
{
    static const struct cay_v1_session_tokens none;
    const struct cay_v1_session_tokens *shown = tokens ? tokens : &none;
    cay_json_object_begin(json);
    text(json, "sandboxID", session->id);
    text(json, "templateID", cay_e2b_template_of(session));
    text(json, "clientID", CAY_STR("cay"));
    text(json, "envdVersion", CAY_STR(CAY_E2B_ENVD_VERSION));
    text(json, "envdAccessToken", shown->access_token);
    text(json, "trafficAccessToken", shown->traffic_token);
    text(json, "domain", cay_str(door->domain));
    cay_json_object_end(json);
}
