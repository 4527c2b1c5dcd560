/* SPDX-License-Identifier: Apache-2.0 */
#include "api/limits.h"
#include "base/clock.h"
#include "base/quantity.h"
#include "cli/completion.h"
#include "cli/values.h"

enum { BASES_MAX = 10'000 };

static bool list_all(struct cay_cli *cli, struct cay_v1_base_array *all, struct cay_error *err)
{
    struct cay_v1_list_bases_request request = {.page_size = CAY_LIMIT_PAGE_SIZE};
    do {
        struct cay_v1_list_bases_response page = {};
        if (!cay_cli_call(cli, CAY_V1_BASE_SERVICE_LIST_BASES, &request, &page, err))
            return false;
        size_t count = all->count + page.bases.count;
        struct cay_v1_base *items =
            count <= BASES_MAX ? cay_arena_array(&cli->arena, count, sizeof(*items)) : NULL;
        if (!items || (page.next_page_token.len && !page.bases.count))
            return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "there are too many bases to list");
        if (all->count)
            memcpy(items, all->items, all->count * sizeof(*items));
        if (page.bases.count)
            memcpy(items + all->count, page.bases.items, page.bases.count * sizeof(*items));
        *all = (struct cay_v1_base_array){items, count};
        request.page_token = page.next_page_token;
    } while (request.page_token.len);
    return true;
}

static const char *origin_name(enum cay_v1_base_origin origin)
{
    switch (origin) {
    case CAY_V1_BASE_ORIGIN_HOST: return "this machine";
    case CAY_V1_BASE_ORIGIN_IMPORTED: return "imported";
    case CAY_V1_BASE_ORIGIN_BUILT: return "built";
    case CAY_V1_BASE_ORIGIN_SNAPSHOT: return "a snapshot";
    case CAY_V1_BASE_ORIGIN_UNSPECIFIED: break;
    }
    return "unknown";
}

static void print_bases(struct cay_output *out, const struct cay_v1_base_array *bases)
{
    static const char *const titles[] = {"NAME", "ALSO CALLED", "FROM", "SIZE", "MADE", "DEFAULT"};
    int64_t now_ns = cay_clock_wall_ns();
    cay_auto(cay_table_finish) struct cay_table table;
    cay_table_init(&table, titles, CAY_COUNT(titles));
    for (size_t i = 0; i < bases->count; i++) {
        const struct cay_v1_base *base = &bases->items[i];
        char when[CAY_WHEN_BYTES];
        cay_auto(cay_buf_finish) struct cay_buf aliases;
        cay_buf_init(&aliases, CAY_LIMIT_MESSAGE_BYTES);
        for (size_t j = 0; j < base->aliases.count; j++) {
            cay_buf_append_text(&aliases, j ? ", " : "");
            cay_buf_append_str(&aliases, base->aliases.items[j]);
        }
        cay_output_when(base->created_at, now_ns, when);
        char size[CAY_SIZE_BYTES] = "";
        if (base->size_bytes > 0)
            cay_size_format((uint64_t)base->size_bytes, size);
        cay_table_cell(&table, CAY_STYLE_BOLD, base->name);
        cay_table_cell(&table, CAY_STYLE_PLAIN, cay_buf_str(&aliases));
        cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(origin_name(base->origin)));
        cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(size));
        cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(when));
        cay_table_cell(&table, CAY_STYLE_GOOD, base->is_default ? CAY_STR("yes") : CAY_STR(""));
    }
    cay_table_print(&table, out);
}

static bool run_ls(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_list_bases_response all = {};
    if (!list_all(cli, &all.bases, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_list_bases_response_desc, &all, err);
    if (all.bases.count)
        print_bases(&cli->out, &all.bases);
    else if (cli->out.is_terminal)
        cay_output_printf(&cli->out, "There are no bases yet; 'host' is made when it is first "
                                     "used.\n");
    return true;
}

static bool run_rm(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_remove_base_request request = {
        .name = cay_str(cli->args.words[0]),
        .force = cay_args_has(&cli->args, "force"),
    };
    struct cay_v1_remove_base_response response = {};
    if (!cay_cli_call(cli, CAY_V1_BASE_SERVICE_REMOVE_BASE, &request, &response, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_remove_base_response_desc, &response, err);
    return true;
}

/* Completion of the first argument: the names of bases, by asking the daemon. */
static void offer(struct cay_completion *completion)
{
    struct cay_v1_base_array all = {};
    struct cay_error ignored = {};
    completion->cli->has_timeout = true;
    completion->cli->timeout_ms = 400;
    if (completion->word_count || !list_all(completion->cli, &all, &ignored))
        return;
    for (size_t i = 0; i < all.count; i++) {
        const char *name = cay_arena_copy(&completion->cli->arena, all.items[i].name);
        if (name)
            cay_completion_offer(completion, name, origin_name(all.items[i].origin));
    }
}

const struct cay_command cay_command_base_ls = {
    .name = "base ls",
    .arguments = "",
    .summary = "List the bases that sessions can start from",
    .group = CAY_GROUP_HOST,
    .run = run_ls,
};

static const struct cay_flag rm_flags[] = {
    {.name = "force", .letter = 'f', .help = "remove it also if sessions stand on it; they go on"},
    {},
};

const struct cay_command cay_command_base_rm = {
    .name = "base rm",
    .arguments = "NAME",
    .summary = "Remove a base that no session stands on, or an alias",
    .flags = rm_flags,
    .group = CAY_GROUP_HOST,
    .words_min = 1,
    .words_max = 1,
    .run = run_rm,
    .complete = offer,
};
