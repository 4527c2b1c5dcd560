/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/cay_v1.h"
#include "api/limits.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/sized.h"
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
    if (!client || !out_flow)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "a flow needs a client and a place for it");
    if (!cay_sized_take(options, &taken, sizeof(taken), "options (CAY_CALL_OPTIONS)", err))
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

/* A message in JSON is an object, whatever is in it. */
static bool check_json(struct cay_str message, struct cay_error *err)
{
    struct cay_json_reader json;
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    cay_json_reader_init(&json, message, &arena);
    if (cay_json_next(&json) == CAY_JSON_OBJECT_BEGIN && cay_json_skip(&json) == 0 &&
        cay_json_next(&json) == CAY_JSON_END)
        return true;
    return cay_fail(err, json.status == -ENOMEM ? CAY_R_OUT_OF_MEMORY : CAY_R_INTERNAL,
                    "the daemon's answer is no message in JSON; is it of the same version?");
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
    if (!request && request_len)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "there are none of %zu bytes to send",
                        request_len);
    const struct cay_pb_method *method = find_verb(verb, err);
    if (!method)
        return false;
    if (method->client_streaming || method->server_streaming)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "%s streams; open it with cay_flow_open instead", method->name);
    bool is_done = open_flow(client, method, options, &flow, err) &&
                   cay_flow_send(flow, request ? request : "", request_len, err) &&
                   cay_flow_receive(flow, &message, &len, err) == CAY_FLOW_MESSAGE &&
                   (cay_flow_codec(flow) != CAY_CODEC_JSON ||
                    check_json((struct cay_str){message, len}, err)) &&
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
    struct cay_error ignored;
    struct cay_call_options taken;
    err = err ? err : &ignored;
    if (!cay_sized_take(options, &taken, sizeof(taken), "options (CAY_CALL_OPTIONS)", err))
        return false;
    if (taken.codec != CAY_CODEC_JSON)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "codec: this function speaks JSON; cay_client_ask_bytes speaks others");
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
