/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands/ls_files.h"

#include <limits.h>
#include <stdio.h>

#include "api/cay_v1.h"
#include "base/clock.h"
#include "base/quantity.h"
#include "cli/commands/cp.h"
#include "cli/output.h"
#include "cli/values.h"

enum { PAGE = 10'000, ENTRIES_MAX = 1'000'000 };

static char type_letter(enum cay_v1_file_type type)
{
    static const char letters[] = {
        [CAY_V1_FILE_TYPE_FILE] = '-',         [CAY_V1_FILE_TYPE_DIRECTORY] = 'd',
        [CAY_V1_FILE_TYPE_SYMLINK] = 'l',      [CAY_V1_FILE_TYPE_FIFO] = 'p',
        [CAY_V1_FILE_TYPE_SOCKET] = 's',       [CAY_V1_FILE_TYPE_CHAR_DEVICE] = 'c',
        [CAY_V1_FILE_TYPE_BLOCK_DEVICE] = 'b',
    };
    size_t at = (size_t)type;
    return at < sizeof(letters) && letters[at] ? letters[at] : '?';
}

static void print_files(struct cay_output *out, const struct cay_v1_file_info_array *all)
{
    static const char *const titles[] = {"MODE", "OWNER", "SIZE", "CHANGED", "NAME"};
    int64_t now_ns = cay_clock_wall_ns();
    cay_auto(cay_table_finish) struct cay_table table;
    cay_table_init(&table, titles, CAY_COUNT(titles));
    for (size_t i = 0; i < all->count; i++) {
        const struct cay_v1_file_info *info = &all->items[i];
        char text[CAY_WHEN_BYTES];
        char size[CAY_SIZE_BYTES];
        cay_auto(cay_buf_finish) struct cay_buf name;
        snprintf(text, sizeof(text), "%c%04o", type_letter(info->type), info->mode & 07777u);
        cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(text));
        cay_table_cell(&table, CAY_STYLE_PLAIN, info->owner);
        cay_size_format((uint64_t)info->size, size);
        cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(size));
        cay_output_when(info->modified_at, now_ns, text);
        cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(text));
        cay_buf_init(&name, 2 * PATH_MAX * 4);
        cay_buf_append_str(&name, info->name);
        if (info->symlink_target.len) {
            cay_buf_append_text(&name, " -> ");
            cay_buf_append_str(&name, info->symlink_target);
        }
        cay_table_cell(&table, CAY_STYLE_BOLD, cay_buf_str(&name));
    }
    cay_table_print(&table, out);
}

static bool add_page(struct cay_cli *cli, struct cay_v1_list_dir_response *all,
                     const struct cay_v1_list_dir_response *page, struct cay_error *err)
{
    size_t count = all->entries.count + page->entries.count;
    struct cay_v1_file_info *items =
        count <= ENTRIES_MAX ? cay_arena_array(&cli->arena, count, sizeof(*items)) : NULL;
    if (!items)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "the directory has too many entries to list");
    if (all->entries.count)
        memcpy(items, all->entries.items, all->entries.count * sizeof(*items));
    if (page->entries.count)
        memcpy(items + all->entries.count, page->entries.items,
               page->entries.count * sizeof(*items));
    all->entries = (struct cay_v1_file_info_array){items, count};
    all->unreadable += page->unreadable;
    return true;
}

bool cay_ls_files(struct cay_cli *cli, const char *word, struct cay_error *err)
{
    struct cay_v1_list_dir_request request = {.page_size = PAGE};
    const char *path = cay_cp_place(word, &request.session_id, &request.snapshot);
    const char *text = path ? cay_cp_encode(&cli->arena, path) : NULL;
    struct cay_v1_list_dir_response all = {};
    if (!text)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "'%.60s' is no directory of a session; write it as SESSION:PATH or "
                        "SESSION@SNAPSHOT:PATH",
                        word);
    request.path = cay_str(text);
    do {
        struct cay_v1_list_dir_response page = {};
        if (!cay_cli_call(cli, CAY_V1_FILE_SERVICE_LIST_DIR, &request, &page, err) ||
            !add_page(cli, &all, &page, err))
            return false;
        if (page.next_page_token.len && !page.entries.count)
            return cay_fail(err, CAY_R_INTERNAL, "the daemon's list of files does not end");
        request.page_token = page.next_page_token;
    } while (request.page_token.len);
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_list_dir_response_desc, &all, err);
    if (cay_args_has(&cli->args, "quiet")) {
        for (size_t i = 0; i < all.entries.count; i++) {
            cay_output_text(&cli->out, CAY_STYLE_PLAIN, all.entries.items[i].name);
            cay_output_printf(&cli->out, "\n");
        }
    } else if (all.entries.count) {
        print_files(&cli->out, &all.entries);
    }
    return true;
}
