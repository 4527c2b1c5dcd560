/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "api/limits.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/quantity.h"
#include "cli/command.h"
#include "cli/offer.h"
#include "cli/values.h"

/*
 * The history of a session as a tree, oldest first. The line that leads to the live files stands
 * straight at the left; what was left behind by rollbacks branches off it to the right.
 *
 *     ●  turn-0001    5m ago  first
 *     ├─●  turn-0002    4m ago
 *     │ ●  branch-0001  3m ago  unsaved changes before a rollback
 *     ●  turn-0003    1m ago  again  ← live
 */

enum {
    SNAPSHOTS_MAX = 100'000,
    INDENT_MAX = 24, /* branches of branches are not drawn deeper than that */
};

struct node {
    const struct cay_v1_snapshot *snapshot;
    struct node *parent;
    struct node *first_child; /* oldest */
    struct node *last_child;
    struct node *next_sibling;
    bool leads_to_live;
};

struct tree {
    struct node *nodes;
    size_t count;
    struct node root; /* the base */
    struct cay_table table;
    struct cay_buf prefix;
    int64_t now_ns;
};

static bool add_page(struct cay_cli *cli, struct cay_v1_snapshot_array *all,
                     const struct cay_v1_snapshot_array *page, struct cay_error *err)
{
    size_t count = all->count + page->count;
    struct cay_v1_snapshot *items =
        count <= SNAPSHOTS_MAX ? cay_arena_array(&cli->arena, count, sizeof(*items)) : NULL;
    if (!items)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "there are too many snapshots to list");
    if (all->count)
        memcpy(items, all->items, all->count * sizeof(*items));
    if (page->count)
        memcpy(items + all->count, page->items, page->count * sizeof(*items));
    *all = (struct cay_v1_snapshot_array){items, count};
    return true;
}

static bool list_all(struct cay_cli *cli, struct cay_v1_list_snapshots_response *all,
                     struct cay_error *err)
{
    struct cay_v1_list_snapshots_request request = {
        .session_id = cay_str(cli->args.words[0]),
        .page_size = CAY_LIMIT_PAGE_SIZE,
    };
    do {
        struct cay_v1_list_snapshots_response page = {};
        if (!cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_LIST_SNAPSHOTS, &request, &page, err) ||
            !add_page(cli, &all->snapshots, &page.snapshots, err))
            return false;
        if (page.next_page_token.len && !page.snapshots.count)
            return cay_fail(err, CAY_R_INTERNAL, "the daemon's list of snapshots does not end");
        all->head = page.head;
        request.page_token = page.next_page_token;
    } while (request.page_token.len);
    return true;
}

static void adopt(struct node *parent, struct node *child)
{
    child->parent = parent;
    if (parent->last_child)
        parent->last_child->next_sibling = child;
    else
        parent->first_child = child;
    parent->last_child = child;
}

/* A parent comes before its children in the list; one that does not is taken for the base, so that
 * whatever the daemon says has no circle. */
static void grow(struct tree *tree, const struct cay_v1_list_snapshots_response *all)
{
    struct cay_map by_name;
    cay_map_init(&by_name);
    for (size_t i = 0; i < all->snapshots.count; i++) {
        struct node *node = &tree->nodes[tree->count++];
        const struct cay_v1_snapshot *snapshot = &all->snapshots.items[i];
        struct node *parent = cay_map_get(&by_name, snapshot->parent);
        node->snapshot = snapshot;
        adopt(parent && snapshot->parent.len ? parent : &tree->root, node);
        cay_map_put(&by_name, snapshot->name, node);
    }
    struct node *live = cay_map_get(&by_name, all->head);
    for (struct node *node = all->head.len ? live : NULL; node; node = node->parent)
        node->leads_to_live = true;
    cay_map_finish(&by_name);
}

/* The child that goes straight on: the one that leads to the live files, else the last. After what
 * the live files stand on nothing does: that is where the line ends. */
static struct node *main_child(const struct node *node)
{
    if (node->snapshot && node->snapshot->is_head)
        return NULL;
    for (struct node *child = node->first_child; child; child = child->next_sibling) {
        if (child->leads_to_live)
            return child;
    }
    return node->last_child;
}

static void add_row(struct tree *tree, const struct node *node, const char *mark)
{
    const struct cay_v1_snapshot *snapshot = node->snapshot;
    char when[CAY_WHEN_BYTES];
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, CAY_LIMIT_MESSAGE_BYTES);
    cay_buf_append_str(&text, cay_buf_str(&tree->prefix));
    cay_buf_append_text(&text, mark);
    cay_buf_append_text(&text, "● ");
    cay_buf_append_str(&text, snapshot->name);
    cay_table_cell(&tree->table, snapshot->is_head ? CAY_STYLE_GOOD : CAY_STYLE_PLAIN,
                   cay_buf_str(&text));
    cay_output_when(snapshot->created_at, tree->now_ns, when);
    cay_table_cell(&tree->table, CAY_STYLE_DIM, cay_str(when));
    char size[CAY_SIZE_BYTES];
    cay_size_format((uint64_t)snapshot->size_bytes, size);
    bool is_counted = snapshot->size_bytes || snapshot->total_bytes || snapshot->changes;
    cay_table_cell(&tree->table, CAY_STYLE_DIM,
                   snapshot->unchanged ? CAY_STR("-")
                   : is_counted        ? cay_str(size)
                                       : CAY_STR("counting"));
    cay_buf_clear(&text, SIZE_MAX);
    cay_buf_append_str(&text, snapshot->message);
    if (snapshot->held)
        cay_buf_append_text(&text, text.len ? " (held)" : "(held)");
    for (size_t i = 0; i < snapshot->forks.count; i++) {
        cay_buf_append_text(&text, i ? ", " : text.len ? " → " : "→ ");
        cay_buf_append_str(&text, snapshot->forks.items[i]);
    }
    if (snapshot->unchanged)
        cay_buf_append_text(&text, text.len ? " (unchanged)" : "(unchanged)");
    if (snapshot->is_head)
        cay_buf_append_text(&text, text.len ? "  ← live" : "← live");
    if (!text.len)
        cay_buf_append_byte(&text, ' ');
    cay_table_cell(&tree->table, CAY_STYLE_PLAIN, cay_buf_str(&text));
}

static void add_line(struct tree *tree, const struct node *node, const char *mark);

static void add_children(struct tree *tree, const struct node *node, const struct node *straight)
{
    static const char bar[] = "│ ";
    size_t len = tree->prefix.len;
    bool is_deep = len >= INDENT_MAX * strlen(bar);
    for (const struct node *child = node->first_child; child; child = child->next_sibling) {
        if (child == straight)
            continue;
        if (is_deep) {
            add_row(tree, child, "├…");
            continue;
        }
        /* The mark stands in the first row, the bar in the rest. */
        add_line(tree, child, "├─");
        tree->prefix.len = len;
    }
}

static void add_line(struct tree *tree, const struct node *node, const char *mark)
{
    bool is_first = *mark;
    while (node) {
        const struct node *straight = main_child(node);
        if (node->snapshot)
            add_row(tree, node, is_first ? mark : "");
        if (is_first)
            cay_buf_append_text(&tree->prefix, "│ ");
        is_first = false;
        add_children(tree, node, straight);
        node = straight;
    }
}

static void print_tree(struct cay_output *out, const struct cay_v1_list_snapshots_response *all)
{
    static const char *const titles[] = {"SNAPSHOT", "TAKEN", "SIZE", "MESSAGE"};
    struct tree tree = {.now_ns = cay_clock_wall_ns()};
    tree.nodes = cay_alloc((all->snapshots.count + 1) * sizeof(*tree.nodes));
    cay_table_init(&tree.table, titles, CAY_COUNT(titles));
    cay_buf_init(&tree.prefix, CAY_LIMIT_MESSAGE_BYTES);
    grow(&tree, all);
    add_line(&tree, &tree.root, "");
    cay_table_print(&tree.table, out);
    cay_buf_finish(&tree.prefix);
    cay_table_finish(&tree.table);
    free(tree.nodes);
}

static bool run_log(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_list_snapshots_response all = {};
    if (!list_all(cli, &all, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_list_snapshots_response_desc, &all, err);
    if (all.snapshots.count)
        print_tree(&cli->out, &all);
    else if (cli->out.is_terminal)
        cay_output_printf(&cli->out, "There are no snapshots; 'cay turn' takes one.\n");
    return true;
}

const struct cay_command cay_command_log = {
    .name = "log",
    .arguments = "SESSION",
    .summary = "Show a session's turns and snapshots as a tree",
    .details = "The oldest come first. The line that leads to the live files stands at the left;\n"
               "what rollbacks left behind branches off it.",
    .group = CAY_GROUP_HISTORY,
    .words_min = 1,
    .words_max = 1,
    .run = run_log,
    .complete = cay_session_offer,
};
