/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/tell.h"

#include "api/limits.h"
#include "base/json.h"
#include "base/utf8.h"
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
        {"network.", CAY_V1_EVENT_KIND_NETWORK},
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
    struct google_protobuf_struct_fields_entry entries[CAY_FACTS_MAX];
    struct google_protobuf_struct data = {.fields = {entries, 0}};
    /* People write passwords into command lines, and this log is kept for long. */
    for (size_t i = 0; event->data && i < event->data->fields.count; i++) {
        if (!cay_str_is(event->data->fields.items[i].key, "command"))
            entries[data.fields.count++] = event->data->fields.items[i];
    }
    copy.data = data.fields.count ? &data : NULL;
    int64_t now_ns = cay_clock_wall_ns();
    struct google_protobuf_timestamp now = {.seconds = now_ns / CAY_NS_PER_SEC,
                                            .nanos = (int32_t)(now_ns % CAY_NS_PER_SEC)};
    copy.time = &now;
    if (cay_pb_json_write(&cay_v1_event_desc, &copy, NULL, &line) == 0)
        cay_audit_add(host->audit, cay_buf_str(&line));
}

/* Never inside a character. */
static struct cay_str shorten(struct cay_str text)
{
    size_t len = CAY_MIN(text.len, (size_t)CAY_FACT_BYTES_MAX);
    while (len < text.len && len && ((unsigned char)text.ptr[len] & 0xC0) == 0x80)
        len--;
    return (struct cay_str){text.ptr, len};
}

void cay_facts_text(struct cay_facts *facts, const char *name, struct cay_str text)
{
    struct cay_str shown = shorten(text);
    if (shown.len && cay_utf8_valid(shown) && facts->count < CAY_FACTS_MAX)
        facts->items[facts->count++] = (struct cay_fact){.name = name, .text = shown};
}

void cay_facts_number(struct cay_facts *facts, const char *name, int64_t number)
{
    if (facts->count < CAY_FACTS_MAX)
        facts->items[facts->count++] =
            (struct cay_fact){.name = name, .is_number = true, .number = (double)number};
}

static struct google_protobuf_value value_of(const struct cay_fact *fact)
{
    if (fact->is_number)
        return (struct google_protobuf_value){.which_kind = GOOGLE_PROTOBUF_VALUE_KIND_NUMBER_VALUE,
                                              .kind.number_value = fact->number};
    return (struct google_protobuf_value){.which_kind = GOOGLE_PROTOBUF_VALUE_KIND_STRING_VALUE,
                                          .kind.string_value = fact->text};
}

static void list_facts(const struct cay_facts *facts, struct google_protobuf_value *values,
                       struct google_protobuf_struct *data)
{
    for (size_t i = 0; i < facts->count; i++) {
        values[i] = value_of(&facts->items[i]);
        data->fields.items[data->fields.count++] = (struct google_protobuf_struct_fields_entry){
            .key = cay_str(facts->items[i].name), .value = &values[i]};
    }
}

void cay_tell(struct cay_host *host, const struct cay_happening *happening)
{
    if (!host->journal || (happening->is_look && !cay_journal_is_followed(host->journal)))
        return;
    const struct cay_caller *caller = happening->call ? &happening->call->caller : NULL;
    const struct cay_facts only = {.items = {{.name = happening->fact, .text = happening->value}},
                                   .count = happening->fact != NULL};
    struct google_protobuf_value values[CAY_FACTS_MAX];
    struct google_protobuf_struct_fields_entry entries[CAY_FACTS_MAX];
    struct google_protobuf_struct data = {.fields = {entries, 0}};
    list_facts(happening->facts ? happening->facts : &only, values, &data);
    char request_id[CAY_REQUEST_ID_BYTES] = "";
    if (happening->call && happening->call->request_id)
        cay_request_id(happening->call->request_id, request_id);
    struct cay_v1_event event = {
        .kind = kind_of(happening->type),
        .type = cay_str(happening->type),
        .session_id = text_of(happening->session ? happening->session->id : NULL),
        .owner = text_of(happening->session ? happening->session->owner : NULL),
        .actor = caller ? cay_str(caller->key_id[0] ? caller->key_id : caller->owner) : CAY_STR(""),
        .request_id = cay_str(request_id),
        .process_id = text_of(happening->process_id),
        .port = happening->port,
        .snapshot = text_of(happening->snapshot),
        .tool_call_id = happening->tool_call_id,
        .reason = text_of(happening->reason),
        .data = data.fields.count ? &data : NULL,
        .network = happening->network,
        .voucher = caller ? cay_str(caller->voucher) : CAY_STR(""),
    };
    cay_journal_add(host->journal, &event);
    if (!happening->is_look && !happening->is_nobodys)
        write_audit(host, &event);
}
