/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/envd/handlers.h"

/* Who got here found the gate open: the sandbox runs. */
void cay_e2b_envd_health(struct cay_rest_request *request)
{
    cay_rest_reply_empty(request, 204);
}
