/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/values.h"

#include "base/json.h"
#include "base/quantity.h"

static bool out_of_memory(struct cay_error *err)
{
    return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "the command line is too long");
}

struct cay_str cay_values_text(const struct cay_cli *cli, const char *flag)
{
    return cay_str(cay_args_text(&cli->args, flag));
}

bool cay_values_pairs(struct cay_cli *cli, const char *flag, struct cay_pb_pairs *out_pairs,
                      struct cay_error *err)
{
    size_t count = 0;
    size_t cursor = 0;
    while (cay_args_each(&cli->args, flag, &cursor))
        count++;
    struct cay_pb_pair *items = cay_arena_array(&cli->arena, count, sizeof(*items));
    if (!items)
        return out_of_memory(err);
    cursor = 0;
    for (size_t i = 0; i < count; i++) {
        const char *text = cay_args_each(&cli->args, flag, &cursor);
        const char *equals = strchr(text, '=');
        if (!equals || equals == text)
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "--%s '%.60s' is not NAME=VALUE; write --%s NAME=VALUE", flag, text,
                            flag);
        items[i].key = (struct cay_str){text, (size_t)(equals - text)};
        items[i].value = cay_str(equals + 1);
    }
    *out_pairs = (struct cay_pb_pairs){items, count};
    return true;
}

bool cay_values_names(struct cay_cli *cli, const char *flag, struct cay_pb_strs *out_names,
                      struct cay_error *err)
{
    size_t count = 0;
    size_t cursor = 0;
    while (cay_args_each(&cli->args, flag, &cursor))
        count++;
    struct cay_str *items = cay_arena_array(&cli->arena, count, sizeof(*items));
    if (!items)
        return out_of_memory(err);
    cursor = 0;
    for (size_t i = 0; i < count; i++)
        items[i] = cay_str(cay_args_each(&cli->args, flag, &cursor));
    *out_names = (struct cay_pb_strs){items, count};
    return true;
}

bool cay_values_wait(struct cay_cli *cli, const char *flag,
                     struct google_protobuf_duration **out_duration, struct cay_error *err)
{
    const char *text = cay_args_text(&cli->args, flag);
    int64_t ms = 0;
    *out_duration = NULL;
    if (!text)
        return true;
    if (cay_duration_parse(cay_str(text), &ms) < 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "--%s '%.40s' is not a duration; write 500ms, 30s or 5m", flag, text);
    struct google_protobuf_duration *duration =
        cay_arena_new(&cli->arena, struct google_protobuf_duration);
    if (!duration)
        return out_of_memory(err);
    duration->seconds = ms / 1000;
    duration->nanos = (int32_t)(ms % 1000) * 1'000'000;
    *out_duration = duration;
    return true;
}

bool cay_values_duration(struct cay_cli *cli, const char *flag,
                         struct google_protobuf_duration **out_duration, struct cay_error *err)
{
    if (!cay_values_wait(cli, flag, out_duration, err))
        return false;
    const struct google_protobuf_duration *duration = *out_duration;
    if (duration && !duration->seconds && !duration->nanos)
        *out_duration = NULL;
    return true;
}

static bool read_cpus(struct cay_str text, struct cay_v1_resource_limits *limits,
                      struct cay_error *err)
{
    limits->has_cpus = true;
    if (cay_json_to_double(text, &limits->cpus) == 0 && limits->cpus > 0)
        return true;
    return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "--cpus '%.40s' is not a number of processors; write 0.5 or 2", text.ptr);
}

static bool read_size(const char *flag, struct cay_str text, bool *out_is_given, int64_t *out_bytes,
                      struct cay_error *err)
{
    uint64_t bytes = 0;
    int status = cay_size_parse(text, &bytes);
    *out_is_given = true;
    *out_bytes = (int64_t)bytes;
    return (status == 0 && bytes && bytes <= INT64_MAX) ||
           cay_fail(err, CAY_R_INVALID_ARGUMENT, "--%s '%.40s' is not a size; write 512M or 2G",
                    flag, text.ptr);
}

static bool read_count(const char *flag, const char *what, struct cay_str text, bool *out_is_given,
                       int64_t *out_count, struct cay_error *err)
{
    uint64_t count = 0;
    int status = cay_str_to_u64(text, UINT32_MAX, &count);
    *out_is_given = true;
    *out_count = (int64_t)count;
    return (status == 0 && count) ||
           cay_fail(err, CAY_R_INVALID_ARGUMENT, "--%s '%.40s' is not a number of %s; write 1000",
                    flag, text.ptr, what);
}

bool cay_values_limits(struct cay_cli *cli, struct cay_v1_resource_limits **out_limits,
                       struct cay_error *err)
{
    struct cay_str cpus = cay_values_text(cli, "cpus");
    struct cay_str memory = cay_values_text(cli, "memory");
    struct cay_str pids = cay_values_text(cli, "pids");
    /* Only whole sessions have a limit on the disk; commands in them have no such flag. */
    bool is_session = cay_args_flag(cli->args.command, CAY_STR("disk")) != NULL;
    struct cay_str disk = is_session ? cay_values_text(cli, "disk") : (struct cay_str){};
    struct cay_str inodes = is_session ? cay_values_text(cli, "inodes") : (struct cay_str){};
    *out_limits = NULL;
    if (!cpus.ptr && !memory.ptr && !pids.ptr && !disk.ptr && !inodes.ptr)
        return true;
    struct cay_v1_resource_limits *limits =
        cay_arena_new(&cli->arena, struct cay_v1_resource_limits);
    if (!limits)
        return out_of_memory(err);
    if ((cpus.ptr && !read_cpus(cpus, limits, err)) ||
        (memory.ptr &&
         !read_size("memory", memory, &limits->has_memory_bytes, &limits->memory_bytes, err)) ||
        (pids.ptr &&
         !read_count("pids", "processes", pids, &limits->has_pids, &limits->pids, err)) ||
        (disk.ptr && !read_size("disk", disk, &limits->has_disk_bytes, &limits->disk_bytes, err)) ||
        (inodes.ptr &&
         !read_count("inodes", "files", inodes, &limits->has_inodes, &limits->inodes, err)))
        return false;
    *out_limits = limits;
    return true;
}

bool cay_values_number(struct cay_cli *cli, const char *flag, int32_t min, int32_t max,
                       bool *out_is_given, int32_t *out_number, struct cay_error *err)
{
    struct cay_str text = cay_values_text(cli, flag);
    uint64_t number = 0;
    *out_is_given = text.ptr != NULL;
    if (text.ptr && (cay_str_to_u64(text, (uint64_t)max, &number) < 0 || number < (uint64_t)min))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "--%s '%.40s' is not a number from %d to %d",
                        flag, text.ptr, min, max);
    *out_number = (int32_t)number;
    return true;
}

bool cay_values_switch(struct cay_cli *cli, const char *flag, bool *out_is_given, bool *out_is_on,
                       struct cay_error *err)
{
    struct cay_str text = cay_values_text(cli, flag);
    *out_is_given = text.ptr;
    *out_is_on = cay_str_is(text, "on");
    return !text.ptr || *out_is_on || cay_str_is(text, "off") ||
           cay_fail(err, CAY_R_INVALID_ARGUMENT, "--%s '%.40s': write on or off", flag, text.ptr);
}

static bool read_action(struct cay_cli *cli, const char *flag,
                        enum cay_v1_expiry_action *out_action, struct cay_error *err)
{
    static const struct {
        const char *name;
        enum cay_v1_expiry_action action;
    } actions[] = {
        {"destroy", CAY_V1_EXPIRY_ACTION_DESTROY},
        {"pause", CAY_V1_EXPIRY_ACTION_PAUSE},
        {"stop", CAY_V1_EXPIRY_ACTION_STOP},
    };
    struct cay_str text = cay_values_text(cli, flag);
    for (size_t i = 0; i < CAY_COUNT(actions); i++) {
        if (cay_str_is(text, actions[i].name))
            *out_action = actions[i].action;
    }
    return !text.ptr || *out_action ||
           cay_fail(err, CAY_R_INVALID_ARGUMENT, "--%s '%.40s': write destroy, pause or stop", flag,
                    text.ptr);
}

bool cay_values_lifecycle(struct cay_cli *cli, struct cay_v1_lifecycle **out_lifecycle,
                          struct cay_error *err)
{
    struct cay_v1_lifecycle *lifecycle = cay_arena_new(&cli->arena, struct cay_v1_lifecycle);
    if (!lifecycle)
        return out_of_memory(err);
    lifecycle->auto_resume = cay_args_has(&cli->args, "auto-resume");
    if (!cay_values_duration(cli, "expire-in", &lifecycle->timeout, err) ||
        !cay_values_duration(cli, "idle-after", &lifecycle->idle_timeout, err) ||
        !read_action(cli, "on-expiry", &lifecycle->on_expiry, err) ||
        !read_action(cli, "on-idle", &lifecycle->on_idle, err))
        return false;
    bool is_given = lifecycle->auto_resume || lifecycle->timeout || lifecycle->idle_timeout ||
                    lifecycle->on_expiry || lifecycle->on_idle;
    *out_lifecycle = is_given ? lifecycle : NULL;
    return true;
}

bool cay_values_texts(struct cay_cli *cli, const char *flag, struct cay_pb_strs *out_strs,
                      struct cay_error *err)
{
    struct cay_str *items = cay_arena_array(&cli->arena, cli->args.value_count + 1, sizeof(*items));
    size_t cursor = 0;
    *out_strs = (struct cay_pb_strs){.items = items};
    if (!items)
        return out_of_memory(err);
    for (const char *text; (text = cay_args_each(&cli->args, flag, &cursor));)
        items[out_strs->count++] = cay_str(text);
    return true;
}

static const struct {
    const char *name;
    enum cay_v1_network_mode mode;
    bool ask;
} networks[] = {
    {"none", CAY_V1_NETWORK_MODE_NONE, false},
    {"open", CAY_V1_NETWORK_MODE_OPEN, false},
    {"filtered", CAY_V1_NETWORK_MODE_FILTERED, false},
    {"ask", CAY_V1_NETWORK_MODE_FILTERED, true},
};

static bool read_mode(struct cay_str text, struct cay_v1_network_policy *out, struct cay_error *err)
{
    for (size_t i = 0; i < CAY_COUNT(networks); i++) {
        if (!cay_str_is(text, networks[i].name))
            continue;
        out->mode = networks[i].mode;
        out->ask = networks[i].ask;
        return true;
    }
    return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "--network '%.40s': write none, open, filtered or ask", text.ptr);
}

const char *cay_values_network_name(const struct cay_v1_network_policy *policy)
{
    for (size_t i = 0; i < CAY_COUNT(networks); i++) {
        if (policy->mode == networks[i].mode && policy->ask == networks[i].ask)
            return networks[i].name;
    }
    return "none";
}

static bool read_ports(struct cay_str text, struct cay_v1_network_policy *out,
                       struct cay_error *err)
{
    out->private_ports = cay_str_is(text, "private");
    out->public_ports = cay_str_is(text, "public");
    return out->private_ports || out->public_ports || cay_str_is(text, "exposed") ||
           cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "--ports '%.40s': write private, exposed or public", text.ptr);
}

const char *cay_values_ports_name(const struct cay_v1_network_policy *network)
{
    return network->private_ports ? "private" : network->public_ports ? "public" : "exposed";
}

/* What no flag names stays as the session has it. */
static bool start_from(struct cay_cli *cli, struct cay_str session_id,
                       struct cay_v1_network_policy *out, struct cay_error *err)
{
    const struct cay_v1_get_session_request ask = {.session_id = session_id};
    struct cay_v1_get_session_response told = {};
    if (!session_id.len)
        return true;
    if (!cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_GET_SESSION, &ask, &told, err))
        return false;
    if (told.session && told.session->network)
        *out = *told.session->network;
    return true;
}

/* Rules alone say that the network is filtered. */
static bool read_reach(struct cay_str mode, struct cay_pb_strs allow, struct cay_pb_strs deny,
                       struct cay_v1_network_policy *out, struct cay_error *err)
{
    bool has_rules = allow.count || deny.count;
    if (!mode.ptr && !has_rules)
        return true;
    out->mode = CAY_V1_NETWORK_MODE_FILTERED;
    out->allow = allow;
    out->deny = deny;
    if (mode.ptr && !read_mode(mode, out, err))
        return false;
    return !has_rules || out->mode == CAY_V1_NETWORK_MODE_FILTERED ||
           cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "--allow and --deny are for --network filtered and ask");
}

bool cay_values_network(struct cay_cli *cli, struct cay_str session_id,
                        struct cay_v1_network_policy **out_network, struct cay_error *err)
{
    struct cay_str mode = cay_values_text(cli, "network");
    bool has_ports = cay_args_flag(cli->args.command, CAY_STR("ports"));
    struct cay_str ports = has_ports ? cay_values_text(cli, "ports") : (struct cay_str){};
    struct cay_str mask = has_ports ? cay_values_text(cli, "mask-host") : (struct cay_str){};
    struct cay_pb_strs allow = {};
    struct cay_pb_strs deny = {};
    *out_network = NULL;
    if (!cay_values_texts(cli, "allow", &allow, err) || !cay_values_texts(cli, "deny", &deny, err))
        return false;
    if (!mode.ptr && !allow.count && !deny.count && !ports.ptr && !mask.ptr)
        return true;
    struct cay_v1_network_policy *network =
        cay_arena_new(&cli->arena, struct cay_v1_network_policy);
    if (!network)
        return out_of_memory(err);
    if (!start_from(cli, session_id, network, err) || !read_reach(mode, allow, deny, network, err))
        return false;
    if (ports.ptr && !read_ports(ports, network, err))
        return false;
    if (mask.ptr)
        network->mask_request_host = mask;
    *out_network = network;
    return true;
}

bool cay_values_words(struct cay_cli *cli, const char *const *words, size_t count,
                      struct cay_pb_strs *out_strs, struct cay_error *err)
{
    struct cay_str *items = cay_arena_array(&cli->arena, count, sizeof(*items));
    if (!items)
        return out_of_memory(err);
    for (size_t i = 0; i < count; i++)
        items[i] = cay_str(words[i]);
    *out_strs = (struct cay_pb_strs){items, count};
    return true;
}

/* VARIABLE=SECRET@HOST[:HEADER] */
static bool read_secret(const char *text, struct cay_v1_secret_binding *out, struct cay_error *err)
{
    const char *equals = strchr(text, '=');
    const char *at = equals ? strchr(equals, '@') : NULL;
    if (!at || equals == text || at == equals + 1 || !at[1] || at[1] == ':')
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "--secret '%.60s' is not VARIABLE=SECRET@HOST[:HEADER]; write --secret "
                        "OPENAI_API_KEY=openai@api.openai.com",
                        text);
    const char *colon = strchr(at, ':');
    *out = (struct cay_v1_secret_binding){
        .variable = {text, (size_t)(equals - text)},
        .secret = {equals + 1, (size_t)(at - equals - 1)},
        .host = {at + 1, colon ? (size_t)(colon - at - 1) : strlen(at + 1)},
        .header = cay_str(colon ? colon + 1 : ""),
    };
    return true;
}

bool cay_values_secrets(struct cay_cli *cli, struct cay_v1_secret_binding_array *out_secrets,
                        struct cay_error *err)
{
    struct cay_pb_strs texts;
    if (!cay_values_texts(cli, "secret", &texts, err))
        return false;
    struct cay_v1_secret_binding *items = cay_arena_array(&cli->arena, texts.count, sizeof(*items));
    if (!items)
        return out_of_memory(err);
    size_t cursor = 0;
    for (size_t i = 0; i < texts.count; i++) {
        if (!read_secret(cay_args_each(&cli->args, "secret", &cursor), &items[i], err))
            return false;
    }
    *out_secrets = (struct cay_v1_secret_binding_array){items, texts.count};
    return true;
}

bool cay_values_new_secrets(struct cay_cli *cli, struct cay_v1_secret_binding_array *out_secrets,
                            struct cay_v1_network_policy **in_out_network, struct cay_error *err)
{
    if (!cay_values_secrets(cli, out_secrets, err))
        return false;
    if (!out_secrets->count)
        return true;
    if (!*in_out_network)
        *in_out_network = cay_arena_new(&cli->arena, struct cay_v1_network_policy);
    if (!*in_out_network)
        return out_of_memory(err);
    if (!(*in_out_network)->mode)
        (*in_out_network)->mode = CAY_V1_NETWORK_MODE_FILTERED;
    return true;
}
