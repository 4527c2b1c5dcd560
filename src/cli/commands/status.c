/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "api/cay_v1.h"
#include "api/limits.h"
#include "base/json.h"
#include "base/quantity.h"
#include "cli/command.h"

enum { STATUS_BYTES_MAX = 12 * CAY_LIMIT_MESSAGE_BYTES };

struct status {
    struct cay_v1_health_check_response health;
    struct cay_v1_capabilities capabilities;
    bool has_health;
    bool has_capabilities;
};

/* A daemon that is older than the question still has a status. */
static bool ask(struct cay_cli *cli, unsigned method, const void *request, void *response,
                bool *out_is_known, struct cay_error *err)
{
    *out_is_known = cay_cli_call(cli, method, request, response, err);
    return *out_is_known || err->reason == CAY_R_UNIMPLEMENTED;
}

static bool fetch(struct cay_cli *cli, struct status *status, struct cay_error *err)
{
    struct cay_v1_health_check_request health_request = {.fresh = true};
    struct cay_v1_get_capabilities_request request = {};
    struct cay_v1_get_capabilities_response response = {};
    if (!ask(cli, CAY_V1_SANDBOX_SERVICE_HEALTH_CHECK, &health_request, &status->health,
             &status->has_health, err) ||
        !ask(cli, CAY_V1_SANDBOX_SERVICE_GET_CAPABILITIES, &request, &response,
             &status->has_capabilities, err))
        return false;
    status->has_capabilities = status->has_capabilities && response.capabilities;
    if (status->has_capabilities)
        status->capabilities = *response.capabilities;
    return true;
}

static bool print_json(struct cay_cli *cli, const struct status *status, struct cay_error *err)
{
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_auto(cay_buf_finish) struct cay_buf part;
    cay_buf_init(&buf, STATUS_BYTES_MAX);
    cay_buf_init(&part, STATUS_BYTES_MAX);
    struct cay_json_writer json = {.buf = &buf};
    cay_json_object_begin(&json);
    cay_json_key(&json, "url");
    cay_json_text(&json, cay_cli_url(cli));
    cay_json_key(&json, "clientVersion");
    cay_json_text(&json, CAY_VERSION);
    if (status->has_health) {
        if (cay_pb_json_write(&cay_v1_health_check_response_desc, &status->health, NULL, &part) < 0)
            return cay_fail(err, CAY_R_INTERNAL, "the daemon's health has no JSON form");
        cay_json_key(&json, "health");
        cay_json_raw(&json, cay_buf_str(&part));
        cay_buf_clear(&part, 0);
    }
    if (status->has_capabilities) {
        if (cay_pb_json_write(&cay_v1_capabilities_desc, &status->capabilities, NULL, &part) < 0)
            return cay_fail(err, CAY_R_INTERNAL, "the daemon's capabilities have no JSON form");
        cay_json_key(&json, "capabilities");
        cay_json_raw(&json, cay_buf_str(&part));
    }
    cay_json_object_end(&json);
    cay_output_json(&cli->out, cay_buf_str(&buf));
    return true;
}

static enum cay_style style_of(enum cay_v1_health_status status)
{
    if (status == CAY_V1_HEALTH_STATUS_HEALTHY)
        return CAY_STYLE_GOOD;
    return status == CAY_V1_HEALTH_STATUS_DEGRADED ? CAY_STYLE_WARN : CAY_STYLE_BAD;
}

static const char *word_of(enum cay_v1_health_status status)
{
    if (status == CAY_V1_HEALTH_STATUS_HEALTHY)
        return "healthy";
    return status == CAY_V1_HEALTH_STATUS_DEGRADED ? "degraded" : "unhealthy";
}

static void print_health(struct cay_output *out, const struct cay_v1_health_check_response *health)
{
    char text[128];
    char used[CAY_SIZE_BYTES];
    char size[CAY_SIZE_BYTES];
    cay_output_field(out, "health", style_of(health->status), cay_str(word_of(health->status)));
    for (size_t i = 0; i < health->problems.count; i++)
        cay_output_field(out, "", style_of(health->problems.items[i].status),
                         health->problems.items[i].message);
    if (health->uptime && health->uptime->seconds >= 0 &&
        health->uptime->seconds < INT64_MAX / 1000) {
        cay_duration_format(health->uptime->seconds * 1000, text);
        cay_output_field(out, "up", CAY_STYLE_PLAIN, cay_str(text));
    }
    snprintf(text, sizeof(text), "%" PRId64 ", %" PRId64 " tool call%s running",
             health->session_count, health->active_tools, health->active_tools == 1 ? "" : "s");
    cay_output_field(out, "sessions", CAY_STYLE_PLAIN, cay_str(text));
    if (health->reserve && health->reserve->memory_bytes >= 0) {
        cay_size_format((uint64_t)health->reserve->memory_bytes, used);
        snprintf(text, sizeof(text), "%" PRId64 " of at most %" PRId64 " sandboxes wait, %s",
                 health->reserve->waiting, health->reserve->size, used);
        cay_output_field(out, "reserve", CAY_STYLE_PLAIN, cay_str(text));
    }
    if (health->pool_size_bytes > 0 && health->pool_used_bytes >= 0) {
        cay_size_format((uint64_t)health->pool_used_bytes, used);
        cay_size_format((uint64_t)health->pool_size_bytes, size);
        snprintf(text, sizeof(text), "%s of %s used", used, size);
        cay_output_field(out, "pool", CAY_STYLE_PLAIN, cay_str(text));
    }
}

/* "namespaces (default)", or why it cannot be used. */
static void print_choice(struct cay_output *out, const char *title, struct cay_str name,
                         bool is_chosen, const char *chosen, struct cay_str unavailable)
{
    cay_auto(cay_buf_finish) struct cay_buf line;
    cay_buf_init(&line, CAY_LIMIT_MESSAGE_BYTES);
    cay_buf_append_str(&line, name);
    if (unavailable.len) {
        cay_buf_append_text(&line, ": ");
        cay_buf_append_str(&line, unavailable);
    } else if (is_chosen) {
        cay_buf_printf(&line, " (%s)", chosen);
    }
    cay_output_field(out, title, unavailable.len ? CAY_STYLE_DIM : CAY_STYLE_PLAIN,
                     cay_buf_str(&line));
}

static struct cay_str why_not(bool is_available, struct cay_str reason)
{
    if (is_available)
        return (struct cay_str){};
    return reason.len ? reason : CAY_STR("not available");
}

static void print_abilities(struct cay_output *out, const struct cay_v1_capabilities *can)
{
    const struct {
        bool has;
        const char *name;
    } abilities[] = {
        {can->snapshots, "snapshots"},
        {can->rollback, "rollback"},
        {can->fork, "fork"},
        {can->diff, "diff"},
        {can->restore, "restore"},
        {can->export_import, "export"},
        {can->pause, "pause"},
        {can->streaming, "streaming"},
        {can->pty, "pty"},
        {can->ports, "ports"},
    };
    cay_auto(cay_buf_finish) struct cay_buf line;
    cay_buf_init(&line, CAY_LIMIT_MESSAGE_BYTES);
    for (size_t i = 0; i < CAY_COUNT(abilities); i++) {
        if (abilities[i].has)
            cay_buf_printf(&line, "%s%s", line.len ? ", " : "", abilities[i].name);
    }
    for (size_t i = 0; i < can->features.count; i++) {
        cay_buf_append_text(&line, line.len ? ", " : "");
        cay_buf_append_str(&line, can->features.items[i]);
    }
    cay_output_field(out, "can", CAY_STYLE_PLAIN, line.len ? cay_buf_str(&line) : CAY_STR("-"));
}

static void print_capabilities(struct cay_output *out, const struct cay_v1_capabilities *can)
{
    for (size_t i = 0; i < can->runtimes.count; i++) {
        const struct cay_v1_runtime_info *runtime = &can->runtimes.items[i];
        print_choice(out, i ? "" : "runtimes", runtime->name, runtime->is_default, "default",
                     why_not(runtime->available, runtime->unavailable_reason));
    }
    for (size_t i = 0; i < can->stores.count; i++) {
        const struct cay_v1_store_info *store = &can->stores.items[i];
        print_choice(out, i ? "" : "stores", store->name, store->active, "in use",
                     why_not(store->available, store->unavailable_reason));
    }
    print_abilities(out, can);
}

static bool run_status(struct cay_cli *cli, struct cay_error *err)
{
    struct status status = {};
    struct cay_output *out = &cli->out;
    if (!fetch(cli, &status, err))
        return false;
    if (status.has_health && status.health.status == CAY_V1_HEALTH_STATUS_UNHEALTHY)
        cli->exit_status = CAY_EXIT_UNHEALTHY;
    if (out->is_json)
        return print_json(cli, &status, err);
    cay_output_text(out, CAY_STYLE_BOLD, CAY_STR("cayd"));
    if (status.has_capabilities) {
        cay_output_printf(out, " ");
        cay_output_text(out, CAY_STYLE_BOLD, status.capabilities.version);
    }
    cay_output_printf(out, " at ");
    cay_output_text(out, CAY_STYLE_PLAIN, cay_str(cay_cli_url(cli)));
    cay_output_printf(out, "\n");
    if (status.has_health)
        print_health(out, &status.health);
    else
        cay_output_field(out, "health", CAY_STYLE_DIM, CAY_STR("this daemon does not tell"));
    if (status.has_capabilities)
        print_capabilities(out, &status.capabilities);
    return true;
}

const struct cay_command cay_command_status = {
    .name = "status",
    .arguments = "",
    .summary = "Show the daemon's health, version and capabilities",
    .details =
        "cay asks the daemon how it is now. The exit status is 1 when the host is unhealthy.",
    .group = CAY_GROUP_HOST,
    .run = run_status,
};
