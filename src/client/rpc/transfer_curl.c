/* SPDX-License-Identifier: Apache-2.0 */
#define CURL_DISABLE_TYPECHECK /* its macros would call functions that we do not link */
#include <curl/curl.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <threads.h>

#include "api/limits.h"
#include "client/rpc/transfer.h"

/* Calls through libcurl: TLS, proxies. The library is opened by name at the first of them. */

#define FUNCTIONS(X)      \
    X(curl_global_init)   \
    X(curl_easy_init)     \
    X(curl_easy_reset)    \
    X(curl_easy_setopt)   \
    X(curl_easy_getinfo)  \
    X(curl_easy_perform)  \
    X(curl_easy_send)     \
    X(curl_easy_recv)     \
    X(curl_easy_strerror) \
    X(curl_easy_cleanup)  \
    X(curl_slist_append)  \
    X(curl_slist_free_all)

static struct {
#define X(name) typeof(name) *name;
    FUNCTIONS(X)
#undef X
    bool is_there;
} lib;

static once_flag once = ONCE_FLAG_INIT;

static void load(void)
{
    void *handle = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    bool is_there = handle != NULL;
#define X(name) is_there = is_there && (lib.name = (typeof(lib.name))dlsym(handle, #name));
    FUNCTIONS(X)
#undef X
    lib.is_there = is_there && lib.curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

struct cay_curl {
    CURL *easy;
};

void cay_curl_close(struct cay_curl *curl)
{
    if (!curl)
        return;
    lib.curl_easy_cleanup(curl->easy);
    free(curl);
}

static bool open_curl(struct cay_client *client, struct cay_error *err)
{
    if (client->curl)
        return true;
    call_once(&once, load);
    CURL *easy = lib.is_there ? lib.curl_easy_init() : NULL;
    if (!easy)
        return cay_fail(
            err, CAY_R_NOT_SUPPORTED,
            "https and proxies need libcurl, which cannot be loaded; install the package "
            "libcurl4");
    client->curl = cay_new(struct cay_curl);
    client->curl->easy = easy;
    return true;
}

static CURL *easy_of(const struct cay_transfer *transfer)
{
    return transfer->client->curl->easy;
}

static size_t on_write(char *data, size_t, size_t len, void *state)
{
    struct cay_transfer *transfer = state;
    const char *type = NULL;
    long status = 0;
    lib.curl_easy_getinfo(easy_of(transfer), CURLINFO_RESPONSE_CODE, &status);
    lib.curl_easy_getinfo(easy_of(transfer), CURLINFO_CONTENT_TYPE, &type);
    return cay_transfer_take(transfer, (int)status, type ? type : "", (struct cay_str){data, len},
                             transfer->err)
               ? len
               : CURL_WRITEFUNC_ERROR;
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

/* The list holds the API key. */
static void wipe_headers(struct curl_slist *headers)
{
    for (struct curl_slist *at = headers; at; at = at->next)
        cay_wipe(at->data, strlen(at->data));
    lib.curl_slist_free_all(headers);
}

static struct curl_slist *make_headers(const struct cay_transfer *transfer)
{
    struct curl_slist *headers = NULL;
    struct cay_buf lines;
    cay_buf_init(&lines, CAY_LIMIT_HEAD_BYTES);
    cay_transfer_write_headers(transfer, &lines);
    cay_buf_append_text(&lines, "Expect:\r\n"); /* no waiting for "100 Continue" */
    if (transfer->source)
        cay_buf_append_text(&lines, "Transfer-Encoding: chunked\r\n");
    cay_buf_append(&lines, "", 1);
    for (char *line = lines.data; *line;) {
        char *end = strstr(line, "\r\n");
        *end = '\0';
        headers = lib.curl_slist_append(headers, line);
        line = end + 2;
    }
    cay_wipe(lines.data, lines.len);
    cay_buf_finish(&lines);
    return headers;
}

static void set_address(const struct cay_client *client, const char *path,
                        char error_text[CURL_ERROR_SIZE])
{
    CURL *easy = client->curl->easy;
    cay_autofree char *url = cay_asprintf("%s%s", client->address.origin, path);
    lib.curl_easy_reset(easy);
    lib.curl_easy_setopt(easy, CURLOPT_URL, url);
    lib.curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    lib.curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    lib.curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    lib.curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error_text);
    lib.curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CAY_TRANSFER_CONNECT_MS);
    if (client->address.is_loopback)
        lib.curl_easy_setopt(easy, CURLOPT_PROXY, "");
    if (client->ca_file)
        lib.curl_easy_setopt(easy, CURLOPT_CAINFO, client->ca_file);
    lib.curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    lib.curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, (long)CAY_TRANSFER_KEEPALIVE_S);
    lib.curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, (long)CAY_TRANSFER_KEEPALIVE_S);
}

static void set_options(struct cay_transfer *transfer, struct curl_slist *headers,
                        char error_text[CURL_ERROR_SIZE])
{
    const struct cay_client *client = transfer->client;
    CURL *easy = easy_of(transfer);
    set_address(client, transfer->method->path, error_text);
    if (!client->address.is_loopback && !transfer->is_gzip)
        lib.curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "gzip");
    lib.curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    lib.curl_easy_setopt(easy, CURLOPT_POST, 1L);
    if (transfer->source) {
        lib.curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
        lib.curl_easy_setopt(easy, CURLOPT_READDATA, transfer);
    } else {
        lib.curl_easy_setopt(easy, CURLOPT_POSTFIELDS,
                             transfer->body.ptr ? transfer->body.ptr : "");
        lib.curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)transfer->body.len);
    }
    lib.curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_write);
    lib.curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    if (client->stop) {
        lib.curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
        lib.curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
        lib.curl_easy_setopt(easy, CURLOPT_XFERINFODATA, client);
    }
    if (client->timeout_ms)
        lib.curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS,
                             (long)(client->timeout_ms + CAY_TRANSFER_GRACE_MS));
}

static bool explain(const struct cay_client *client, CURLcode code, const char *text,
                    struct cay_error *err)
{
    curl_off_t connected_us = 0;
    long number = 0;
    lib.curl_easy_getinfo(client->curl->easy, CURLINFO_CONNECT_TIME_T, &connected_us);
    lib.curl_easy_getinfo(client->curl->easy, CURLINFO_OS_ERRNO, &number);
    if (!*text)
        text = lib.curl_easy_strerror(code);
        /* A table of what curl can say would be long; these are what people meet. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wswitch-enum"
    switch (code) {
    case CURLE_COULDNT_CONNECT: return cay_transfer_not_connected(client, (int)number, err);
    case CURLE_COULDNT_RESOLVE_HOST:
        return cay_transfer_unreachable(client, "there is no such host", "check CAY_URL", err);
    case CURLE_OPERATION_TIMEDOUT: return cay_transfer_timed_out(client, !connected_us, err);
    case CURLE_ABORTED_BY_CALLBACK: return cay_fail(err, CAY_R_CANCELED, "interrupted");
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR: return cay_transfer_broke(client, err);
    case CURLE_SSL_CONNECT_ERROR:
        return cay_transfer_unreachable(
            client, text, "if the daemon has no certificate, write http:// in CAY_URL", err);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return cay_transfer_unreachable(client, text,
                                        "CAY_CA_FILE can name the certificate to trust", err);
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL: return cay_transfer_not_http(client, err);
    default: return cay_transfer_unreachable(client, text, "check CAY_URL", err);
    }
#pragma GCC diagnostic pop
}

bool cay_transfer_run_curl(struct cay_transfer *transfer, int *out_status, char *out_type,
                           size_t type_size, struct cay_error *err)
{
    char error_text[CURL_ERROR_SIZE] = "";
    if (!open_curl(transfer->client, err))
        return false;
    transfer->err = err;
    struct curl_slist *headers = make_headers(transfer);
    set_options(transfer, headers, error_text);
    CURLcode code = lib.curl_easy_perform(easy_of(transfer));
    const char *type = NULL;
    long status = 0;
    lib.curl_easy_getinfo(easy_of(transfer), CURLINFO_RESPONSE_CODE, &status);
    lib.curl_easy_getinfo(easy_of(transfer), CURLINFO_CONTENT_TYPE, &type);
    *out_status = (int)status;
    snprintf(out_type, type_size, "%s", type ? type : "");
    wipe_headers(headers);
    if (code && !transfer->has_failed && !transfer->is_over)
        return explain(transfer->client, code, error_text, err);
    return true;
}

bool cay_curl_connect(struct cay_client *client, int *out_fd, struct cay_error *err)
{
    char error_text[CURL_ERROR_SIZE] = "";
    curl_socket_t fd = CURL_SOCKET_BAD;
    if (!open_curl(client, err))
        return false;
    CURL *easy = client->curl->easy;
    set_address(client, "", error_text);
    lib.curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
    lib.curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
    CURLcode code = lib.curl_easy_perform(easy);
    if (!code)
        code = lib.curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &fd);
    lib.curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, NULL); /* it is about to go out of scope */
    if (code || fd == CURL_SOCKET_BAD)
        return explain(client, code, error_text, err);
    *out_fd = fd;
    return true;
}

static ssize_t count_of(CURLcode code, size_t count)
{
    if (code == CURLE_AGAIN)
        return -EAGAIN;
    return code ? -EPIPE : (ssize_t)count;
}

ssize_t cay_curl_send(struct cay_client *client, const void *data, size_t len)
{
    size_t sent = 0;
    CURLcode code = lib.curl_easy_send(client->curl->easy, data, len, &sent);
    return count_of(code, sent);
}

ssize_t cay_curl_receive(struct cay_client *client, void *out, size_t size)
{
    size_t got = 0;
    CURLcode code = lib.curl_easy_recv(client->curl->easy, out, size, &got);
    return count_of(code, got);
}
