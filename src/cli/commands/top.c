/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "api/limits.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/quantity.h"
#include "cli/commands/session.h"
#include "cli/values.h"
#include "client/rpc/client.h"

enum {
    INTERVAL_MS_DEFAULT = 2000,
    INTERVAL_MS_MIN = 100,
    ROWS_WITHOUT_SIZE = 24,
    ROWS_AROUND = 3, /* the line of the host, the titles, the cursor */
    CTRL_C = 3,
};

/* One look at all sessions. */
struct look {
    struct cay_arena arena;
    struct cay_v1_session_usage_entry **entries; /* those with usage */
    size_t count;
    const struct cay_v1_host_usage *host;
    int64_t at_ns;
};

struct row {
    const struct cay_v1_session_usage_entry *entry;
    double cpus;
};

static void look_free(struct look *look)
{
    free(look->entries);
    cay_arena_finish(&look->arena);
    *look = (struct look){};
}

static void look_add(struct look *look, const struct cay_v1_get_usage_response *page)
{
    look->entries = cay_realloc_array(look->entries, look->count + page->sessions.count + 1,
                                      sizeof(*look->entries));
    for (size_t i = 0; i < page->sessions.count; i++) {
        if (page->sessions.items[i].usage)
            look->entries[look->count++] = &page->sessions.items[i];
    }
    look->host = page->host ? page->host : look->host;
}

static bool look_take(struct look *look, struct cay_cli *cli, struct cay_error *err)
{
    struct cay_client *client = NULL;
    struct cay_v1_get_usage_request request = {.page_size = CAY_LIMIT_PAGE_SIZE};
    *look = (struct look){.at_ns = cay_clock_ns()};
    cay_arena_init(&look->arena, 16 * CAY_LIMIT_MESSAGE_BYTES);
    if (!cay_cli_client(cli, CAY_CALL_UNARY, &client, err))
        return false;
    do {
        struct cay_v1_get_usage_response page = {};
        if (!cay_client_call(client, &cay_v1_methods[CAY_V1_SANDBOX_SERVICE_GET_USAGE], &request,
                             &look->arena, &page, err))
            return false;
        if (cli->out.is_json &&
            !cay_output_message(&cli->out, &cay_v1_get_usage_response_desc, &page, err))
            return false;
        look_add(look, &page);
        request.page_token = page.next_page_token;
    } while (request.page_token.len);
    return true;
}

static int64_t cpu_ns(const struct cay_v1_session_usage_entry *entry)
{
    const struct google_protobuf_duration *time = entry->usage->cpu_time;
    return time ? time->seconds * 1'000'000'000 + time->nanos : 0;
}

/* By what has passed since the look before, where the session was there; else as the host says. */
static double cpus_of(const struct cay_v1_session_usage_entry *entry, const struct cay_map *before,
                      int64_t passed_ns)
{
    const struct cay_v1_session_usage_entry *old = cay_map_get(before, entry->session_id);
    int64_t used_ns = old ? cpu_ns(entry) - cpu_ns(old) : -1;
    if (used_ns < 0 || passed_ns <= 0) /* another sandbox may run in it by now */
        return entry->usage->cpus;
    return (double)used_ns / (double)passed_ns;
}

static int busiest_first(const void *a, const void *b)
{
    const struct row *left = a;
    const struct row *right = b;
    int64_t memory = right->entry->usage->memory_bytes - left->entry->usage->memory_bytes;
    if (left->cpus != right->cpus)
        return left->cpus < right->cpus ? 1 : -1;
    return (memory > 0) - (memory < 0);
}

static struct row *sort_rows(const struct look *look, const struct look *before)
{
    struct row *rows = cay_alloc((look->count + 1) * sizeof(*rows));
    struct cay_map old;
    cay_map_init(&old);
    for (size_t i = 0; i < before->count; i++)
        cay_map_put(&old, before->entries[i]->session_id, before->entries[i]);
    for (size_t i = 0; i < look->count; i++)
        rows[i] = (struct row){look->entries[i],
                               cpus_of(look->entries[i], &old, look->at_ns - before->at_ns)};
    cay_map_finish(&old);
    qsort(rows, look->count, sizeof(*rows), busiest_first);
    return rows;
}

CAY_PRINTF(2, 3) static void cell(struct cay_table *table, const char *fmt, ...)
{
    char text[48];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    cay_table_cell(table, CAY_STYLE_PLAIN, cay_str(text));
}

static const char *size_text(int64_t bytes, char text[static CAY_SIZE_BYTES])
{
    cay_size_format((uint64_t)bytes, text);
    return text;
}

static void add_row(struct cay_table *table, const struct row *row)
{
    const struct cay_v1_session_usage *usage = row->entry->usage;
    char text[CAY_SIZE_BYTES];
    cay_table_cell(table, CAY_STYLE_PLAIN, row->entry->session_id);
    cell(table, "%.1f", row->cpus * 100);
    cell(table, "%.1fs", (double)cpu_ns(row->entry) / 1e9);
    cell(table, "%s", size_text(usage->memory_bytes, text));
    cell(table, "%" PRId64, usage->pids);
    cell(table, "%s", size_text(usage->disk_bytes, text));
    cell(table, "%" PRId64, usage->tool_calls);
}

static void print_host(struct cay_output *out, const struct cay_v1_host_usage *host)
{
    char memory[CAY_SIZE_BYTES];
    char total[CAY_SIZE_BYTES];
    char own[CAY_SIZE_BYTES];
    cay_output_printf(out,
                      "%" PRId64 " sessions, %" PRId64 " running; %" PRId64 " processes; memory %s "
                      "of %s, the daemon %s\n",
                      host->sessions, host->live_sandboxes, host->processes,
                      size_text(host->sandbox_memory_bytes, memory),
                      size_text(host->memory_total_bytes, total),
                      size_text(host->daemon_memory_bytes, own));
}

static void show(struct cay_output *out, const struct look *look, const struct look *before,
                 size_t rows_max)
{
    static const char *const titles[] = {"SESSION", "CPU%", "TIME", "MEMORY",
                                         "PIDS",    "DISK", "CALLS"};
    struct cay_table table;
    cay_table_init(&table, titles, CAY_COUNT(titles));
    cay_autofree struct row *rows = sort_rows(look, before);
    for (size_t i = 0; i < look->count && i < rows_max; i++)
        add_row(&table, &rows[i]);
    if (look->host)
        print_host(out, look->host);
    cay_table_print(&table, out);
    cay_table_finish(&table);
    (void)fflush(out->file);
}

/* False when somebody wants to leave. */
static bool wait_for_next(int64_t interval_ms)
{
    struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
    char key = 0;
    if (poll(&keys, 1, (int)interval_ms) <= 0)
        return true;
    return read(STDIN_FILENO, &key, 1) == 1 && key != 'q' && key != CTRL_C;
}

static size_t screen_rows(void)
{
    struct winsize size = {};
    size_t rows = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row ? size.ws_row
                                                                              : ROWS_WITHOUT_SIZE;
    return rows > ROWS_AROUND + 1 ? rows - ROWS_AROUND : 1;
}

/* Until somebody leaves. */
static bool show_on(struct cay_cli *cli, int64_t interval_ms, struct cay_error *err)
{
    struct look before = {};
    bool is_good = true;
    do {
        struct look look;
        is_good = look_take(&look, cli, err);
        if (is_good) {
            cay_output_printf(&cli->out, "\033[H\033[J");
            show(&cli->out, &look, &before, screen_rows());
        }
        look_free(&before);
        before = look;
    } while (is_good && wait_for_next(interval_ms));
    look_free(&before);
    return is_good;
}

static bool show_once(struct cay_cli *cli, struct cay_error *err)
{
    struct look look;
    bool is_good = look_take(&look, cli, err);
    if (is_good && !cli->out.is_json)
        show(&cli->out, &look, &(struct look){}, SIZE_MAX);
    look_free(&look);
    return is_good;
}

static bool run_top(struct cay_cli *cli, struct cay_error *err)
{
    int64_t interval_ms = INTERVAL_MS_DEFAULT;
    const char *text = cay_args_text(&cli->args, "interval");
    if (text && (cay_duration_parse(cay_str(text), &interval_ms) < 0 ||
                 interval_ms < INTERVAL_MS_MIN || interval_ms > INT32_MAX))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "--interval '%.40s' is not a duration of at least 100ms; write 500ms or 2s",
                        text);
    struct termios before;
    bool is_live = !cay_args_has(&cli->args, "once") && !cli->out.is_json && cli->out.is_terminal &&
                   tcgetattr(STDIN_FILENO, &before) == 0;
    if (!is_live)
        return show_once(cli, err);
    struct termios keys = before;
    keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
    (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &keys);
    bool is_good = show_on(cli, interval_ms, err);
    (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    return is_good;
}

static const struct cay_flag top_flags[] = {
    {.name = "interval", .value = "TIME", .help = "look again after this time; 2s otherwise"},
    {.name = "once", .help = "look once and end, as without a terminal"},
    {},
};

const struct cay_command cay_command_top = {
    .name = "top",
    .arguments = "",
    .summary = "Watch what sessions use, the busiest first",
    .details = "CPU% is the share of one core since the last look. Press q to leave.",
    .flags = top_flags,
    .group = CAY_GROUP_HOST,
    .run = run_top,
};
