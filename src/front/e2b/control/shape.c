/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/control/shape.h"

#include "api/limits.h"
#include "api/noun.h"
#include "base/clock.h"
#include "front/e2b/control/network.h"
#include "front/e2b/control/template.h"

enum { MIB = 1024 * 1024 };

static void text(struct cay_json_writer *json, const char *key, struct cay_str value)
{
    cay_json_key(json, key);
    if (value.len)
        cay_json_string(json, value);
    else
        cay_json_null(json);
}

static void number(struct cay_json_writer *json, const char *key, int64_t value)
{
    cay_json_key(json, key);
    cay_json_i64(json, value);
}

void cay_e2b_write_time(struct cay_json_writer *json, const char *key, int64_t wall_ns)
{
    char stamp[CAY_TIME_BYTES];
    cay_time_format(wall_ns, 3, stamp);
    cay_json_key(json, key);
    cay_json_text(json, stamp);
}

/* Clients take it for granted that there is one. */
static void write_end(struct cay_json_writer *json, const struct cay_v1_session *session)
{
    if (session->deadline) {
        cay_e2b_write_time(json, "endAt", cay_noun_time_ns(session->deadline));
    } else if (session->state == CAY_V1_SESSION_STATE_PAUSED && session->last_active_at) {
        cay_e2b_write_time(json, "endAt", cay_noun_time_ns(session->last_active_at));
    } else {
        cay_json_key(json, "endAt");
        cay_json_text(json, "9999-12-31T23:59:59.000Z");
    }
}

static void write_metadata(struct cay_json_writer *json, const struct cay_v1_session *session)
{
    cay_json_key(json, "metadata");
    cay_json_object_begin(json);
    for (size_t i = 0; i < session->labels.count; i++) {
        const struct cay_pb_pair *label = &session->labels.items[i];
        if (cay_e2b_is_own_label(label->key))
            continue;
        cay_json_key_str(json, label->key);
        cay_json_string(json, label->value);
    }
    cay_json_object_end(json);
}

static void write_template(struct cay_json_writer *json, const struct cay_e2b *door,
                           const struct cay_v1_session *session)
{
    struct cay_str name = cay_e2b_template_name(session->base);
    text(json, "templateID", name);
    const struct cay_e2b_options *options = door->options;
    const char *usual = options->template ? options->template : options->default_base;
    if (usual && cay_str_is(session->base, usual))
        text(json, "alias", CAY_STR("base"));
    else if (name.len != session->base.len) /* built here */
        text(json, "alias", name);
}

/* The members of both shapes. */
static void write_members(struct cay_json_writer *json, const struct cay_e2b *door,
                          const struct cay_v1_session *session)
{
    const struct cay_v1_resource_limits *limits = session->limits;
    text(json, "sandboxID", session->id);
    write_template(json, door, session);
    text(json, "clientID", CAY_STR("cay"));
    cay_e2b_write_time(json, "startedAt",
                       session->created_at ? cay_noun_time_ns(session->created_at) : 0);
    write_end(json, session);
    text(json, "state",
         session->state == CAY_V1_SESSION_STATE_PAUSED ? CAY_STR("paused") : CAY_STR("running"));
    number(json, "cpuCount", cay_e2b_cpu_count(session));
    number(json, "memoryMB", cay_e2b_memory_bytes(session) / MIB);
    number(json, "diskSizeMB", limits && limits->has_disk_bytes ? limits->disk_bytes / MIB : 0);
    text(json, "envdVersion", CAY_STR(CAY_E2B_ENVD_VERSION));
    write_metadata(json, session);
    cay_json_key(json, "volumeMounts");
    cay_json_array_begin(json);
    cay_json_array_end(json);
}

void cay_e2b_write_listed(struct cay_json_writer *json, const struct cay_e2b *door,
                          const struct cay_v1_session *session)
{
    cay_json_object_begin(json);
    write_members(json, door, session);
    cay_json_object_end(json);
}

static void write_list(struct cay_json_writer *json, const char *key, struct cay_pb_strs items)
{
    cay_json_key(json, key);
    cay_json_array_begin(json);
    for (size_t i = 0; i < items.count; i++)
        cay_json_string(json, items.items[i]);
    cay_json_array_end(json);
}

static void write_network(struct cay_json_writer *json, const struct cay_v1_session *session)
{
    static const struct cay_v1_network_policy none;
    const struct cay_v1_network_policy *network = session->network ? session->network : &none;
    static struct cay_str everything = {"0.0.0.0/0", 9};
    bool is_wide = cay_e2b_network_is_wide(network);
    bool is_filtered = network->mode == CAY_V1_NETWORK_MODE_FILTERED;
    struct cay_pb_strs allowed = network->allow;
    struct cay_pb_strs denied = network->deny;
    if (is_filtered && is_wide) /* said by denying alone */
        allowed.count = 0;
    if (is_filtered && !is_wide && !denied.count)
        denied = (struct cay_pb_strs){&everything, 1};
    cay_json_key(json, "allowInternetAccess");
    cay_json_bool(json, is_wide);
    cay_json_key(json, "network");
    cay_json_object_begin(json);
    write_list(json, "allowOut", allowed);
    write_list(json, "denyOut", denied);
    cay_json_key(json, "allowPublicTraffic");
    cay_json_bool(json, network->public_ports);
    if (network->mask_request_host.len)
        text(json, "maskRequestHost", network->mask_request_host);
    cay_json_object_end(json);
}

static void write_lifecycle(struct cay_json_writer *json, const struct cay_v1_session *session)
{
    static const struct cay_v1_lifecycle none;
    const struct cay_v1_lifecycle *lifecycle = session->lifecycle ? session->lifecycle : &none;
    bool pauses = lifecycle->on_expiry == CAY_V1_EXPIRY_ACTION_PAUSE ||
                  lifecycle->on_expiry == CAY_V1_EXPIRY_ACTION_STOP;
    cay_json_key(json, "lifecycle");
    cay_json_object_begin(json);
    text(json, "onTimeout", pauses ? CAY_STR("pause") : CAY_STR("kill"));
    cay_json_key(json, "autoResume");
    cay_json_bool(json, lifecycle->auto_resume);
    cay_json_object_end(json);
}

void cay_e2b_write_detail(struct cay_json_writer *json, const struct cay_e2b *door,
                          const struct cay_v1_session *session,
                          const struct cay_v1_session_tokens *tokens)
{
    cay_json_object_begin(json);
    write_members(json, door, session);
    text(json, "envdAccessToken", tokens ? tokens->access_token : (struct cay_str){});
    text(json, "domain", cay_e2b_domain(door));
    write_network(json, session);
    write_lifecycle(json, session);
    if (session->state_message.len)
        text(json, "why", session->state_message);
    cay_json_object_end(json);
}

void cay_e2b_write_sandbox(struct cay_json_writer *json, const struct cay_e2b *door,
                           const struct cay_v1_session *session,
                           const struct cay_v1_session_tokens *tokens)
{
    static const struct cay_v1_session_tokens none;
    const struct cay_v1_session_tokens *shown = tokens ? tokens : &none;
    cay_json_object_begin(json);
    text(json, "sandboxID", session->id);
    write_template(json, door, session);
    text(json, "clientID", CAY_STR("cay"));
    text(json, "envdVersion", CAY_STR(CAY_E2B_ENVD_VERSION));
    text(json, "envdAccessToken", shown->access_token);
    text(json, "trafficAccessToken", shown->traffic_token);
    text(json, "domain", cay_e2b_domain(door));
    cay_json_object_end(json);
}

void cay_e2b_reply_sandbox_made(struct cay_rest_request *request, int status,
                                const struct cay_v1_session *session,
                                const struct cay_v1_session_tokens *tokens)
{
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, CAY_LIMIT_MESSAGE_BYTES);
    struct cay_json_writer json = {.buf = &body};
    cay_e2b_write_sandbox(&json, cay_e2b_visit(request)->e2b, session, tokens);
    cay_rest_reply_json(request, status, cay_buf_str(&body));
}
