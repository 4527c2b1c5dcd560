/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "api/limits.h"
#include "api/noun.h"
#include "base/clock.h"
#include "lib/control/node_internal.h"

const char *const cay_node_limit_names[CAY_NODE_LIMITS] = {
    [CAY_NODE_CPUS] = "cpus",
    [CAY_NODE_MEMORY] = "memory",
    [CAY_NODE_PIDS] = "pids",
    [CAY_NODE_DISK] = "disk",
};

static struct cay_node *node_of(struct cay_control *control)
{
    return CAY_CONTAINER_OF(control, struct cay_node, control);
}

struct cay_client *cay_node_client(struct cay_control *control)
{
    return node_of(control)->client;
}

bool cay_node_no_memory(struct cay_error *err)
{
    return cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
}

/* --- opening and closing --- */

static void close_node(struct cay_control *control)
{
    struct cay_node *node = node_of(control);
    cay_client_close(node->client);
    pthread_mutex_destroy(&node->lock);
    free(node);
}

static bool open_node(const char *rest, const struct cay_control_options *options,
                      struct cay_control **out_control, struct cay_error *err)
{
    const char *url = *rest ? rest : CAY_CLIENT_URL_DEFAULT;
    const struct cay_client_options wanted = {
        .size = sizeof(wanted),
        .url = url,
        .key = options->key,
        .ca_file = options->ca_file,
        .timeout_ms = options->timeout_ms,
    };
    struct cay_node *node = calloc(1, sizeof(*node));
    if (!node)
        return cay_node_no_memory(err);
    pthread_mutex_init(&node->lock, NULL);
    node->timeout_ms = options->timeout_ms;
    if (!cay_client_open(&wanted, &node->client, err) || !cay_place_of(url, &node->place, err)) {
        close_node(&node->control);
        return false;
    }
    *out_control = &node->control;
    return true;
}

/* --- calls --- */

void cay_node_begin(struct cay_node_use *use, struct cay_control *control,
                    const struct cay_call_options *options)
{
    struct cay_node *node = node_of(control);
    int64_t timeout_ms = options->timeout_ms ? options->timeout_ms : node->timeout_ms;
    *use = (struct cay_node_use){
        .node = node,
        .options = *options,
        .ends_ms = timeout_ms > 0 ? cay_clock_ms() + timeout_ms : 0,
    };
    cay_arena_init(&use->arena, CAY_LIMIT_CALL_ARENA_BYTES);
}

void cay_node_end(struct cay_node_use *use)
{
    cay_arena_finish(&use->arena);
}

bool cay_node_call(struct cay_node_use *use, const struct cay_pb_method *method,
                   const void *request, void *out_answer, struct cay_error *err)
{
    if (use->ends_ms) {
        use->options.timeout_ms = use->ends_ms - cay_clock_ms();
        if (use->options.timeout_ms <= 0)
            return cay_fail(err, CAY_R_DEADLINE_EXCEEDED, NULL);
    }
    return cay_client_call_with(use->node->client, &use->options, method, request, &use->arena,
                                out_answer, err);
}

bool cay_node_is_lost(const struct cay_error *err)
{
    return err->reason == CAY_R_UNAVAILABLE || err->reason == CAY_R_DAEMON_RESTARTING;
}

bool cay_node_pairs(struct cay_node_use *use, const struct cay_pair *pairs, size_t count,
                    struct cay_pb_pairs *out, struct cay_error *err)
{
    out->items = cay_arena_array(&use->arena, count, sizeof(*out->items));
    if (!out->items)
        return cay_node_no_memory(err);
    for (size_t i = 0; i < count; i++)
        out->items[i] =
            (struct cay_pb_pair){.key = cay_str(pairs[i].name), .value = cay_str(pairs[i].value)};
    out->count = count;
    return true;
}

/* --- capabilities --- */

static void keep_limits(struct cay_node *node, const struct cay_v1_limit_info_array *limits)
{
    for (size_t i = 0; i < limits->count; i++) {
        const struct cay_v1_limit_info *limit = &limits->items[i];
        for (size_t kind = 0; kind < CAY_NODE_LIMITS; kind++) {
            if (cay_str_is(limit->name, cay_node_limit_names[kind]))
                node->is_unkept[kind] = limit->enforcement == CAY_V1_ENFORCEMENT_NONE;
        }
    }
}

/* Of several threads that have asked at once, the first one's stay. */
static void keep(struct cay_node *node, const struct cay_v1_capabilities *can)
{
    pthread_mutex_lock(&node->lock);
    if (!node->is_asked) {
        node->capabilities = (struct cay_control_capabilities){
            .snapshots = can->snapshots,
            .rollback = can->rollback,
            .pause = can->pause,
            .launch_process = true,
            .deep_pause = false,
            .concurrent_sandboxes = can->max_sessions,
            .max_sandbox_duration_ms =
                can->max_session_duration ? cay_noun_duration_ms(can->max_session_duration) : 0,
            .expose_port = can->ports,
        };
        keep_limits(node, &can->limits);
        node->is_asked = true;
    }
    pthread_mutex_unlock(&node->lock);
}

static bool is_asked(struct cay_node *node)
{
    pthread_mutex_lock(&node->lock);
    bool was_asked = node->is_asked;
    pthread_mutex_unlock(&node->lock);
    return was_asked;
}

bool cay_node_capabilities(struct cay_control *control, const struct cay_call_options *options,
                           const struct cay_control_capabilities **out_capabilities,
                           struct cay_error *err)
{
    struct cay_node *node = node_of(control);
    if (!is_asked(node)) {
        cay_auto(cay_node_end) struct cay_node_use use;
        cay_node_begin(&use, control, options);
        const struct cay_v1_get_capabilities_request request = {};
        struct cay_v1_get_capabilities_response answer = {};
        if (!cay_node_call(&use, &cay_v1_sandbox_service_get_capabilities_method, &request, &answer,
                           err))
            return false;
        if (!answer.capabilities)
            return cay_fail(err, CAY_R_INTERNAL, "the daemon does not say what it can");
        keep(node, answer.capabilities);
    }
    *out_capabilities = &node->capabilities;
    return true;
}

const struct cay_control_ops cay_control_node = {
    .name = "node",
    .open = open_node,
    .close = close_node,
    .capabilities = cay_node_capabilities,
    .create = cay_node_create,
    .destroy = cay_node_destroy,
    .list = cay_node_list,
    .pause = cay_node_pause,
    .resume = cay_node_resume,
    .launch = cay_node_launch,
    .kill = cay_node_kill,
    .status = cay_node_status,
    .attach = cay_node_attach,
};
