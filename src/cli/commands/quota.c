/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/json.h"
#include "base/quantity.h"
#include "cli/command.h"
#include "cli/values.h"

enum unit { COUNT, SIZE, PROCESSORS };

/* What there is, and where its values are in a struct cay_v1_quota_limits. */
static const struct kind {
    const char *flag;
    const char *field;
    enum unit unit;
    size_t has_at;
    size_t at;
} kinds[] = {
#define KIND(flag, name, unit)                                               \
    {                                                                        \
        flag, #name, unit, offsetof(struct cay_v1_quota_limits, has_##name), \
            offsetof(struct cay_v1_quota_limits, name)                       \
    }
    KIND("sessions", sessions, COUNT), KIND("memory", memory_bytes, SIZE),
    KIND("cpus", cpus, PROCESSORS),    KIND("disk", disk_bytes, SIZE),
    KIND("pids", pids, COUNT),         KIND("snapshots", snapshots, COUNT),
    KIND("ports", ports, COUNT),       KIND("bases", bases, COUNT),
    KIND("streams", streams, COUNT),
#undef KIND
};

static bool has(const struct cay_v1_quota_limits *limits, const struct kind *kind)
{
    return limits && *(const bool *)((const char *)limits + kind->has_at);
}

static void format(const struct cay_v1_quota_limits *limits, const struct kind *kind,
                   char out[CAY_SIZE_BYTES])
{
    const void *value = (const char *)limits + kind->at;
    if (!has(limits, kind))
        snprintf(out, CAY_SIZE_BYTES, "none");
    else if (kind->unit == PROCESSORS)
        snprintf(out, CAY_SIZE_BYTES, "%.10g", *(const double *)value);
    else if (kind->unit == SIZE)
        cay_size_format((uint64_t) * (const int64_t *)value, out);
    else
        snprintf(out, CAY_SIZE_BYTES, "%lld", (long long)*(const int64_t *)value);
}

static void print_quota(struct cay_output *out, const struct cay_v1_quota *quota)
{
    static const char *const titles[] = {"QUOTA", "USED", "LIMIT", "FROM"};
    cay_auto(cay_table_finish) struct cay_table table;
    cay_table_init(&table, titles, CAY_COUNT(titles));
    for (size_t i = 0; i < CAY_COUNT(kinds); i++) {
        char text[CAY_SIZE_BYTES];
        bool is_own = has(quota->own, &kinds[i]);
        cay_table_cell(&table, CAY_STYLE_BOLD, cay_str(kinds[i].flag));
        format(quota->used, &kinds[i], text);
        cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(text));
        format(quota->limits, &kinds[i], text);
        cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(text));
        cay_table_cell(&table, is_own ? CAY_STYLE_PLAIN : CAY_STYLE_DIM,
                       cay_str(is_own ? "its own" : "configuration"));
    }
    cay_table_print(&table, out);
}

static bool run_quota(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_get_quota_request request = {};
    struct cay_v1_get_quota_response response = {};
    if (cli->args.word_count)
        request.owner = cay_str(cli->args.words[0]);
    if (!cay_cli_call(cli, CAY_V1_QUOTA_SERVICE_GET_QUOTA, &request, &response, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_get_quota_response_desc, &response, err);
    if (response.quota)
        print_quota(&cli->out, response.quota);
    return true;
}

static bool parse(const struct kind *kind, struct cay_str text, void *value)
{
    uint64_t number = 0;
    if (cay_str_is(text, "none"))
        return true; /* it is 0 */
    if (kind->unit == PROCESSORS)
        return cay_json_to_double(text, value) == 0 && *(double *)value > 0;
    int status = kind->unit == SIZE ? cay_size_parse(text, &number)
                                    : cay_str_to_u64(text, INT64_MAX, &number);
    *(int64_t *)value = (int64_t)number;
    return status == 0 && number && number <= INT64_MAX;
}

/* What the flags say; those that are "default" are to be cleared. */
static bool read_flags(struct cay_cli *cli, struct cay_v1_set_quota_request *request,
                       struct cay_error *err)
{
    static const char *const examples[] = {"1000", "64G", "0.5 or 8"};
    const char *cleared[CAY_COUNT(kinds)];
    size_t clear_count = 0;
    size_t set_count = 0;
    for (size_t i = 0; i < CAY_COUNT(kinds); i++) {
        struct cay_str text = cay_values_text(cli, kinds[i].flag);
        if (!text.ptr)
            continue;
        if (cay_str_is(text, "default")) {
            cleared[clear_count++] = kinds[i].field;
            continue;
        }
        if (!parse(&kinds[i], text, (char *)request->set + kinds[i].at))
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "--%s '%.40s': write %s, default (what the configuration says) or none "
                            "(no limit)",
                            kinds[i].flag, text.ptr, examples[kinds[i].unit]);
        *(bool *)((char *)request->set + kinds[i].has_at) = true;
        set_count++;
    }
    if (!clear_count && !set_count)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "say what to set, e.g. --sessions 50; 'cay quota set --help' lists it all");
    return cay_values_words(cli, cleared, clear_count, &request->clear, err);
}

static bool run_set(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_quota_limits set = {};
    struct cay_v1_set_quota_request request = {.owner = cay_str(cli->args.words[0]), .set = &set};
    struct cay_v1_set_quota_response response = {};
    if (!read_flags(cli, &request, err) ||
        !cay_cli_call(cli, CAY_V1_QUOTA_SERVICE_SET_QUOTA, &request, &response, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_set_quota_response_desc, &response, err);
    if (response.quota)
        print_quota(&cli->out, response.quota);
    return true;
}

static const struct cay_flag set_flags[] = {
    {.name = "sessions", .value = "N", .help = "sessions it may have"},
    {.name = "memory",
     .value = "SIZE",
     .help = "memory that the limits of its sessions may add up to"},
    {.name = "cpus",
     .value = "N",
     .help = "processors that the limits of its sessions may add up to"},
    {.name = "disk",
     .value = "SIZE",
     .help = "disk space that the limits of its sessions may add up to"},
    {.name = "pids",
     .value = "N",
     .help = "processes that the limits of its sessions may add up to"},
    {.name = "snapshots", .value = "N", .help = "snapshots its sessions may have together"},
    {.name = "ports", .value = "N", .help = "ports it may expose"},
    {.name = "bases", .value = "N", .help = "bases it may build or publish"},
    {.name = "streams", .value = "N", .help = "calls that stream it may have under way"},
    {},
};

const struct cay_command cay_command_quota = {
    .name = "quota",
    .arguments = "[OWNER]",
    .summary = "Show what an owner may have of this host, and what it has",
    .details = "Without OWNER cay shows your own quotas; only administrators see those of others.",
    .examples = "  cay quota\n"
                "  cay quota alice",
    .group = CAY_GROUP_HOST,
    .words_max = 1,
    .run = run_quota,
};

const struct cay_command cay_command_quota_set = {
    .name = "quota set",
    .arguments = "OWNER",
    .summary = "Give an owner quotas of its own",
    .details = "They hold at once and survive restarts. What no flag names stays as it is; with\n"
               "'default' the configuration's value holds again, with 'none' there is no limit.\n"
               "The command needs an admin key, or the daemon's Unix socket as root.",
    .examples = "  cay quota set alice --sessions 50 --memory 64G\n"
                "  cay quota set alice --memory default --ports none",
    .flags = set_flags,
    .group = CAY_GROUP_HOST,
    .words_min = 1,
    .words_max = 1,
    .run = run_set,
};
