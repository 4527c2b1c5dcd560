/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands/events.h"

#include <stdio.h>
#include <time.h>

#include "cli/again.h"
#include "cli/offer.h"
#include "cli/values.h"
#include "client/rpc/client.h"

void cay_events_time(const struct google_protobuf_timestamp *time, char out[CAY_EVENTS_TIME_BYTES])
{
    struct tm local;
    time_t seconds = time ? (time_t)time->seconds : 0;
    out[0] = '\0';
    if (time && localtime_r(&seconds, &local))
        (void)strftime(out, CAY_EVENTS_TIME_BYTES, "%H:%M:%S", &local);
}

static void print_field(struct cay_output *out, const char *name, struct cay_str text)
{
    if (!text.len)
        return;
    cay_output_printf(out, "  %s%s", name, *name ? "=" : "");
    cay_output_text(out, CAY_STYLE_PLAIN, text);
}

static void print_event(struct cay_output *out, const struct cay_v1_event *event)
{
    char when[CAY_EVENTS_TIME_BYTES];
    cay_events_time(event->time, when);
    cay_output_text(out, CAY_STYLE_DIM, cay_str(when));
    cay_output_printf(out, "  ");
    cay_output_text(out, CAY_STYLE_BOLD, event->type);
    print_field(out, "", event->session_id);
    print_field(out, "snapshot", event->snapshot);
    print_field(out, "process", event->process_id);
    print_field(out, "call", event->tool_call_id);
    for (size_t i = 0; event->data && i < event->data->fields.count; i++) {
        const struct google_protobuf_struct_fields_entry *fact = &event->data->fields.items[i];
        char name[32];
        snprintf(name, sizeof(name), "%.*s", (int)fact->key.len, fact->key.ptr);
        if (fact->value && fact->value->which_kind == GOOGLE_PROTOBUF_VALUE_KIND_STRING_VALUE)
            print_field(out, name, fact->value->kind.string_value);
        if (fact->value && fact->value->which_kind == GOOGLE_PROTOBUF_VALUE_KIND_NUMBER_VALUE)
            cay_output_printf(out, "  %s=%.0f", name, fact->value->kind.number_value);
    }
    if (event->network) {
        cay_output_printf(out, "  ");
        cay_events_print_receipt(out, event->network);
    } else {
        print_field(out, "reason", event->reason);
    }
    print_field(out, "by", event->actor);
    cay_output_printf(out, "\n");
    (void)fflush(out->file);
}

struct follower {
    struct cay_again again;
    cay_events_fn *show;
    void *context;
    char cursor[128]; /* behind what was shown */
};

static bool on_frame(void *state, const void *message, struct cay_error *err)
{
    struct follower *self = state;
    const struct cay_v1_watch_events_response *frame = message;
    cay_again_began(&self->again);
    if (frame->cursor.len)
        snprintf(self->cursor, sizeof(self->cursor), "%.*s", (int)frame->cursor.len,
                 frame->cursor.ptr);
    return self->show(self->context, frame, err);
}

bool cay_events_watch(struct cay_cli *cli, struct cay_v1_watch_events_request *request,
                      cay_events_fn *show, void *context, struct cay_error *err)
{
    struct cay_client *client = NULL;
    struct follower self = {.show = show, .context = context};
    if (!cay_cli_client(cli, CAY_CALL_STREAM, &client, err))
        return false;
    while (!cay_client_call_stream(client, &cay_v1_methods[CAY_V1_SANDBOX_SERVICE_WATCH_EVENTS],
                                   request, on_frame, &self, err)) {
        if (!cay_again_waited(&self.again, err, NULL))
            return false;
        *err = (struct cay_error){};
        if (self.cursor[0])
            request->cursor = cay_str(self.cursor);
    }
    return true;
}

static bool show(void *context, const struct cay_v1_watch_events_response *frame,
                 struct cay_error *err)
{
    struct cay_cli *cli = context;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_watch_events_response_desc, frame, err);
    if (frame->which_frame == CAY_V1_WATCH_EVENTS_RESPONSE_FRAME_EVENT)
        print_event(&cli->out, frame->frame.event);
    else if (frame->which_frame == CAY_V1_WATCH_EVENTS_RESPONSE_FRAME_GAP)
        cay_output_printf(&cli->out, "…  events are missing here\n");
    return true;
}

static bool run_events(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_watch_events_request request = {
        .cursor = cay_values_text(cli, "after"),
        .no_follow = !cay_args_has(&cli->args, "follow"),
    };
    return cay_values_words(cli, cli->args.words, cli->args.word_count, &request.session_ids,
                            err) &&
           cay_values_names(cli, "type", &request.types, err) &&
           cay_events_watch(cli, &request, show, cli, err);
}

static const struct cay_flag events_flags[] = {
    {.name = "follow", .letter = 'f', .help = "wait for what happens next"},
    {.name = "type",
     .value = "TYPE",
     .help = "only events of this type, e.g. session or tool.completed; may be given again"},
    {.name = "after", .value = "CURSOR", .help = "go on behind this cursor, which --json prints"},
    {},
};

const struct cay_command cay_command_events = {
    .name = "events",
    .arguments = "[SESSION...]",
    .summary = "Show what happened: sessions, snapshots, tools, processes",
    .details = "The daemon keeps the newest events; 'audit.log' in its data directory says who\n"
               "did what, with which key, for longer.",
    .examples = "  cay events -f demo --type process",
    .flags = events_flags,
    .group = CAY_GROUP_HOST,
    .words_max = UINT32_MAX,
    .run = run_events,
    .complete = cay_session_offer_many,
};
