/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/cay_v1.h"
#include "base/nearest.h"
#include "client/rpc/client_internal.h"
#include "client/rpc/flow.h"

/* Any verb of the contract by its name, with messages that the caller encodes. */

/* "GetSession", "SandboxService/GetSession", "/cay.v1.SandboxService/GetSession". */
static bool is_called(const struct cay_pb_method *method, struct cay_str verb)
{
    if (!verb.len || verb.len > method->path_len)
        return false;
    const char *tail = method->path + (method->path_len - verb.len);
    return *tail == *verb.ptr && memcmp(tail, verb.ptr, verb.len) == 0 &&
           (tail == method->path || (*verb.ptr != '/' && (tail[-1] == '/' || tail[-1] == '.')));
}

static const struct cay_pb_method *find_verb(const char *given, struct cay_error *err)
{
    const struct cay_str verb = cay_str(given);
    const char *names[CAY_V1_METHOD_COUNT];
    for (size_t i = 0; i < CAY_V1_METHOD_COUNT; i++) {
        names[i] = cay_v1_verbs[i].name;
        if (is_called(&cay_v1_verbs[i], verb))
            return &cay_v1_verbs[i];
    }
    const char *nearest = cay_nearest(verb, names, CAY_COUNT(names));
    cay_fail(err, CAY_R_INVALID_ARGUMENT, "the contract has no verb '%.60s'%s%s%s",
             given ? given : "", nearest ? "; did you mean '" : "", nearest ? nearest : "",
             nearest ? "'?" : "");
    if (nearest)
        cay_error_fact(err, "nearest", "%s", nearest);
    return NULL;
}

static bool open_flow(struct cay_client *client, const struct cay_pb_method *method,
                      const struct cay_call_options *options, struct cay_flow **out_flow,
                      struct cay_error *err)
{
    struct cay_call_options taken;
    if (!cay_options_take(&taken, sizeof(taken), options, "CAY_CALL_OPTIONS", err))
        return false;
    if (taken.codec != CAY_CODEC_JSON && taken.codec != CAY_CODEC_PROTO)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "there is no codec %d", taken.codec);
    if (!cay_flow_start(client, method, options, out_flow, err))
        return false;
    cay_flow_set_codec(*out_flow, (enum cay_codec)taken.codec);
    return true;
}

bool cay_flow_open(struct cay_client *client, const char *verb,
                   const struct cay_call_options *options, struct cay_flow **out_flow,
                   struct cay_error *err)
{
    struct cay_error ignored;
    err = err ? err : &ignored;
    const struct cay_pb_method *method = find_verb(verb, err);
    return method && open_flow(client, method, options, out_flow, err);
}

static bool keep(const char *message, size_t len, struct cay_text *out_text, struct cay_error *err)
{
    char *copy = malloc(len + 1);
    if (!copy)
        return cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
    memcpy(copy, message, len);
    copy[len] = '\0';
    *out_text = (struct cay_text){copy, len};
    return true;
}

bool cay_client_ask_bytes(struct cay_client *client, const char *verb, const void *request,
                          size_t request_len, const struct cay_call_options *options,
                          struct cay_text *out_answer, struct cay_error *err)
{
    struct cay_error ignored;
    struct cay_flow *flow = NULL;
    const char *message = NULL;
    size_t len = 0;
    err = err ? err : &ignored;
    const struct cay_pb_method *method = find_verb(verb, err);
    if (!method)
        return false;
    if (method->client_streaming || method->server_streaming)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "%s streams; open it with cay_flow_open instead", method->name);
    bool is_done = open_flow(client, method, options, &flow, err) &&
                   cay_flow_send(flow, request ? request : "", request_len, err) &&
                   cay_flow_receive(flow, &message, &len, err) == CAY_FLOW_MESSAGE &&
                   (!out_answer || keep(message, len, out_answer, err));
    /* Its end, so that the connection can be kept. */
    if (is_done)
        (void)cay_flow_step(flow, &message, &len, NULL);
    cay_flow_close(flow);
    return is_done;
}

bool cay_client_ask(struct cay_client *client, const char *verb, const char *request,
                    const struct cay_call_options *options, struct cay_text *out_answer,
                    struct cay_error *err)
{
    const char *text = request && *request ? request : "{}";
    return cay_client_ask_bytes(client, verb, text, strlen(text), options, out_answer, err);
}

void cay_text_free(struct cay_text *text)
{
    if (!text)
        return;
    free(text->data);
    *text = (struct cay_text){};
}

const char *cay_version(void)
{
    return CAY_VERSION;
}
