/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/proxy.h"

#include "front/e2b/gate.h"
#include "front/e2b/token.h"

bool cay_e2b_proxy_admit(struct cay_e2b_request *request)
{
    const struct cay_v1_network_policy *network = request->session->network;
    if (!network || !network->private_ports)
        return true;
    struct cay_str sent = cay_http_header(&request->exchange->headers, "e2b-traffic-access-token");
    if (cay_e2b_token_is(sent, request->tokens->traffic_token))
        return true;
    cay_e2b_reply_sandbox(request, 403,
                          sent.len ? "The traffic access token is not valid"
                                   : "The sandbox is secured with a traffic access token",
                          request->port, NULL);
    return false;
}

void cay_e2b_proxy(struct cay_e2b_request *request)
{
    cay_e2b_reply_sandbox(request, 502, "The sandbox is running but port is not open",
                          request->port, NULL);
}
