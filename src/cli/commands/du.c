/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "api/limits.h"
#include "base/quantity.h"
#include "cli/command.h"
#include "cli/offer.h"
#include "cli/values.h"

static void size_cell(struct cay_table *table, int64_t bytes)
{
    char text[CAY_SIZE_BYTES];
    cay_size_format((uint64_t)bytes, text);
    cay_table_cell(table, CAY_STYLE_PLAIN, cay_str(text));
}

static void add_rows(struct cay_table *table, const struct cay_v1_get_usage_response *page)
{
    for (size_t i = 0; i < page->sessions.count; i++) {
        const struct cay_v1_session_usage_entry *entry = &page->sessions.items[i];
        char text[32];
        if (!entry->usage)
            continue;
        cay_table_cell(table, CAY_STYLE_PLAIN, entry->session_id);
        size_cell(table, entry->usage->disk_bytes);
        size_cell(table, entry->usage->snapshot_bytes);
        size_cell(table, entry->usage->memory_bytes);
        snprintf(text, sizeof(text), "%" PRId64, entry->usage->pids);
        cay_table_cell(table, CAY_STYLE_PLAIN, cay_str(text));
    }
}

static void print_host(struct cay_output *out, const struct cay_v1_host_usage *host)
{
    char used[CAY_SIZE_BYTES];
    char size[CAY_SIZE_BYTES];
    char own[CAY_SIZE_BYTES];
    cay_size_format((uint64_t)host->pool_used_bytes, used);
    cay_size_format((uint64_t)host->pool_size_bytes, size);
    cay_size_format((uint64_t)host->session_bytes, own);
    cay_output_printf(out, "%" PRId64 " sessions hold %s; the pool has %s, of which %s are used\n",
                      host->sessions, own, size, used);
}

static bool run_du(struct cay_cli *cli, struct cay_error *err)
{
    static const char *const titles[] = {"SESSION", "DISK", "OF THAT SNAPSHOTS", "MEMORY", "PIDS"};
    struct cay_v1_get_usage_request request = {
        .session_id = cay_str(cli->args.word_count ? cli->args.words[0] : NULL),
        .page_size = CAY_LIMIT_PAGE_SIZE,
    };
    struct cay_table table;
    const struct cay_v1_host_usage *host = NULL;
    cay_table_init(&table, titles, CAY_COUNT(titles));
    bool is_good = true;
    do {
        struct cay_v1_get_usage_response page = {};
        is_good = cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_GET_USAGE, &request, &page, err);
        if (is_good && cli->out.is_json)
            is_good = cay_output_message(&cli->out, &cay_v1_get_usage_response_desc, &page, err);
        add_rows(&table, &page);
        host = page.host ? page.host : host;
        request.page_token = page.next_page_token;
    } while (is_good && request.page_token.len);
    if (is_good && !cli->out.is_json) {
        cay_table_print(&table, &cli->out);
        if (host)
            print_host(&cli->out, host);
    }
    cay_table_finish(&table);
    return is_good;
}

const struct cay_command cay_command_du = {
    .name = "du",
    .arguments = "[SESSION]",
    .summary = "Show what sessions use, the largest first",
    .details =
        "DISK is what a session holds beyond its base; what only its snapshots hold is a part\n"
        "of that. Data that forks share is counted for each of them.",
    .group = CAY_GROUP_HOST,
    .words_max = 1,
    .run = run_du,
    .complete = cay_session_offer,
};
