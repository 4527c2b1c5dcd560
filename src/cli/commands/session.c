/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands/session.h"
#include "cli/offer.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "api/limits.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/quantity.h"
#include "cli/values.h"

bool cay_session_make(struct cay_cli *cli, const struct cay_v1_create_session_request *request,
                      struct cay_v1_create_session_response *out_response, struct cay_error *err)
{
    bool is_terminal = isatty(STDERR_FILENO);
    bool is_told = false;
    int64_t began_ns = cay_clock_ns();
    for (;;) {
        struct cay_error failed = {};
        bool is_made = cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_CREATE_SESSION, request,
                                    out_response, &failed);
        if (is_told && is_terminal)
            fputs("\r\033[K", stderr);
        if (is_made)
            return true;
        int64_t waited_ms = (cay_clock_ns() - began_ns) / (int64_t)CAY_NS_PER_MS;
        /* The daemon answers so only after it has waited a while itself. */
        if (failed.reason != CAY_R_BASE_NOT_READY ||
            (cli->has_timeout && cli->timeout_ms && waited_ms >= cli->timeout_ms)) {
            *err = failed;
            return false;
        }
        struct cay_output told = {.file = stderr, .is_terminal = is_terminal};
        if (is_terminal || !is_told)
            cay_output_text(&told, CAY_STYLE_DIM, cay_str(failed.text));
        if (!is_terminal && !is_told)
            fputc('\n', stderr);
        fflush(stderr);
        is_told = true;
    }
}

static bool run_create(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_create_session_response response = {};
    struct cay_v1_create_session_request request = {
        .session_id = cay_values_text(cli, "name"),
        .base = cay_values_text(cli, "base"),
        .default_user = cay_values_text(cli, "user"),
        .default_cwd = cay_values_text(cli, "cwd"),
        .runtime = cay_values_text(cli, "runtime"),
        .lazy_start = cay_args_has(&cli->args, "lazy"),
        .nesting = cay_args_has(&cli->args, "nesting"),
    };
    if (!cay_values_pairs(cli, "label", &request.labels, err) ||
        !cay_values_switch(cli, "tool-snapshots", &request.has_tool_snapshots,
                           &request.tool_snapshots, err) ||
        !cay_values_pairs(cli, "env", &request.env, err) ||
        !cay_values_network(cli, (struct cay_str){}, &request.network, err) ||
        !cay_values_new_secrets(cli, &request.secrets, &request.network, err) ||
        !cay_values_limits(cli, &request.limits, err) ||
        !cay_values_lifecycle(cli, &request.lifecycle, err) ||
        !cay_values_number(cli, "max-snapshots", 0, INT32_MAX, &request.has_max_snapshots,
                           &request.max_snapshots, err) ||
        !cay_values_number(cli, "max-tools", 0, INT32_MAX, &request.has_max_concurrent_tools,
                           &request.max_concurrent_tools, err) ||
        !cay_session_make(cli, &request, &response, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_create_session_response_desc, &response, err);
    if (response.session)
        cay_output_text(&cli->out, CAY_STYLE_PLAIN, response.session->id);
    cay_output_printf(&cli->out, "\n");
    return true;
}

static void print_pairs(struct cay_output *out, const char *title, struct cay_pb_pairs pairs)
{
    for (size_t i = 0; i < pairs.count; i++) {
        cay_auto(cay_buf_finish) struct cay_buf line;
        cay_buf_init(&line, CAY_LIMIT_MESSAGE_BYTES);
        cay_buf_append_str(&line, pairs.items[i].key);
        cay_buf_append_byte(&line, '=');
        cay_buf_append_str(&line, pairs.items[i].value);
        cay_output_field(out, i ? "" : title, CAY_STYLE_PLAIN, cay_buf_str(&line));
    }
}

static void print_secrets(struct cay_output *out, const struct cay_v1_secret_binding_array *secrets)
{
    for (size_t i = 0; i < secrets->count; i++) {
        const struct cay_v1_secret_binding *binding = &secrets->items[i];
        cay_auto(cay_buf_finish) struct cay_buf line;
        cay_buf_init(&line, CAY_LIMIT_MESSAGE_BYTES);
        cay_buf_printf(&line, "%.*s=%.*s@%.*s:%.*s", (int)binding->variable.len,
                       binding->variable.ptr ?: "", (int)binding->secret.len,
                       binding->secret.ptr ?: "", (int)binding->host.len, binding->host.ptr ?: "",
                       (int)binding->header.len, binding->header.ptr ?: "");
        cay_output_field(out, i ? "" : "secrets", CAY_STYLE_PLAIN, cay_buf_str(&line));
    }
}

static void print_limits(struct cay_output *out, const struct cay_v1_resource_limits *limits)
{
    char text[128] = "";
    size_t len = 0;
    if (limits && limits->has_cpus)
        len += (size_t)snprintf(text, sizeof(text), "%g cpus", limits->cpus);
    if (limits && limits->has_memory_bytes) {
        char size[CAY_SIZE_BYTES];
        cay_size_format((uint64_t)limits->memory_bytes, size);
        len +=
            (size_t)snprintf(text + len, sizeof(text) - len, "%s%s memory", len ? ", " : "", size);
    }
    if (limits && limits->has_pids)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%" PRId64 " processes",
                                len ? ", " : "", limits->pids);
    if (limits && limits->has_disk_bytes) {
        char size[CAY_SIZE_BYTES];
        cay_size_format((uint64_t)limits->disk_bytes, size);
        snprintf(text + len, sizeof(text) - len, "%s%s disk", len ? ", " : "", size);
    }
    cay_output_field(out, "limits", CAY_STYLE_PLAIN, *text ? cay_str(text) : CAY_STR("none"));
}

static void print_when(struct cay_output *out, const char *title,
                       const struct google_protobuf_timestamp *time)
{
    char when[CAY_WHEN_BYTES];
    cay_output_when(time, cay_clock_wall_ns(), when);
    cay_output_field(out, title, CAY_STYLE_PLAIN, cay_str(when));
}

static const char *action_name(enum cay_v1_expiry_action action, const char *otherwise)
{
    switch (action) {
    case CAY_V1_EXPIRY_ACTION_PAUSE: return "paused";
    case CAY_V1_EXPIRY_ACTION_STOP: return "paused without its processes";
    case CAY_V1_EXPIRY_ACTION_DESTROY: return "destroyed";
    case CAY_V1_EXPIRY_ACTION_UNSPECIFIED: break;
    }
    return otherwise;
}

/* When it ends or sleeps by itself, and what wakes it. */
static void print_lifecycle(struct cay_output *out, const struct cay_v1_session *session)
{
    const struct cay_v1_lifecycle none = {};
    const struct cay_v1_lifecycle *life = session->lifecycle ? session->lifecycle : &none;
    char text[128];
    char when[CAY_WHEN_BYTES];
    if (session->deadline) {
        cay_output_when(session->deadline, cay_clock_wall_ns(), when);
        snprintf(text, sizeof(text), "%s, is then %s", when,
                 action_name(life->on_expiry, "destroyed"));
        cay_output_field(out, "expires", CAY_STYLE_PLAIN, cay_str(text));
    } else {
        cay_output_field(out, "expires", CAY_STYLE_PLAIN, CAY_STR("never"));
    }
    if (life->idle_timeout) {
        char time[CAY_DURATION_BYTES];
        cay_duration_format(life->idle_timeout->seconds * 1000, time);
        snprintf(text, sizeof(text), "%s after %s", action_name(life->on_idle, "paused"), time);
        cay_output_field(out, "when idle", CAY_STYLE_PLAIN, cay_str(text));
    } else {
        cay_output_field(out, "when idle", CAY_STYLE_PLAIN, CAY_STR("stays as it is"));
    }
    cay_output_field(out, "wakes", CAY_STYLE_PLAIN,
                     life->auto_resume ? CAY_STR("by the next call, when it is paused")
                                       : CAY_STR("by 'cay resume' only, when it is paused"));
}

static void print_history(struct cay_output *out, const struct cay_v1_session *session)
{
    char text[128];
    size_t len = (size_t)snprintf(text, sizeof(text), "%" PRId64 " turn%s, %" PRId64 " snapshot%s",
                                  session->turn_count, session->turn_count == 1 ? "" : "s",
                                  session->snapshot_count, session->snapshot_count == 1 ? "" : "s");
    if (session->max_snapshots)
        len += (size_t)snprintf(text + len, sizeof(text) - len, " of at most %d",
                                session->max_snapshots);
    if (session->tool_snapshots)
        snprintf(text + len, sizeof(text) - len, ", one after each tool call");
    cay_output_field(out, "history", CAY_STYLE_PLAIN, cay_str(text));
}

static void print_traffic(struct cay_output *out, const struct cay_v1_network_totals *totals)
{
    char sent[CAY_SIZE_BYTES];
    char received[CAY_SIZE_BYTES];
    char text[256];
    cay_size_format((uint64_t)CAY_MAX(totals->sent_bytes, (int64_t)0), sent);
    cay_size_format((uint64_t)CAY_MAX(totals->received_bytes, (int64_t)0), received);
    snprintf(text, sizeof(text),
             "%" PRId64 " connection%s, %" PRId64 " refused, %" PRId64 " failed, %" PRId64
             " refused name%s; sent %s, received %s",
             totals->allowed, totals->allowed == 1 ? "" : "s", totals->refused, totals->failed,
             totals->refused_names, totals->refused_names == 1 ? "" : "s", sent, received);
    cay_output_field(out, "traffic", CAY_STYLE_PLAIN, cay_str(text));
}

static void print_session(struct cay_output *out, const struct cay_v1_session *session)
{
    char text[128];
    bool is_active = session->state == CAY_V1_SESSION_STATE_ACTIVE;
    cay_output_text(out, CAY_STYLE_BOLD, session->id);
    cay_output_printf(out, "\n");
    cay_output_field(out, "state", is_active ? CAY_STYLE_GOOD : CAY_STYLE_WARN,
                     cay_str(cay_session_state_name((int)session->state)));
    if (session->state_message.len)
        cay_output_field(out, "", CAY_STYLE_PLAIN, session->state_message);
    cay_output_field(out, "owner", CAY_STYLE_PLAIN, session->owner);
    cay_output_field(out, "base", CAY_STYLE_PLAIN, session->base);
    if (session->parent_session_id.len) {
        cay_auto(cay_buf_finish) struct cay_buf line;
        cay_buf_init(&line, CAY_LIMIT_MESSAGE_BYTES);
        cay_buf_append_str(&line, session->parent_session_id);
        if (session->parent_snapshot.len)
            cay_buf_append_text(&line, " at ");
        cay_buf_append_str(&line, session->parent_snapshot);
        cay_output_field(out, "fork of", CAY_STYLE_PLAIN, cay_buf_str(&line));
    }
    print_when(out, "created", session->created_at);
    print_when(out, "last used", session->last_active_at);
    print_lifecycle(out, session);
    print_history(out, session);
    cay_output_field(out, "stands on", CAY_STYLE_PLAIN,
                     session->head.len ? session->head : CAY_STR("its base"));
    snprintf(text, sizeof(text), "%s, %d command%s running",
             session->sandbox_running ? "running" : "starts with the first command",
             session->tools_in_flight, session->tools_in_flight == 1 ? "" : "s");
    cay_output_field(out, "sandbox", CAY_STYLE_PLAIN, cay_str(text));
    cay_output_field(out, "runtime", CAY_STYLE_PLAIN, session->runtime);
    if (session->nesting)
        cay_output_field(out, "nesting", CAY_STYLE_WARN,
                         CAY_STR("open: its commands can make namespaces and mounts"));
    cay_output_field(out, "store", CAY_STYLE_PLAIN, session->store);
    print_limits(out, session->limits);
    if (session->network)
        cay_output_field(out, "network", CAY_STYLE_PLAIN,
                         cay_str(cay_values_network_name(session->network)));
    print_secrets(out, &session->secrets);
    cay_output_field(out, "user", CAY_STYLE_PLAIN, session->default_user);
    cay_output_field(out, "directory", CAY_STYLE_PLAIN, session->default_cwd);
    print_pairs(out, "labels", session->labels);
    print_pairs(out, "env", session->env);
    if (session->network_totals)
        print_traffic(out, session->network_totals);
}

static bool run_show(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_get_session_request request = {.session_id = cay_str(cli->args.words[0])};
    struct cay_v1_get_session_response response = {};
    if (!cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_GET_SESSION, &request, &response, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_get_session_response_desc, &response, err);
    if (response.session)
        print_session(&cli->out, response.session);
    return true;
}

/* What could not be removed does not keep the rest from being removed. */
static bool run_rm(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_args *args = &cli->args;
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_buf_init(&buf, CAY_LIMIT_MESSAGE_BYTES);
    struct cay_json_writer json = {.buf = &buf};
    bool all_done = true;
    bool any_done = false;
    cay_json_object_begin(&json);
    cay_json_key(&json, "removed");
    cay_json_array_begin(&json);
    for (size_t i = 0; i < args->word_count; i++) {
        struct cay_v1_destroy_session_response response = {};
        struct cay_v1_destroy_session_request request = {
            .session_id = cay_str(args->words[i]),
            .missing_ok = cay_args_has(args, "missing-ok"),
            .wait = cay_args_has(args, "wait"),
        };
        if (!cay_values_wait(cli, "drain", &request.drain_timeout, err))
            return false;
        struct cay_error failure = {};
        if (cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_DESTROY_SESSION, &request, &response,
                         &failure)) {
            any_done = true;
            if (response.existed)
                cay_json_text(&json, args->words[i]);
            continue;
        }
        cay_cli_failed_one(cli, &failure, err);
        all_done = false;
        if (failure.reason == CAY_R_UNAVAILABLE)
            break;
    }
    cay_json_array_end(&json);
    cay_json_object_end(&json);
    if (cli->out.is_json && any_done)
        cay_output_json(&cli->out, cay_buf_str(&buf));
    return all_done;
}

static const struct cay_flag create_flags[] = {
    {.name = "base",
     .value = "BASE",
     .help = "what the session starts from; the daemon's default base otherwise"},
    {.name = "name", .value = "NAME", .help = "its id; a generated one otherwise"},
    {.name = "label",
     .letter = 'l',
     .value = "NAME=VALUE",
     .help = "a label to find it by; may be given again"},
    {.name = "env",
     .letter = 'e',
     .value = "NAME=VALUE",
     .help = "a variable for all its commands; may be given again"},
    {.name = "user", .letter = 'u', .value = "USER", .help = "the user its commands run as"},
    {.name = "cwd",
     .value = "DIR",
     .help = "where its commands start; the base's directory otherwise"},
    CAY_FLAGS_LIMITS,
    CAY_FLAGS_DISK,
    CAY_FLAG_NETWORK,
    CAY_FLAG_PORTS,
    CAY_FLAG_SECRET,
    CAY_FLAG_RUNTIME("the daemon's default otherwise"),
    CAY_FLAGS_LIFECYCLE,
    {.name = "max-snapshots", .value = "N", .help = "keep the newest N turns only"},
    {.name = "max-tools",
     .value = "N",
     .help = "let at most N tools run at the same time; 0: any number"},
    CAY_FLAG_TOOL_SNAPSHOTS,
    {.name = "nesting", .help = "let commands make namespaces, for containers in it"},
    {.name = "lazy", .help = "start its sandbox with the first command, not now"},
    {},
};

static const struct cay_flag rm_flags[] = {
    {.name = "missing-ok", .help = "do not fail when there is no such session"},
    {.name = "drain",
     .value = "DURATION",
     .help = "wait at most this long for running tools before they are killed"},
    {.name = "wait", .help = "return when everything is free: processes, mounts, space on disk"},
    {},
};

const struct cay_command cay_command_create = {
    .name = "create",
    .arguments = "",
    .summary = "Make a session and print its id",
    .details = "The same command given again, with the same name and flags, finds that session.",
    .examples = "  cay create --name demo\n"
                "  S=$(cay create --memory 512M --label job=42)",
    .flags = create_flags,
    .group = CAY_GROUP_SANDBOX,
    .run = run_create,
};

const struct cay_command cay_command_show = {
    .name = "show",
    .arguments = "SESSION",
    .summary = "Show everything about a session",
    .group = CAY_GROUP_SANDBOX,
    .words_min = 1,
    .words_max = 1,
    .run = run_show,
    .complete = cay_session_offer,
};

const struct cay_command cay_command_rm = {
    .name = "rm",
    .arguments = "SESSION...",
    .summary = "Destroy sessions with their processes, files and snapshots",
    .details =
        "When one of several sessions cannot be destroyed, cay says so, destroys the others and\n"
        "fails at the end.",
    .flags = rm_flags,
    .group = CAY_GROUP_SANDBOX,
    .words_min = 1,
    .words_max = UINT32_MAX,
    .run = run_rm,
    .complete = cay_session_offer_many,
};
