/* SPDX-License-Identifier: Apache-2.0 */
#include "client/rpc/transfer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/limits.h"
#include "base/quantity.h"
#include "client/rpc/refusal.h"

enum { TIMEOUT_HEADER_MAX = 999'999'999 }; /* Connect-Timeout-Ms has at most 10 digits */

static bool is_stream(const struct cay_transfer *transfer)
{
    return transfer->method->client_streaming || transfer->method->server_streaming;
}

static const char *content_type(const struct cay_transfer *transfer)
{
    return cay_rpc_content_type((struct cay_rpc_kind){
        is_stream(transfer) ? CAY_RPC_CONNECT_STREAM : CAY_RPC_CONNECT_UNARY, CAY_RPC_PROTO});
}

void cay_transfer_write_headers(const struct cay_transfer *transfer, struct cay_buf *out)
{
    const struct cay_client *client = transfer->client;
    struct cay_str key = cay_secret_view(&client->key);
    cay_buf_printf(out,
                   "Content-Type: %s\r\nConnect-Protocol-Version: 1\r\n"
                   "User-Agent: cay/" CAY_VERSION "\r\n",
                   content_type(transfer));
    if (transfer->is_gzip)
        cay_buf_append_text(out, "Connect-Accept-Encoding: gzip\r\n");
    if (client->timeout_ms)
        cay_buf_printf(out, "Connect-Timeout-Ms: %lld\r\n",
                       (long long)CAY_MIN(client->timeout_ms, TIMEOUT_HEADER_MAX));
    if (key.len)
        cay_buf_printf(out, "Authorization: Bearer %.*s\r\n", (int)key.len, key.ptr);
    cay_buf_append_str(out, transfer->headers);
}

void cay_transfer_write_head(const struct cay_transfer *transfer, struct cay_buf *out)
{
    const struct cay_address *address = &transfer->client->address;
    cay_buf_printf(out, "POST %s%s HTTP/1.1\r\nHost: %s\r\n", address->path, transfer->method->path,
                   address->authority);
    cay_transfer_write_headers(transfer, out);
    if (transfer->source)
        cay_buf_append_text(out, "Transfer-Encoding: chunked\r\n\r\n");
    else
        cay_buf_printf(out, "Content-Length: %zu\r\n\r\n", transfer->body.len);
    cay_buf_append_str(out, transfer->body);
}

/* Whether the answer is one of ours is known with its first byte, or at its end when it is empty.
 */
static bool check_answer(struct cay_transfer *transfer, const char *type, struct cay_error *err)
{
    if (transfer->has_answer)
        return true;
    transfer->has_answer = true;
    if (strcmp(type, content_type(transfer)) == 0)
        return true;
    return cay_fail(err, CAY_R_UNAVAILABLE,
                    "what answers at %.100s is no cayd (content type '%.40s'); check CAY_URL",
                    transfer->client->address.text, type);
}

bool cay_transfer_take(struct cay_transfer *transfer, int status, const char *type,
                       struct cay_str bytes, struct cay_error *err)
{
    if (transfer->is_over)
        return true;
    if (status != 200) {
        cay_buf_append_str(&transfer->refusal, bytes);
        return true;
    }
    transfer->has_failed =
        !check_answer(transfer, type, err) || !transfer->sink(transfer, bytes, err);
    return !transfer->has_failed;
}

bool cay_transfer_check(struct cay_transfer *transfer, int status, const char *type,
                        struct cay_error *err)
{
    if (status == 200)
        return check_answer(transfer, type, err);
    cay_refusal_read(cay_buf_str(&transfer->refusal), status, err);
    return false;
}

bool cay_transfer_unreachable(const struct cay_client *client, const char *why, const char *remedy,
                              struct cay_error *err)
{
    return cay_fail(err, CAY_R_UNAVAILABLE, "cannot reach cayd at %.110s: %.60s; %s",
                    client->address.text, why, remedy);
}

bool cay_transfer_not_connected(const struct cay_client *client, int number, struct cay_error *err)
{
    if (number == EACCES || number == EPERM) {
        cay_transfer_unreachable(client, strerrordesc_np(number),
                                 "try sudo, or set CAY_URL and CAY_API_KEY", err);
    } else {
        const char *why = number ? strerrordesc_np(number) : NULL;
        cay_transfer_unreachable(client, why ? why : "nobody listens there",
                                 "start it with 'cayd' or './dev up', or set CAY_URL", err);
    }
    err->sys_errno = number;
    return false;
}

bool cay_transfer_timed_out(const struct cay_client *client, bool is_silent, struct cay_error *err)
{
    if (is_silent)
        return cay_transfer_unreachable(client, "it did not answer in time", "check CAY_URL", err);
    char text[CAY_DURATION_BYTES];
    cay_duration_format(client->timeout_ms, text);
    return cay_fail(err, CAY_R_DEADLINE_EXCEEDED,
                    "no answer from %.100s within %s; give it more time with --timeout",
                    client->address.text, text);
}

bool cay_transfer_broke(const struct cay_client *client, struct cay_error *err)
{
    return cay_fail(err, CAY_R_UNAVAILABLE,
                    "the connection to %.100s broke before the answer was complete; try again",
                    client->address.text);
}

bool cay_transfer_not_http(const struct cay_client *client, struct cay_error *err)
{
    return cay_fail(
        err, CAY_R_UNAVAILABLE,
        "what answers at %.100s does not speak plain HTTP; if it uses TLS, write https:// "
        "in CAY_URL",
        client->address.text);
}

/* A proxy is libcurl's affair. */
static bool has_proxy(void)
{
    static const char *const names[] = {"http_proxy", "all_proxy", "ALL_PROXY"};
    for (size_t i = 0; i < CAY_COUNT(names); i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return true;
    }
    return false;
}

bool cay_transfer_is_plain(const struct cay_client *client)
{
    const struct cay_address *address = &client->address;
    return address->is_plain && (address->is_loopback || !has_proxy());
}

static bool run_one_way(struct cay_transfer *transfer, int *out_status, char *out_type,
                        size_t type_size, struct cay_error *err)
{
    return cay_transfer_is_plain(transfer->client)
               ? cay_transfer_run_plain(transfer, out_status, out_type, type_size, err)
               : cay_transfer_run_curl(transfer, out_status, out_type, type_size, err);
}

bool cay_transfer_run(struct cay_transfer *transfer, struct cay_client_duplex *other,
                      struct cay_error *err)
{
    const struct cay_address *address = &transfer->client->address;
    int status = 0;
    char type[64] = "";
    /* Packing costs more than it saves where no network is. */
    transfer->is_gzip = is_stream(transfer) && !address->is_loopback && !other;
    cay_buf_init(&transfer->unsent, CAY_LIMIT_MESSAGE_BYTES + CAY_ENVELOPE_HEAD_BYTES);
    cay_buf_init(&transfer->refusal, CAY_REFUSAL_BYTES_MAX);
    bool done = other ? cay_transfer_run_duplex(transfer, other, &status, type, sizeof(type), err)
                      : run_one_way(transfer, &status, type, sizeof(type), err);
    if (transfer->has_failed)
        done = false;
    else if (transfer->is_over)
        done = true;
    else if (done)
        done = cay_transfer_check(transfer, status, type, err);
    cay_buf_finish(&transfer->unsent);
    cay_buf_finish(&transfer->refusal);
    return done;
}
