/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "egress/edit.h"
#include "egress/intercept.h"

enum {
    SENTENCE_BYTES_MAX = 1024,
    SHOWN_BYTES_MAX = 200,
    BAD_GATEWAY = 502,
    FORBIDDEN = 403,
    USED_MS = 20'000,
};

/* --- receipts: one for each request --- */

void egress_judge_tell(struct egress_conn *conn, enum cay_egress_verdict verdict,
                       enum cay_egress_why why)
{
    struct egress_intercept *it = conn->intercept;
    struct egress_request *request = &it->request;
    struct cay_egress_receipt receipt;
    if (!request->method)
        return;
    egress_conn_describe(conn, &receipt);
    receipt.verdict = verdict;
    receipt.why = why;
    receipt.status = (uint16_t)it->pass.status;
    receipt.duration_ms = (uint32_t)(conn->egress->now_ms - request->began_ms);
    receipt.sent_bytes -= request->sent_before;
    receipt.received_bytes -= request->received_before;
    receipt.method = cay_str(request->method);
    receipt.path = cay_str(request->path);
    receipt.path.len = CAY_MIN(receipt.path.len, (size_t)CAY_EGRESS_PATH_BYTES_MAX);
    receipt.rule = cay_str(request->rule);
    egress_note(conn->egress, &receipt);
    free(cay_take_ptr(request->method));
    free(cay_take_ptr(request->path));
    it->has_told = true;
}

static void note_request(struct egress_conn *conn, const struct cay_http1_head *head)
{
    struct egress_request *request = &conn->intercept->request;
    *request = (struct egress_request){
        .method = cay_strndup(head->method.ptr, head->method.len),
        .path = cay_strndup(head->path.ptr, head->path.len),
        .began_ms = conn->egress->now_ms,
        .sent_before = conn->sent_bytes,
        .received_before = conn->received_bytes,
    };
    memcpy(request->rule, conn->rule, sizeof(request->rule));
    conn->intercept->pass.status = 0;
}

/* --- answers of ours --- */

static const char *sentence_of(enum cay_egress_why why)
{
    switch (why) {
    case CAY_EGRESS_NOT_FOUND: return "no address of the name can be found";
    case CAY_EGRESS_GUARDED: return "the name leads to an address that is closed to sandboxes";
    case CAY_EGRESS_UNREACHABLE: return "the server cannot be reached, or ended the connection";
    case CAY_EGRESS_WRONG_HOST:
        return "its Host is another name than the connection is for; connect to that name";
    case CAY_EGRESS_UNTRUSTED: return "the server's certificate is not good for the name";
    case CAY_EGRESS_MALFORMED: return "it is not HTTP/1.1 that can be read in one way only";
    default: return "no rule allows it";
    }
}

/* 403 for what is not allowed, 502 for what the server did. */
static int status_of(enum cay_egress_why why)
{
    switch (why) {
    case CAY_EGRESS_NOT_FOUND:
    case CAY_EGRESS_UNREACHABLE:
    case CAY_EGRESS_UNTRUSTED: return BAD_GATEWAY;
    default: return FORBIDDEN;
    }
}

void egress_judge_reply(struct egress_conn *conn, enum cay_egress_why why, const char *detail)
{
    struct egress_intercept *it = conn->intercept;
    const struct egress_request *request = &it->request;
    char text[SENTENCE_BYTES_MAX];
    int status = status_of(why);
    bool is_known = request->method != NULL;
    /* No byte of it is a control character: method, path and name were looked at. */
    int len = snprintf(
        text, sizeof(text), "network: %s%shttps://%s%.*s %s: %s\n", is_known ? request->method : "",
        is_known ? " " : "", conn->name, SHOWN_BYTES_MAX, is_known ? request->path : "",
        status == FORBIDDEN ? "refused" : "failed", detail ? detail : sentence_of(why));
    len = CAY_MIN(len, (int)sizeof(text) - 1);
    cay_buf_printf(&it->to_client,
                   "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
                   "Content-Length: %d\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n",
                   status, status == FORBIDDEN ? "Forbidden" : "Bad Gateway", len);
    if (!is_known || strcmp(request->method, "HEAD") != 0)
        cay_buf_append(&it->to_client, text, (size_t)len);
    it->pass.status = status;
}

static int refuse(struct egress_conn *conn, enum cay_egress_why why, const char *detail)
{
    if (!egress_intercept_refuse(conn, CAY_EGRESS_REFUSED, why, detail))
        egress_conn_end(conn, CAY_EGRESS_REFUSED, why);
    return -1;
}

/* --- requests --- */

/* "name" or "name:443"; one dot at the end of the name says nothing. */
static bool is_for(const struct egress_conn *conn, struct cay_str value)
{
    struct cay_str port = value;
    struct cay_str name = {};
    uint64_t number = conn->port;
    (void)cay_str_split(&port, ':', &name);
    if (port.ptr && cay_str_to_u64(port, UINT16_MAX, &number) < 0)
        return false;
    if (name.len && name.ptr[name.len - 1] == '.')
        name.len--;
    return number == conn->port && cay_str_equal_nocase(name, cay_str(conn->name));
}

static const char *explain_edit(enum egress_edit result)
{
    switch (result) {
    case EGRESS_EDIT_IN_TARGET:
        return "the placeholder of a secret stands in its path or query; only the header that it "
               "is bound to may have it";
    case EGRESS_EDIT_IN_HEADER:
        return "the placeholder of a secret stands in a header that it is not bound to";
    case EGRESS_EDIT_OTHER_NAME:
        return "it has the placeholder of a secret that is bound to another name";
    case EGRESS_EDIT_ECHO: return "TRACE would say a secret back";
    case EGRESS_EDIT_TOO_LARGE: return "with the secret in it its head is too large";
    case EGRESS_EDIT_DONE: break;
    }
    return NULL;
}

/* A WebSocket may leave HTTP; anything else could be HTTP again, which nobody reads then. */
static bool may_leave(const struct cay_http1_head *head)
{
    struct cay_str to = cay_http_header(&head->headers, "upgrade");
    return !to.ptr || (cay_str_equal_nocase(to, CAY_STR("websocket")) && !head->has_body &&
                       cay_str_is(head->method, "GET"));
}

static bool decide_request(struct egress_conn *conn, const struct cay_http1_head *head,
                           struct cay_decision *decision)
{
    struct egress_request *request = &conn->intercept->request;
    cay_policy_decide_request(conn->egress->policy, cay_str(conn->name), conn->port, head->method,
                              head->path, decision);
    size_t len = CAY_MIN(decision->rule.len, sizeof(request->rule) - 1);
    if (len)
        memcpy(request->rule, decision->rule.ptr, len);
    request->rule[len] = '\0';
    return decision->verdict == CAY_VERDICT_ALLOWED ||
           (decision->verdict == CAY_VERDICT_ASKED && conn->is_let_through);
}

static int judge_rules(struct egress_conn *conn, const struct cay_http1_head *head)
{
    struct cay_decision decision = {};
    cay_auto(cay_buf_finish) struct cay_buf why;
    cay_buf_init(&why, SENTENCE_BYTES_MAX);
    if (!conn->egress->policy)
        return refuse(conn, CAY_EGRESS_NO_RULE, NULL);
    if (decide_request(conn, head, &decision))
        return 0;
    cay_decision_explain(&decision, &why);
    cay_buf_append_byte(&why, '\0');
    return refuse(conn, decision.why == CAY_WHY_RULE ? CAY_EGRESS_BY_RULE : CAY_EGRESS_NO_RULE,
                  why.failed ? NULL : why.data);
}

/* To the minute is enough: not with every request. */
static void tell_used(struct egress *egress, uint64_t used)
{
    struct egress_interception *interception = egress->interception;
    for (size_t i = 0; used; i++, used >>= 1) {
        uint64_t told_ms = interception->used_told_ms[i];
        if (!(used & 1) || (told_ms && egress->now_ms - told_ms < USED_MS))
            continue;
        const struct cay_egress_frame frame = {.kind = CAY_EGRESS_USED,
                                               .name = interception->secrets.items[i].placeholder};
        if (egress_send(egress, &frame, NULL, 0))
            interception->used_told_ms[i] = egress->now_ms;
    }
}

/* The head of a request: 1 when it goes on, 0 when it is not whole. */
static int judge_head(struct egress_conn *conn)
{
    struct egress_intercept *it = conn->intercept;
    struct cay_http_header fields[CAY_HTTP_PASS_FIELDS_MAX];
    struct cay_http1_head head;
    struct cay_http1_fault fault;
    uint64_t used = 0;
    ssize_t len = cay_http_pass_head(cay_buf_str(&it->heard), fields, &head, &fault);
    if (len == 0)
        return 0;
    if (len < 0)
        return refuse(conn, CAY_EGRESS_MALFORMED, fault.text);
    note_request(conn, &head);
    if (!is_for(conn, head.host))
        return refuse(conn, CAY_EGRESS_WRONG_HOST, NULL);
    if (!may_leave(&head))
        return refuse(conn, CAY_EGRESS_MALFORMED, "only a WebSocket can leave HTTP here");
    int status = judge_rules(conn, &head);
    if (status < 0)
        return status;
    size_t before = it->to_server.len;
    /* What grows leaves copies behind. */
    (void)cay_buf_reserve(&it->to_server, (size_t)len + 2 * CAY_EGRESS_VALUE_BYTES_MAX);
    enum egress_edit result =
        egress_edit_head((struct cay_str){it->heard.data, (size_t)len}, &head, cay_str(conn->name),
                         &conn->egress->interception->secrets, &it->to_server, &used);
    if (result != EGRESS_EDIT_DONE) {
        cay_wipe(it->to_server.data + before, it->to_server.len - before);
        it->to_server.len = before;
        return refuse(conn, CAY_EGRESS_PLACEHOLDER, explain_edit(result));
    }
    tell_used(conn->egress, used);
    cay_http_pass_begin(&it->pass, &head);
    cay_buf_consume(&it->heard, (size_t)len);
    return 1;
}

int egress_judge_heard(struct egress_conn *conn)
{
    struct egress_intercept *it = conn->intercept;
    if (it->is_ending || !it->heard.len || it->to_server.len >= EGRESS_HELD_BYTES)
        return 0;
    if (it->pass.phase == CAY_HTTP_PASS_BETWEEN)
        return judge_head(conn);
    ssize_t len = cay_http_pass_body(&it->pass, cay_buf_str(&it->heard));
    if (len < 0)
        return refuse(conn, CAY_EGRESS_MALFORMED, "its body is malformed");
    cay_buf_append(&it->to_server, it->heard.data, (size_t)len);
    cay_buf_consume(&it->heard, (size_t)len);
    return len > 0;
}

/* --- answers --- */

int egress_judge_said(struct egress_conn *conn)
{
    struct egress_intercept *it = conn->intercept;
    if (it->is_ending || !it->said.len || it->to_client.len >= EGRESS_HELD_BYTES)
        return 0;
    ssize_t len = cay_http_pass_answer(&it->pass, cay_buf_str(&it->said));
    if (len < 0 && it->pass.phase == CAY_HTTP_PASS_BETWEEN) { /* nobody has asked */
        it->is_ending = true;
        conn->deadline_ms = conn->egress->now_ms + EGRESS_LINGER_MS;
        return -1;
    }
    if (len < 0) {
        egress_conn_fail(conn, CAY_EGRESS_FAILED, CAY_EGRESS_UNREACHABLE);
        return -1;
    }
    cay_buf_append(&it->to_client, it->said.data, (size_t)len);
    cay_buf_consume(&it->said, (size_t)len);
    if (it->pass.phase == CAY_HTTP_PASS_BETWEEN && len > 0)
        egress_judge_tell(conn, CAY_EGRESS_ALLOWED, 0);
    return len > 0;
}

void egress_judge_end(struct egress_conn *conn)
{
    struct egress_intercept *it = conn->intercept;
    if (!cay_http_pass_ended(&it->pass)) {
        egress_conn_fail(conn, CAY_EGRESS_FAILED, CAY_EGRESS_UNREACHABLE);
        return;
    }
    egress_judge_tell(conn, CAY_EGRESS_ALLOWED, 0);
    it->is_ending = true;
    conn->deadline_ms = conn->egress->now_ms + EGRESS_SHAKE_MS;
}
