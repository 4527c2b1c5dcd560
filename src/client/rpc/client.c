/* SPDX-License-Identifier: Apache-2.0 */
#include "client/rpc/client.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/limits.h"
#include "client/rpc/transfer.h"

enum { KEY_BYTES_MAX = 512 };

/* It becomes part of a header line: anything else could add lines of its own. */
static bool check_key(struct cay_str key, struct cay_error *err)
{
    if (key.len > KEY_BYTES_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "the API key is longer than any key; check CAY_API_KEY");
    for (size_t i = 0; i < key.len; i++) {
        if (key.ptr[i] <= ' ' || key.ptr[i] > '~')
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "the API key holds a blank or another character no key has; check "
                            "CAY_API_KEY");
    }
    return true;
}

bool cay_client_open(const struct cay_client_options *options, struct cay_client **out_client,
                     struct cay_error *err)
{
    const struct cay_client_options none = CAY_CLIENT_OPTIONS;
    if (!options)
        options = &none;
    struct cay_str key = cay_str(options->key);
    if (!check_key(key, err))
        return false;
    struct cay_client *client = cay_new(struct cay_client);
    client->kept_fd = -1;
    const char *url = options->url ? options->url : CAY_CLIENT_URL_DEFAULT;
    if (!cay_address_parse(url, &client->address, err)) {
        cay_client_close(client);
        return false;
    }
    cay_secret_set(&client->key, key);
    if (options->ca_file)
        client->ca_file = cay_strdup(options->ca_file);
    cay_client_set_timeout(client, options->timeout_ms);
    *out_client = client;
    return true;
}

struct cay_client *cay_client_clone(const struct cay_client *client)
{
    struct cay_str key = cay_secret_view(&client->key);
    cay_autofree char *text = cay_strndup(key.ptr ? key.ptr : "", key.len);
    const struct cay_client_options options = {
        .size = sizeof(options),
        .url = client->address.text,
        .key = text,
        .ca_file = client->ca_file,
        .timeout_ms = client->timeout_ms,
    };
    struct cay_client *clone = NULL;
    struct cay_error ignored = {};
    return cay_client_open(&options, &clone, &ignored) ? clone : NULL;
}

void cay_client_close(struct cay_client *client)
{
    if (!client)
        return;
    cay_curl_close(client->curl);
    if (client->kept_fd >= 0)
        close(client->kept_fd);
    cay_address_finish(&client->address);
    cay_secret_finish(&client->key);
    free(client->ca_file);
    free(client);
}

void cay_client_cleanup(struct cay_client **client)
{
    cay_client_close(*client);
}

bool cay_client_is_local(const struct cay_client *client)
{
    return client->address.is_loopback;
}

void cay_client_set_timeout(struct cay_client *client, int64_t timeout_ms)
{
    assert(timeout_ms >= 0);
    client->timeout_ms = timeout_ms;
}

void cay_client_set_stop(struct cay_client *client, const volatile sig_atomic_t *stop)
{
    client->stop = stop;
}

bool cay_client_encode(const struct cay_pb_message *desc, const void *message, struct cay_buf *out,
                       struct cay_error *err)
{
    if (cay_pb_encode(desc, message, out) == 0)
        return true;
    return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "the %s is larger than the %d bytes allowed",
                    desc->full_name, CAY_LIMIT_MESSAGE_BYTES);
}

bool cay_client_decode(const struct cay_pb_message *desc, struct cay_str bytes,
                       struct cay_arena *arena, void *out_message, struct cay_error *err)
{
    void *message = cay_arena_alloc(arena, desc->size_bytes);
    char *copy = cay_arena_copy(arena, bytes);
    int status = -ENOMEM;
    if (message && copy)
        status = cay_pb_decode(desc, (struct cay_str){copy, bytes.len}, arena, message);
    if (status == -ENOMEM)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "the %s takes too much memory",
                        desc->full_name);
    if (status < 0)
        return cay_fail(err, CAY_R_INTERNAL,
                        "the daemon's %s could not be decoded; are cay and cayd of one version?",
                        desc->full_name);
    memcpy(out_message, message, desc->size_bytes);
    return true;
}

static bool collect(struct cay_transfer *transfer, struct cay_str bytes, struct cay_error *err)
{
    struct cay_buf *answer = transfer->state;
    cay_buf_append_str(answer, bytes);
    if (!answer->failed)
        return true;
    return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "the answer is larger than %d bytes",
                    CAY_LIMIT_MESSAGE_BYTES);
}

bool cay_client_call(struct cay_client *client, const struct cay_pb_method *method,
                     const void *request, struct cay_arena *arena, void *out_response,
                     struct cay_error *err)
{
    assert(!method->client_streaming && !method->server_streaming);
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_auto(cay_buf_finish) struct cay_buf answer;
    cay_buf_init(&body, CAY_LIMIT_MESSAGE_BYTES);
    cay_buf_init(&answer, CAY_LIMIT_MESSAGE_BYTES);
    if (!cay_client_encode(method->input, request, &body, err))
        return false;
    struct cay_transfer transfer = {
        .client = client,
        .method = method,
        .state = &answer,
        .body = cay_buf_str(&body),
        .sink = collect,
    };
    return cay_transfer_run(&transfer, NULL, err) &&
           cay_client_decode(method->output, cay_buf_str(&answer), arena, out_response, err);
}

static struct cay_client *clone_with(const struct cay_client *client,
                                     const struct cay_call_options *options)
{
    struct cay_client *clone = cay_client_clone(client);
    if (clone && options && options->timeout_ms)
        cay_client_set_timeout(clone, CAY_MAX(options->timeout_ms, 0));
    return clone;
}

bool cay_client_call_with(struct cay_client *client, const struct cay_call_options *options,
                          const struct cay_pb_method *method, const void *request,
                          struct cay_arena *arena, void *out_response, struct cay_error *err)
{
    cay_auto(cay_client_cleanup) struct cay_client *clone = clone_with(client, options);
    return clone ? cay_client_call(clone, method, request, arena, out_response, err)
                 : cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
}

bool cay_client_call_stream_with(struct cay_client *client, const struct cay_call_options *options,
                                 const struct cay_pb_method *method, const void *request,
                                 cay_client_receiver *receive, void *state, struct cay_error *err)
{
    cay_auto(cay_client_cleanup) struct cay_client *clone = clone_with(client, options);
    return clone ? cay_client_call_stream(clone, method, request, receive, state, err)
                 : cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
}
