/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/tell.h"

#include "api/limits.h"
#include "base/json.h"
#include "host/event/audit.h"
#include "host/event/journal.h"
#include "host/session/host.h"

static enum cay_v1_event_kind kind_of(const char *type)
{
    static const struct {
        const char *prefix;
        enum cay_v1_event_kind kind;
    } kinds[] = {
        {"session.", CAY_V1_EVENT_KIND_SESSION}, {"snapshot.", CAY_V1_EVENT_KIND_SNAPSHOT},
        {"tool.", CAY_V1_EVENT_KIND_TOOL},       {"process.", CAY_V1_EVENT_KIND_PROCESS},
        {"port.", CAY_V1_EVENT_KIND_PORT},       {"policy.", CAY_V1_EVENT_KIND_POLICY},
    };
    for (size_t i = 0; i < CAY_COUNT(kinds); i++) {
        if (strncmp(type, kinds[i].prefix, strlen(kinds[i].prefix)) == 0)
            return kinds[i].kind;
    }
    return CAY_V1_EVENT_KIND_HOST;
}

static struct cay_str text_of(const char *text)
{
    return text ? cay_str(text) : CAY_STR("");
}

static void write_audit(struct cay_host *host, const struct cay_v1_event *event)
{
    cay_auto(cay_buf_finish) struct cay_buf line;
    cay_buf_init(&line, 4 * CAY_LIMIT_ID_BYTES * 16);
    struct cay_v1_event copy = *event;
    int64_t now_ns = cay_clock_wall_ns();
    struct google_protobuf_timestamp now = {.seconds = now_ns / CAY_NS_PER_SEC,
                                            .nanos = (int32_t)(now_ns % CAY_NS_PER_SEC)};
    copy.time = &now;
    if (cay_pb_json_write(&cay_v1_event_desc, &copy, NULL, &line) == 0)
        cay_audit_add(host->audit, cay_buf_str(&line));
}

void cay_tell(struct cay_host *host, const struct cay_happening *happening)
{
    if (!host->journal || (happening->is_look && !cay_journal_is_followed(host->journal)))
        return;
    const struct cay_caller *caller = happening->call ? &happening->call->caller : NULL;
    struct google_protobuf_value value = {.which_kind = GOOGLE_PROTOBUF_VALUE_KIND_STRING_VALUE,
                                          .kind.string_value = happening->value};
    struct google_protobuf_struct_fields_entry fact = {.key = text_of(happening->fact),
                                                       .value = &value};
    struct google_protobuf_struct data = {.fields = {&fact, 1}};
    struct cay_v1_event event = {
        .kind = kind_of(happening->type),
        .type = cay_str(happening->type),
        .session_id = text_of(happening->session ? happening->session->id : NULL),
        .owner = text_of(happening->session ? happening->session->owner : NULL),
        .actor = caller ? cay_str(caller->key_id[0] ? caller->key_id : "local") : CAY_STR(""),
        .process_id = text_of(happening->process_id),
        .snapshot = text_of(happening->snapshot),
        .tool_call_id = happening->tool_call_id,
        .reason = text_of(happening->reason),
        .data = happening->fact ? &data : NULL,
    };
    cay_journal_add(host->journal, &event);
    if (!happening->is_look && !happening->is_nobodys)
        write_audit(host, &event);
}
