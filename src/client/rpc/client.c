/* SPDX-License-Identifier: Apache-2.0 */
#include "client/rpc/client.h"

#include <assert.h>
#include <stdlib.h>

#include "base/sized.h"
#include "client/rpc/client_internal.h"

enum { KEY_BYTES_MAX = 512 };

/* It becomes part of a header line: anything else could add lines of its own. */
static bool check_key(struct cay_str key, struct cay_error *err)
{
    if (key.len > KEY_BYTES_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the API key is longer than any key");
    for (size_t i = 0; i < key.len; i++) {
        if (key.ptr[i] <= ' ' || key.ptr[i] > '~')
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "the API key holds a blank or another character no key has");
    }
    return true;
}

static void destroy(struct cay_client *client)
{
    while (client->resting) {
        struct cay_line *line = client->resting;
        client->resting = cay_line_next(line);
        cay_line_destroy(line);
    }
    cay_trust_destroy(client->trust);
    cay_secret_finish(&client->key);
    cay_wipe(&client->proxy, sizeof(client->proxy));
    pthread_mutex_destroy(&client->lock);
    free(client->ca_file);
    free(client);
}

static bool fill(struct cay_client *client, const struct cay_client_options *options,
                 struct cay_error *err)
{
    const char *url = options->url && *options->url ? options->url : CAY_CLIENT_URL_DEFAULT;
    struct cay_str key = cay_str(options->key);
    if (!check_key(key, err) || !cay_address_parse(url, &client->address, err) ||
        !cay_proxy_find(&client->address, &client->proxy, err))
        return false;
    if (options->ca_file && *options->ca_file) {
        client->ca_file = strdup(options->ca_file);
        if (!client->ca_file)
            return cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
    }
    client->timeout_ms = CAY_MAX(options->timeout_ms, 0);
    return cay_secret_try_set(&client->key, key) || cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
}

bool cay_client_open(const struct cay_client_options *given, struct cay_client **out_client,
                     struct cay_error *err)
{
    struct cay_error ignored;
    struct cay_client_options options;
    err = err ? err : &ignored;
    if (!out_client)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "there is no place for the client");
    if (!cay_sized_take(given, &options, sizeof(options), "options (CAY_CLIENT_OPTIONS)", err))
        return false;
    struct cay_client *client = calloc(1, sizeof(*client));
    if (!client)
        return cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
    client->ref_count = 1;
    pthread_mutex_init(&client->lock, NULL);
    if (!fill(client, &options, err)) {
        destroy(client);
        return false;
    }
    *out_client = client;
    return true;
}

struct cay_client *cay_client_ref(struct cay_client *client)
{
    pthread_mutex_lock(&client->lock);
    client->ref_count++;
    pthread_mutex_unlock(&client->lock);
    return client;
}

void cay_client_close(struct cay_client *client)
{
    if (!client)
        return;
    pthread_mutex_lock(&client->lock);
    bool is_last = --client->ref_count == 0;
    pthread_mutex_unlock(&client->lock);
    if (is_last)
        destroy(client);
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

struct cay_line *cay_client_take_line(struct cay_client *client)
{
    struct cay_line *line = NULL;
    for (;;) {
        pthread_mutex_lock(&client->lock);
        line = client->resting;
        if (line) {
            client->resting = cay_line_next(line);
            client->rest_count--;
        }
        pthread_mutex_unlock(&client->lock);
        if (!line || cay_line_is_fresh(line))
            return line;
        cay_line_destroy(line);
    }
}

void cay_client_rest_line(struct cay_client *client, struct cay_line *line)
{
    cay_line_rest(line);
    pthread_mutex_lock(&client->lock);
    bool is_kept = client->rest_count < CAY_CLIENT_REST_MAX;
    if (is_kept) {
        cay_line_set_next(line, client->resting);
        client->resting = line;
        client->rest_count++;
    }
    pthread_mutex_unlock(&client->lock);
    if (!is_kept)
        cay_line_destroy(line);
}

struct cay_trust *cay_client_trust(struct cay_client *client, struct cay_error *err)
{
    pthread_mutex_lock(&client->lock);
    bool is_there = client->trust || cay_trust_create(client->ca_file, &client->trust, err);
    pthread_mutex_unlock(&client->lock);
    return is_there ? client->trust : NULL;
}

void cay_client_write_proxy_rights(const struct cay_client *client, struct cay_buf *out)
{
    if (client->proxy.credentials[0])
        cay_buf_printf(out, "Proxy-Authorization: Basic %s\r\n", client->proxy.credentials);
}
