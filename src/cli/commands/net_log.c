/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "base/clock.h"
#include "base/quantity.h"
#include "cli/commands/events.h"
#include "cli/offer.h"
#include "cli/values.h"

static const struct {
    const char *name;
    enum cay_style style;
} outcomes[] = {
    [CAY_V1_NETWORK_OUTCOME_UNSPECIFIED] = {"unknown", CAY_STYLE_PLAIN},
    [CAY_V1_NETWORK_OUTCOME_ALLOWED] = {"allowed", CAY_STYLE_GOOD},
    [CAY_V1_NETWORK_OUTCOME_REFUSED] = {"refused", CAY_STYLE_BAD},
    [CAY_V1_NETWORK_OUTCOME_FAILED] = {"failed", CAY_STYLE_WARN},
};

static void print_whom(struct cay_output *out, const struct cay_v1_network_receipt *receipt)
{
    bool is_six = !receipt->name.len && memchr(receipt->address.ptr ? receipt->address.ptr : "",
                                               ':', receipt->address.len);
    cay_output_printf(out, is_six ? "[" : "");
    cay_output_text(out, CAY_STYLE_BOLD, receipt->name.len ? receipt->name : receipt->address);
    cay_output_printf(out, is_six ? "]" : "");
    if (receipt->port)
        cay_output_printf(out, ":%u", receipt->port);
    if (receipt->name.len && receipt->address.len) {
        cay_output_printf(out, " at ");
        cay_output_text(out, CAY_STYLE_PLAIN, receipt->address);
    }
}

static void print_traffic(struct cay_output *out, const struct cay_v1_network_receipt *receipt)
{
    char sent[CAY_SIZE_BYTES];
    char received[CAY_SIZE_BYTES];
    char time[CAY_DURATION_BYTES];
    cay_size_format((uint64_t)CAY_MAX(receipt->sent_bytes, (int64_t)0), sent);
    cay_size_format((uint64_t)CAY_MAX(receipt->received_bytes, (int64_t)0), received);
    cay_duration_format_ns(receipt->duration ? receipt->duration->seconds * CAY_NS_PER_SEC +
                                                   receipt->duration->nanos
                                             : 0,
                           time);
    cay_output_printf(out, ", sent %s, received %s in %s", sent, received, time);
}

void cay_events_print_receipt(struct cay_output *out, const struct cay_v1_network_receipt *receipt)
{
    size_t outcome = (size_t)receipt->outcome < CAY_COUNT(outcomes) ? receipt->outcome : 0;
    bool is_request = receipt->method.len > 0;
    cay_output_text(out, outcomes[outcome].style, cay_str(outcomes[outcome].name));
    cay_output_printf(out, "  ");
    print_whom(out, receipt);
    if (is_request) {
        cay_output_printf(out, " ");
        cay_output_text(out, CAY_STYLE_PLAIN, receipt->method);
        cay_output_printf(out, " ");
        cay_output_text(out, CAY_STYLE_PLAIN, receipt->path);
    }
    if (receipt->status)
        cay_output_printf(out, " %u", receipt->status);
    if (receipt->why.len) {
        cay_output_printf(out, ", ");
        cay_output_text(out, CAY_STYLE_PLAIN, receipt->why);
    }
    if (receipt->outcome == CAY_V1_NETWORK_OUTCOME_ALLOWED)
        print_traffic(out, receipt);
    if (receipt->count > 1)
        cay_output_printf(out, ", %" PRId64 " times", receipt->count);
}

struct log {
    struct cay_cli *cli;
    bool has_turn;
    int32_t turn;
};

static void print_line(struct cay_output *out, const struct cay_v1_event *event)
{
    const struct cay_v1_network_receipt *receipt = event->network;
    char when[CAY_EVENTS_TIME_BYTES];
    if (receipt->omitted)
        cay_output_printf(out, "…  %" PRId64 " more, too many at once to be told one by one\n",
                          receipt->omitted);
    cay_events_time(event->time, when);
    cay_output_text(out, CAY_STYLE_DIM, cay_str(when));
    cay_output_printf(out, "  turn %" PRId64 "  ", receipt->turn);
    cay_events_print_receipt(out, receipt);
    if (event->process_id.len) {
        cay_output_printf(out, ", by ");
        cay_output_text(out, CAY_STYLE_PLAIN, event->process_id);
    }
    cay_output_printf(out, "\n");
    (void)fflush(out->file);
}

static bool show(void *context, const struct cay_v1_watch_events_response *frame,
                 struct cay_error *err)
{
    const struct log *log = context;
    struct cay_output *out = &log->cli->out;
    const struct cay_v1_event *event =
        frame->which_frame == CAY_V1_WATCH_EVENTS_RESPONSE_FRAME_EVENT ? frame->frame.event : NULL;
    if (event && event->network && (!log->has_turn || event->network->turn == log->turn)) {
        if (out->is_json)
            return cay_output_message(out, &cay_v1_event_desc, event, err);
        print_line(out, event);
    } else if (frame->which_frame == CAY_V1_WATCH_EVENTS_RESPONSE_FRAME_GAP && !out->is_json) {
        cay_output_printf(out, "…  some are no longer kept\n");
    }
    return true;
}

static bool run_log(struct cay_cli *cli, struct cay_error *err)
{
    static enum cay_v1_event_kind kind = CAY_V1_EVENT_KIND_NETWORK;
    struct log log = {.cli = cli};
    struct cay_v1_get_session_request ask = {.session_id = cay_str(cli->args.words[0])};
    struct cay_v1_get_session_response got = {};
    struct cay_v1_watch_events_request request = {
        .kinds = {&kind, 1},
        .no_follow = !cay_args_has(&cli->args, "follow"),
    };
    if (!cay_values_number(cli, "turn", 1, INT32_MAX, &log.has_turn, &log.turn, err) ||
        !cay_values_words(cli, cli->args.words, 1, &request.session_ids, err) ||
        !cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_GET_SESSION, &ask, &got, err))
        return false; /* of a session that is not there nothing would be shown */
    /* What is kept comes first, but not of an earlier session of this name. */
    request.since = got.session ? got.session->created_at : NULL;
    return cay_events_watch(cli, &request, show, &log, err);
}

static const struct cay_flag log_flags[] = {
    {.name = "follow", .letter = 'f', .help = "wait for what happens next"},
    {.name = "turn", .value = "N", .help = "only what belongs to this turn"},
    {},
};

const struct cay_command cay_command_net_log = {
    .name = "net log",
    .arguments = "SESSION",
    .summary = "Show what became of the connections of a filtered network",
    .details =
        "The newest are kept, as with 'cay events'. The turn is the one that was under way,\n"
        "which the next 'cay turn' completes. 'cay show' has the totals.",
    .examples = "  cay net log demo\n"
                "  cay net log -f demo --turn 4",
    .flags = log_flags,
    .group = CAY_GROUP_SANDBOX,
    .words_min = 1,
    .words_max = 1,
    .run = run_log,
    .complete = cay_session_offer,
};
