/* SPDX-License-Identifier: Apache-2.0 */
#include "client/rpc/transfer.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "api/limits.h"
#include "base/quantity.h"
#include "client/rpc/refusal.h"

enum {
    CONNECT_TIMEOUT_MS = 10'000,
    KEEPALIVE_S = 30, /* a peer that vanished is noticed on a silent stream */
    /* The daemon's own "deadline exceeded" is better than ours: it gets a moment to arrive. */
    TIMEOUT_GRACE_MS = 500,
    CONNECT_TIMEOUT_HEADER_MAX = 999'999'999, /* Connect-Timeout-Ms has at most 10 digits */
};

/* The list holds the API key. */
static void wipe_headers(struct curl_slist **headers)
{
    for (struct curl_slist *at = *headers; at; at = at->next)
        cay_wipe(at->data, strlen(at->data));
    curl_slist_free_all(*headers);
}

CAY_PRINTF(2, 3) static void add_header(struct curl_slist **headers, const char *fmt, ...)
{
    char line[1024];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    assert(len > 0 && (size_t)len < sizeof(line));
    *headers = curl_slist_append(*headers, line);
    cay_wipe(line, sizeof(line));
}

static bool is_stream(const struct cay_transfer *transfer)
{
    return transfer->method->client_streaming || transfer->method->server_streaming;
}

static const char *content_type(const struct cay_transfer *transfer)
{
    return cay_rpc_content_type((struct cay_rpc_kind){
        is_stream(transfer) ? CAY_RPC_CONNECT_STREAM : CAY_RPC_CONNECT_UNARY, CAY_RPC_PROTO});
}

/* Whether the answer is one of ours is known with its first byte, or at its end when it is empty.
 */
static bool check_answer(struct cay_transfer *transfer, struct cay_error *err)
{
    if (transfer->has_answer)
        return true;
    transfer->has_answer = true;
    const char *type = NULL;
    curl_easy_getinfo(transfer->client->curl, CURLINFO_CONTENT_TYPE, &type);
    if (type && strcmp(type, content_type(transfer)) == 0)
        return true;
    return cay_fail(err, CAY_R_UNAVAILABLE,
                    "what answers at %.100s is no cayd (content type '%.40s'); check CAY_URL",
                    transfer->client->address.text, type ? type : "");
}

static size_t on_write(char *data, size_t, size_t len, void *state)
{
    struct cay_transfer *transfer = state;
    long status = 0;
    curl_easy_getinfo(transfer->client->curl, CURLINFO_RESPONSE_CODE, &status);
    if (transfer->is_over)
        return len;
    if (status != 200) {
        cay_buf_append(&transfer->refusal, data, len);
        return len;
    }
    if (check_answer(transfer, transfer->err) &&
        transfer->sink(transfer, (struct cay_str){data, len}, transfer->err))
        return len;
    transfer->has_failed = true;
    return CURL_WRITEFUNC_ERROR;
}

static size_t on_read(char *data, size_t, size_t len, void *state)
{
    struct cay_transfer *transfer = state;
    if (transfer->is_over)
        return CURL_READFUNC_ABORT;
    if (!transfer->unsent.len && !transfer->source(transfer, &transfer->unsent, transfer->err)) {
        transfer->has_failed = true;
        return CURL_READFUNC_ABORT;
    }
    len = CAY_MIN(len, transfer->unsent.len);
    if (len)
        memcpy(data, transfer->unsent.data, len);
    cay_buf_consume(&transfer->unsent, len);
    return len;
}

/* Called after every wait. */
static int on_progress(void *state, curl_off_t, curl_off_t, curl_off_t, curl_off_t)
{
    const struct cay_client *client = state;
    return *client->stop != 0;
}

static struct curl_slist *make_headers(const struct cay_transfer *transfer)
{
    const struct cay_client *client = transfer->client;
    struct curl_slist *headers = NULL;
    add_header(&headers, "Content-Type: %s", content_type(transfer));
    add_header(&headers, "Connect-Protocol-Version: 1");
    add_header(&headers, "User-Agent: cay/" CAY_VERSION);
    add_header(&headers, "Expect:"); /* no waiting for "100 Continue" */
    if (transfer->is_gzip)
        add_header(&headers, "Connect-Accept-Encoding: gzip");
    if (transfer->source)
        add_header(&headers, "Transfer-Encoding: chunked");
    if (client->timeout_ms)
        add_header(&headers, "Connect-Timeout-Ms: %lld",
                   (long long)CAY_MIN(client->timeout_ms, CONNECT_TIMEOUT_HEADER_MAX));
    struct cay_str key = cay_secret_view(&client->key);
    if (key.len)
        add_header(&headers, "Authorization: Bearer %.*s", (int)key.len, key.ptr);
    return headers;
}

static void set_address(struct cay_transfer *transfer)
{
    const struct cay_client *client = transfer->client;
    CURL *curl = client->curl;
    cay_autofree char *url = cay_asprintf("%s%s", client->address.origin, transfer->method->path);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    if (client->address.unix_path)
        curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, client->address.unix_path);
    if (client->address.is_loopback)
        curl_easy_setopt(curl, CURLOPT_PROXY, "");
    else if (!is_stream(transfer))
        curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, "gzip");
    if (client->ca_file)
        curl_easy_setopt(curl, CURLOPT_CAINFO, client->ca_file);
    curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(curl, CURLOPT_TCP_KEEPIDLE, (long)KEEPALIVE_S);
    curl_easy_setopt(curl, CURLOPT_TCP_KEEPINTVL, (long)KEEPALIVE_S);
}

static void set_options(struct cay_transfer *transfer, struct curl_slist *headers,
                        char error_text[CURL_ERROR_SIZE])
{
    const struct cay_client *client = transfer->client;
    CURL *curl = client->curl;
    curl_easy_reset(curl);
    set_address(transfer);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error_text);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    if (transfer->source) {
        curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_read);
        curl_easy_setopt(curl, CURLOPT_READDATA, transfer);
    } else {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, transfer->body.ptr ? transfer->body.ptr : "");
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)transfer->body.len);
    }
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_write);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, transfer);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    if (client->stop) {
        curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
        curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
        curl_easy_setopt(curl, CURLOPT_XFERINFODATA, client);
    }
    if (client->timeout_ms)
        curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(client->timeout_ms + TIMEOUT_GRACE_MS));
}

static bool cannot_reach(const struct cay_client *client, const char *why, const char *remedy,
                         struct cay_error *err)
{
    return cay_fail(err, CAY_R_UNAVAILABLE, "cannot reach cayd at %.110s: %.60s; %s",
                    client->address.text, why, remedy);
}

static bool could_not_connect(const struct cay_client *client, struct cay_error *err)
{
    long number = 0;
    curl_easy_getinfo(client->curl, CURLINFO_OS_ERRNO, &number);
    if (number == EACCES || number == EPERM) {
        cannot_reach(client, strerrordesc_np((int)number),
                     "try sudo, or set CAY_URL and CAY_API_KEY", err);
    } else {
        const char *why = number ? strerrordesc_np((int)number) : NULL;
        cannot_reach(client, why ? why : "nobody listens there",
                     "start it with 'cayd' or './dev up', or set CAY_URL", err);
    }
    err->sys_errno = (int)number;
    return false;
}

static bool timed_out(const struct cay_client *client, struct cay_error *err)
{
    curl_off_t connected_us = 0;
    curl_easy_getinfo(client->curl, CURLINFO_CONNECT_TIME_T, &connected_us);
    if (!connected_us)
        return cannot_reach(client, "it did not answer in time", "check CAY_URL", err);
    char text[CAY_DURATION_BYTES];
    cay_duration_format(client->timeout_ms, text);
    return cay_fail(err, CAY_R_DEADLINE_EXCEEDED,
                    "no answer from %.100s within %s; give it more time with --timeout",
                    client->address.text, text);
}

static bool explain(const struct cay_client *client, CURLcode code, const char *text,
                    struct cay_error *err)
{
    /* A table of what curl can say would be long; these are what people meet. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wswitch-enum"
    switch (code) {
    case CURLE_COULDNT_CONNECT: return could_not_connect(client, err);
    case CURLE_COULDNT_RESOLVE_HOST:
        return cannot_reach(client, "there is no such host", "check CAY_URL", err);
    case CURLE_OPERATION_TIMEDOUT: return timed_out(client, err);
    case CURLE_ABORTED_BY_CALLBACK: return cay_fail(err, CAY_R_CANCELED, "interrupted");
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
        return cay_fail(err, CAY_R_UNAVAILABLE,
                        "the connection to %.100s broke before the answer was complete; try again",
                        client->address.text);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return cannot_reach(client, *text ? text : curl_easy_strerror(code),
                            "CAY_CA_FILE can name the certificate to trust", err);
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return cay_fail(err, CAY_R_UNAVAILABLE,
                        "what answers at %.100s does not speak HTTP/1.1; check CAY_URL",
                        client->address.text);
    default:
        return cannot_reach(client, *text ? text : curl_easy_strerror(code), "check CAY_URL", err);
    }
#pragma GCC diagnostic pop
}

bool cay_transfer_run(struct cay_transfer *transfer, struct cay_error *err)
{
    const struct cay_client *client = transfer->client;
    char error_text[CURL_ERROR_SIZE] = "";
    transfer->err = err;
    /* Packing costs more than it saves where no network is. */
    transfer->is_gzip = is_stream(transfer) && !client->address.is_loopback;
    cay_buf_init(&transfer->unsent, CAY_LIMIT_MESSAGE_BYTES + CAY_ENVELOPE_HEAD_BYTES);
    cay_buf_init(&transfer->refusal, CAY_REFUSAL_BYTES_MAX);
    cay_auto(wipe_headers) struct curl_slist *headers = make_headers(transfer);
    set_options(transfer, headers, error_text);
    CURLcode code = curl_easy_perform(client->curl);
    long status = 0;
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
    bool done = false;
    if (transfer->has_failed)
        done = false;
    else if (transfer->is_over)
        done = true;
    else if (code)
        explain(client, code, error_text, err);
    else if (status != 200)
        cay_refusal_read(cay_buf_str(&transfer->refusal), status, err);
    else
        done = check_answer(transfer, err);
    cay_buf_finish(&transfer->unsent);
    cay_buf_finish(&transfer->refusal);
    return done;
}
