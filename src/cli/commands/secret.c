/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <termios.h>
#include <unistd.h>

#include "api/cay_v1.h"
#include "base/clock.h"
#include "cli/command.h"
#include "cli/completion.h"
#include "cli/offer.h"

enum { VALUE_BYTES_MAX = 4096, CTRL_C = 3 };

struct value {
    char bytes[VALUE_BYTES_MAX + 3]; /* one too many is seen, and a line's end */
    size_t len;
};

static void wipe_value(struct value *value)
{
    cay_wipe(value, sizeof(*value));
}

/* Up to the end, or to the end of a line. False: it could not be read. */
static bool read_bytes(struct value *value, bool is_line)
{
    while (value->len < sizeof(value->bytes)) {
        ssize_t len =
            read(STDIN_FILENO, value->bytes + value->len, sizeof(value->bytes) - value->len);
        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0)
            return false;
        value->len += (size_t)len;
        if (len == 0 || is_line)
            return true;
    }
    return true;
}

/* Without echo. Ctrl-C is a character here, so that no signal leaves the terminal without it. */
static bool ask_value(struct cay_cli *cli, struct value *value, struct cay_error *err)
{
    struct termios before;
    if (tcgetattr(STDIN_FILENO, &before) < 0)
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "the terminal");
    struct termios silent = before;
    silent.c_lflag &= ~(tcflag_t)(ECHO | ISIG);
    silent.c_lflag |= ICANON;
    silent.c_cc[VEOL] = CTRL_C;
    fprintf(stderr, "Value of secret '%s' (it is not shown): ", cli->args.words[0]);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
    bool is_read = read_bytes(value, true);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    fprintf(stderr, "\n");
    if (!is_read)
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "read the value");
    bool is_cut = value->len && value->bytes[value->len - 1] == CTRL_C;
    return !is_cut || cay_fail(err, CAY_R_CANCELED, "no value was given; nothing has changed");
}

/* The end of a line is not part of it: `echo` and editors put one there. */
static void drop_line_end(struct value *value)
{
    if (value->len && value->bytes[value->len - 1] == '\n')
        value->len--;
    if (value->len && value->bytes[value->len - 1] == '\r')
        value->len--;
}

static bool read_value(struct cay_cli *cli, struct value *value, struct cay_error *err)
{
    value->len = 0;
    if (isatty(STDIN_FILENO)) {
        if (!ask_value(cli, value, err))
            return false;
    } else if (!read_bytes(value, false)) {
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno,
                              "read the value from standard input");
    }
    drop_line_end(value);
    if (!value->len)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "the value is empty; type it, or give it to standard input");
    return value->len <= VALUE_BYTES_MAX ||
           cay_fail(err, CAY_R_INVALID_ARGUMENT, "the value has more than %d bytes",
                    VALUE_BYTES_MAX);
}

static bool run_set(struct cay_cli *cli, struct cay_error *err)
{
    cay_auto(wipe_value) struct value value;
    struct cay_v1_set_secret_response response = {};
    if (!read_value(cli, &value, err))
        return false;
    struct cay_v1_set_secret_request request = {
        .owner = cay_str(cay_args_text(&cli->args, "owner")),
        .name = cay_str(cli->args.words[0]),
        .value = {value.bytes, value.len},
    };
    if (!cay_cli_call(cli, CAY_V1_SECRET_SERVICE_SET_SECRET, &request, &response, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_set_secret_response_desc, &response, err);
    cay_output_printf(&cli->out, "set ");
    cay_output_text(&cli->out, CAY_STYLE_PLAIN, request.name);
    cay_output_printf(&cli->out, "\n");
    return true;
}

static void print_secrets(struct cay_output *out, const struct cay_v1_secret_array *secrets)
{
    static const char *const titles[] = {"NAME", "OWNER", "CREATED", "CHANGED", "LAST USED"};
    int64_t now_ns = cay_clock_wall_ns();
    cay_auto(cay_table_finish) struct cay_table table;
    cay_table_init(&table, titles, CAY_COUNT(titles));
    for (size_t i = 0; i < secrets->count; i++) {
        const struct cay_v1_secret *secret = &secrets->items[i];
        const struct google_protobuf_timestamp *times[] = {secret->created_at, secret->changed_at,
                                                           secret->last_used_at};
        cay_table_cell(&table, CAY_STYLE_BOLD, secret->name);
        cay_table_cell(&table, CAY_STYLE_PLAIN, secret->owner);
        for (size_t j = 0; j < CAY_COUNT(times); j++) {
            char when[CAY_WHEN_BYTES];
            cay_output_when(times[j], now_ns, when);
            cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(when));
        }
    }
    cay_table_print(&table, out);
}

static bool run_ls(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_list_secrets_request request = {.owner =
                                                      cay_str(cay_args_text(&cli->args, "owner"))};
    struct cay_v1_list_secrets_response response = {};
    if (!cay_cli_call(cli, CAY_V1_SECRET_SERVICE_LIST_SECRETS, &request, &response, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_list_secrets_response_desc, &response, err);
    if (response.secrets.count)
        print_secrets(&cli->out, &response.secrets);
    else if (cli->out.is_terminal)
        cay_output_printf(&cli->out, "There are no secrets; 'cay secret set' makes one.\n");
    return true;
}

static bool run_rm(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_delete_secret_request request = {
        .owner = cay_str(cay_args_text(&cli->args, "owner")),
        .name = cay_str(cli->args.words[0]),
    };
    struct cay_v1_delete_secret_response response = {};
    if (!cay_cli_call(cli, CAY_V1_SECRET_SERVICE_DELETE_SECRET, &request, &response, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_delete_secret_response_desc, &response, err);
    cay_output_printf(&cli->out, "removed ");
    cay_output_text(&cli->out, CAY_STYLE_PLAIN, request.name);
    cay_output_printf(&cli->out, "\n");
    return true;
}

static void offer_first(struct cay_completion *completion)
{
    if (!completion->word_count)
        cay_secret_offer(completion);
}

static const struct cay_flag flags[] = {
    {.name = "owner",
     .value = "OWNER",
     .help = "whose secrets; those of the owner that you call as otherwise"},
    {},
};

const struct cay_command cay_command_secret_set = {
    .name = "secret set",
    .arguments = "NAME",
    .summary = "Keep a secret that sandboxes use and never see, or give it a new value",
    .details =
        "The value is read from standard input, or asked for without echo at a terminal; never\n"
        "from the command line, which others can see. One end of a line behind it is dropped.\n"
        "It is kept encrypted and never shown again. Sessions that were made with --secret use\n"
        "the new value from then on, running ones too.",
    .examples = "  cay secret set openai < key.txt\n"
                "  cay run --secret OPENAI_API_KEY=openai@api.openai.com -- agent",
    .flags = flags,
    .complete = offer_first,
    .group = CAY_GROUP_HOST,
    .words_min = 1,
    .words_max = 1,
    .run = run_set,
};

const struct cay_command cay_command_secret_ls = {
    .name = "secret ls",
    .arguments = "",
    .summary = "List secrets, never their values",
    .flags = flags,
    .group = CAY_GROUP_HOST,
    .run = run_ls,
};

const struct cay_command cay_command_secret_rm = {
    .name = "secret rm",
    .arguments = "NAME",
    .summary = "Forget a secret",
    .details =
        "Sessions that use it go on; their placeholder stands for nothing until a secret of that\n"
        "name is set again.",
    .flags = flags,
    .complete = offer_first,
    .group = CAY_GROUP_HOST,
    .words_min = 1,
    .words_max = 1,
    .run = run_rm,
};
