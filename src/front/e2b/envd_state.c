/* SPDX-License-Identifier: Apache-2.0 */
#include "api/limits.h"
#include "base/clock.h"
#include "front/e2b/envd.h"
#include "front/e2b/hall.h"

/* What a sandbox has and uses: its environment and its measures. */

void cay_e2b_envd_envs(struct cay_e2b_request *request)
{
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, CAY_LIMIT_MESSAGE_BYTES);
    struct cay_json_writer json = {.buf = &body};
    const struct cay_pb_pairs env = request->session->env;
    cay_json_object_begin(&json);
    for (size_t i = 0; i < env.count; i++) {
        cay_json_key_str(&json, env.items[i].key);
        cay_json_string(&json, env.items[i].value);
    }
    cay_json_object_end(&json);
    cay_e2b_reply_json(request, 200, cay_buf_str(&body));
}
