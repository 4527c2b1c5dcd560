/* SPDX-License-Identifier: Apache-2.0 */
#include "host/live/receipts.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/noun.h"
#include "host/live/refusals.h"
#include "host/session/host.h"
#include "host/session/tell.h"
#include "wire/egress/words.h"

struct cay_receipts {
    struct cay_egress_totals totals;
    double tokens; /* events that it may cause now */
    int64_t filled_ms;
    int64_t omitted; /* receipts since the last event */
    struct cay_refusals refusals;
};

/* As its last helper left them, in the file of names; all 0 when there was none. */
static void read_totals(const struct cay_session *session, struct cay_egress_totals *out_totals)
{
    uint8_t bytes[CAY_EGRESS_TOTALS_BYTES];
    char path[sizeof("egress/") + CAY_STORE_ID_SIZE];
    *out_totals = (struct cay_egress_totals){};
    snprintf(path, sizeof(path), "egress/%s", session->store_id);
    cay_autoclose int fd = openat(session->host->data_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && pread(fd, bytes, sizeof(bytes), 0) == sizeof(bytes))
        cay_egress_totals_read(bytes, out_totals);
}

void cay_receipts_open(struct cay_session *session)
{
    if (session->receipts)
        return;
    session->receipts = cay_new(struct cay_receipts);
    session->receipts->tokens = CAY_RECEIPTS_BURST;
    session->receipts->filled_ms = cay_clock_ms();
    read_totals(session, &session->receipts->totals);
}

/* --- events --- */

/* A helper that a sandbox has got hold of may say anything, and paths are the programs' own: what
 * people see of it is printable. */
static struct cay_str printable(struct cay_str text, char *place)
{
    for (size_t i = 0; i < text.len; i++)
        place[i] = (char)(text.ptr[i] > ' ' && text.ptr[i] < 0x7F ? text.ptr[i] : '?');
    return (struct cay_str){place, text.len};
}

struct texts {
    char name[CAY_EGRESS_NAME_BYTES_MAX];
    char rule[CAY_EGRESS_RULE_BYTES_MAX];
    char method[CAY_EGRESS_METHOD_BYTES_MAX];
    char path[CAY_EGRESS_PATH_BYTES_MAX];
};

static struct cay_egress_receipt clean(const struct cay_egress_receipt *receipt,
                                       struct texts *texts)
{
    struct cay_egress_receipt copy = *receipt;
    copy.name = printable(receipt->name, texts->name);
    copy.rule = printable(receipt->rule, texts->rule);
    copy.method = printable(receipt->method, texts->method);
    copy.path = printable(receipt->path, texts->path);
    return copy;
}

static bool take_token(struct cay_receipts *receipts, bool is_denial)
{
    int64_t now_ms = cay_clock_ms();
    receipts->tokens += (double)(now_ms - receipts->filled_ms) * CAY_RECEIPTS_PER_S / 1000;
    receipts->tokens = CAY_MIN(receipts->tokens, (double)CAY_RECEIPTS_BURST);
    receipts->filled_ms = now_ms;
    if (receipts->tokens < (is_denial ? 1 : 1 + CAY_RECEIPTS_DENIALS))
        return false;
    receipts->tokens--;
    return true;
}

/* The turn that was under way then: it may be over when all is told. */
static int64_t turn_at(const struct cay_session *session, int64_t time_ns)
{
    int64_t turn = session->turn_count + 1;
    cay_list_for_each_back(struct cay_snapshot, snapshot, &session->snapshots, in_session)
    {
        if (snapshot->created_ns <= time_ns)
            break;
        if (snapshot->spec->turn_number)
            turn = snapshot->spec->turn_number;
    }
    return turn;
}

static void tell(struct cay_session *session, const struct cay_egress_receipt *receipt)
{
    static const struct {
        const char *type;
        enum cay_v1_network_outcome outcome;
    } verdicts[] = {
        [CAY_EGRESS_REFUSED] = {"network.refused", CAY_V1_NETWORK_OUTCOME_REFUSED},
        [CAY_EGRESS_ALLOWED] = {"network.allowed", CAY_V1_NETWORK_OUTCOME_ALLOWED},
        [CAY_EGRESS_FAILED] = {"network.failed", CAY_V1_NETWORK_OUTCOME_FAILED},
    };
    char address[INET6_ADDRSTRLEN] = "";
    cay_auto(cay_buf_finish) struct cay_buf why;
    int64_t now_ns = cay_clock_wall_ns();
    int64_t began_ns = now_ns - receipt->began_ago_ms * CAY_NS_PER_MS;
    int64_t ended_ns = now_ns - receipt->ended_ago_ms * CAY_NS_PER_MS;
    if (receipt->family)
        (void)inet_ntop(receipt->family == 4 ? AF_INET : AF_INET6, receipt->address, address,
                        sizeof(address));
    const char *word = cay_egress_word(receipt->why);
    cay_buf_init(&why, CAY_EGRESS_FRAME_BYTES_MAX);
    cay_egress_explain(receipt, &why);
    struct google_protobuf_duration duration = {
        .seconds = receipt->duration_ms / 1000,
        .nanos = (int32_t)(receipt->duration_ms % 1000 * CAY_NS_PER_MS)};
    struct cay_v1_network_receipt noun = {
        .outcome = verdicts[receipt->verdict].outcome,
        .name = receipt->name,
        .address = cay_str(address),
        .port = receipt->port,
        .rule = receipt->rule,
        .reason = cay_str(word ? word : ""),
        .why = cay_buf_str(&why),
        .sent_bytes = (int64_t)CAY_MIN(receipt->sent_bytes, (uint64_t)INT64_MAX),
        .received_bytes = (int64_t)CAY_MIN(receipt->received_bytes, (uint64_t)INT64_MAX),
        .duration = &duration,
        .count = receipt->count,
        .turn = turn_at(session, began_ns),
        .method = receipt->method,
        .path = receipt->path,
        .status = receipt->status,
        .omitted = session->receipts->omitted,
    };
    session->receipts->omitted = 0;
    cay_tell(session->host,
             &(struct cay_happening){.type = verdicts[receipt->verdict].type,
                                     .session = session,
                                     .process_id = cay_refusals_process(
                                         &session->receipts->refusals, session, began_ns, ended_ns),
                                     .reason = word,
                                     .is_nobodys = true,
                                     .network = &noun});
}

void cay_receipts_take(struct cay_session *session, const struct cay_egress_receipt *receipt)
{
    struct texts texts;
    struct cay_receipts *receipts = session->receipts;
    const struct cay_egress_receipt good = clean(receipt, &texts);
    bool is_denial = receipt->verdict != CAY_EGRESS_ALLOWED;
    if (is_denial)
        cay_refusals_add(&receipts->refusals, session, &good);
    if (take_token(receipts, is_denial))
        tell(session, &good);
    else
        receipts->omitted += receipt->count;
}

/* --- commands --- */

bool cay_receipts_were_refused(const struct cay_session *session, int64_t ms)
{
    return session->receipts &&
           cay_refusals_any(&session->receipts->refusals, cay_clock_wall_ns() - ms * CAY_NS_PER_MS);
}

void cay_receipts_process_ended(struct cay_session *session, const struct cay_process *process)
{
    if (session->receipts)
        cay_refusals_ended(&session->receipts->refusals, process);
}

void cay_receipts_add_to_result(const struct cay_session *session,
                                const struct cay_process *process, struct cay_arena *arena,
                                struct cay_v1_exec_result *result)
{
    if (session->receipts)
        result->network_refusal_count = cay_refusals_since(
            &session->receipts->refusals, process->started_ns, arena, &result->network_refusals);
}

/* --- totals --- */

void cay_receipts_take_totals(struct cay_session *session, const struct cay_egress_totals *totals)
{
    struct cay_receipts *receipts = session->receipts;
    struct cay_egress_totals more = *totals;
    if (!cay_egress_totals_subtract(&more, &receipts->totals))
        more = (struct cay_egress_totals){}; /* it began anew, without its file */
    receipts->totals = *totals;
    receipts->omitted += (int64_t)CAY_MIN(more.lost, (uint64_t)INT32_MAX);
    if (!session->host->network_totals)
        session->host->network_totals = cay_new(struct cay_egress_totals);
    cay_egress_totals_add(session->host->network_totals, &more);
}

void cay_receipts_metrics(const struct cay_host *host, struct cay_buf *out)
{
    static const struct cay_egress_totals none;
    const struct cay_egress_totals *totals = host->network_totals ? host->network_totals : &none;
    const struct {
        const char *label;
        uint64_t number;
    } outcomes[] = {
        {"allowed", totals->allowed}, {"refused", totals->refused}, {"failed", totals->failed}};
    cay_buf_append_text(out, "# HELP cay_network_connections_total Connections from filtered "
                             "networks, by what became of them.\n"
                             "# TYPE cay_network_connections_total counter\n");
    for (size_t i = 0; i < CAY_COUNT(outcomes); i++)
        cay_buf_printf(out, "cay_network_connections_total{outcome=\"%s\"} %" PRIu64 "\n",
                       outcomes[i].label, outcomes[i].number);
    cay_buf_printf(out,
                   "# HELP cay_network_refused_names_total Questions for names that no rule of a "
                   "filtered network allows.\n"
                   "# TYPE cay_network_refused_names_total counter\n"
                   "cay_network_refused_names_total %" PRIu64 "\n"
                   "# HELP cay_network_sent_bytes_total Bytes that filtered networks sent.\n"
                   "# TYPE cay_network_sent_bytes_total counter\n"
                   "cay_network_sent_bytes_total %" PRIu64 "\n"
                   "# HELP cay_network_received_bytes_total Bytes that they received.\n"
                   "# TYPE cay_network_received_bytes_total counter\n"
                   "cay_network_received_bytes_total %" PRIu64 "\n",
                   totals->questions, totals->sent_bytes, totals->received_bytes);
}

/* --- the part of a session --- */

static void tell_totals(const struct cay_session *session, struct cay_arena *arena,
                        struct cay_v1_session *message)
{
    static const struct cay_egress_totals none;
    const struct cay_v1_network_policy *policy = session->spec->network;
    struct cay_egress_totals totals = {};
    if (session->receipts)
        totals = session->receipts->totals;
    else if (policy && policy->mode == CAY_V1_NETWORK_MODE_FILTERED)
        read_totals(session, &totals);
    if (memcmp(&totals, &none, sizeof(none)) == 0)
        return;
    message->network_totals = cay_arena_new(arena, struct cay_v1_network_totals);
    if (message->network_totals)
        *message->network_totals = (struct cay_v1_network_totals){
            .allowed = (int64_t)totals.allowed,
            .refused = (int64_t)totals.refused,
            .failed = (int64_t)totals.failed,
            .refused_names = (int64_t)totals.questions,
            .sent_bytes = (int64_t)totals.sent_bytes,
            .received_bytes = (int64_t)totals.received_bytes,
        };
}

static void free_receipts(struct cay_session *session)
{
    struct cay_receipts *receipts = cay_take_ptr(session->receipts);
    if (!receipts)
        return;
    cay_refusals_finish(&receipts->refusals);
    free(receipts);
}

const struct cay_session_part cay_receipts_part = {.tell = tell_totals, .free = free_receipts};
