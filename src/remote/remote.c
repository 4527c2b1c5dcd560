/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/remote.h"

#include <assert.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>

#include "api/cay_v1.h"
#include "api/errand.h"
#include "remote/remote_internal.h"

/* A question who holds a secret, asked of the other daemon by a verb. */
struct question {
    struct cay_errand errand;
    struct cay_whois *whois; /* NULL: nobody waits for the answer */
};

static void copy_text(char *out, size_t size, struct cay_str text)
{
    snprintf(out, size, "%.*s", (int)text.len, text.len ? text.ptr : "");
}

static struct cay_caller to_caller(const struct cay_v1_caller *found)
{
    struct cay_caller caller = {
        .role = found->role == CAY_V1_KEY_ROLE_ADMIN ? CAY_ROLE_ADMIN : CAY_ROLE_USER,
        .may_vouch = found->may_vouch,
    };
    copy_text(caller.owner, sizeof(caller.owner), found->owner);
    copy_text(caller.key_id, sizeof(caller.key_id), found->key_id);
    copy_text(caller.session_id, sizeof(caller.session_id), found->session_id);
    return caller;
}

/* Not being trusted there is our own fault, not that of who calls. */
static void explain(const struct cay_error *err, struct cay_error *out_err)
{
    if (err->reason == CAY_R_UNAUTHENTICATED || err->reason == CAY_R_PERMISSION_DENIED)
        cay_fail(out_err, CAY_R_UNAVAILABLE, "the daemon behind this one does not trust it: %.120s",
                 err->text);
    else
        *out_err = *err;
}

static void ended(struct cay_errand *errand, const void *response, const struct cay_error *err)
{
    struct question *self = CAY_CONTAINER_OF(errand, struct question, errand);
    const struct cay_v1_find_caller_response *found = response;
    struct cay_whois *whois = self->whois;
    struct cay_error own = {};
    struct cay_caller caller = {};
    if (err)
        explain(err, &own);
    else if (!found->caller)
        cay_fail(&own, CAY_R_UNAUTHENTICATED,
                 "the API key is unknown, revoked or expired; 'cay key create' makes one");
    else
        caller = to_caller(found->caller);
    cay_errand_finish(errand);
    free(self);
    if (whois)
        cay_whois_answer(whois, own.reason ? NULL : &caller, own.reason ? &own : NULL);
}

static void authenticate(struct cay_service *service, struct cay_str secret,
                         struct cay_whois *whois)
{
    static const struct cay_errand_ops ops = {.ended = ended};
    static const struct cay_caller door = {
        .role = CAY_ROLE_ADMIN, .owner = "local", .is_door = true};
    struct question *self = cay_new(struct question);
    self->whois = whois;
    whois->state = self;
    cay_errand_init(&self->errand, service, CAY_V1_KEY_SERVICE_FIND_CALLER, &door, &ops);
    struct cay_v1_find_caller_request *ask = cay_errand_message(&self->errand);
    ask->secret = cay_arena_str(&self->errand.call.arena, secret);
    cay_errand_start(&self->errand);
}

static void forget(struct cay_service *, struct cay_whois *whois)
{
    struct question *self = whois->state;
    self->whois = NULL;
    cay_errand_cancel(&self->errand);
}

static bool find_address(struct cay_remote *remote, struct cay_error *err)
{
    const struct cay_address *address = &remote->client->address;
    if (!address->is_plain)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "%.100s: the daemon behind is reached by unix: or http:// only",
                        address->text);
    if (address->unix_path[0]) {
        struct sockaddr_un *unix_address = (struct sockaddr_un *)&remote->address;
        unix_address->sun_family = AF_UNIX;
        memcpy(unix_address->sun_path, address->unix_path, strlen(address->unix_path));
        remote->address_len = sizeof(*unix_address);
        return true;
    }
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(address->host, address->port, &hints, &found) != 0)
        return cay_blame_unreachable(&remote->client->address, "there is no such host", "address",
                                     err);
    memcpy(&remote->address, found->ai_addr, found->ai_addrlen);
    remote->address_len = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

bool cay_remote_create(const struct cay_remote_options *options, struct cay_remote **out_remote,
                       struct cay_error *err)
{
    struct cay_remote *remote = cay_new(struct cay_remote);
    const struct cay_client_options client = {
        .size = sizeof(client), .url = options->url, .key = options->key};
    cay_list_init(&remote->calls);
    remote->loop = options->loop;
    remote->verbs = cay_alloc(options->method_count * sizeof(*remote->verbs));
    for (size_t i = 0; i < options->method_count; i++)
        remote->verbs[i] = cay_remote_forward;
    remote->ops = (struct cay_service_ops){
        .name = "remote",
        .methods = options->methods,
        .method_count = options->method_count,
        .verbs = remote->verbs,
        .authenticate = authenticate,
        .forget = forget,
    };
    remote->service.ops = &remote->ops;
    if (cay_client_open(&client, &remote->client, err) && find_address(remote, err)) {
        /* From now on errors are read by who calls here: where the other daemon is, is not theirs
         * to know. */
        snprintf(remote->client->address.text, sizeof(remote->client->address.text),
                 "the machine behind this gateway");
        *out_remote = remote;
        return true;
    }
    cay_remote_destroy(remote);
    return false;
}

void cay_remote_destroy(struct cay_remote *remote)
{
    if (!remote)
        return;
    assert(cay_list_empty(&remote->calls));
    cay_client_close(remote->client);
    free(remote->verbs);
    free(remote);
}

struct cay_service *cay_remote_service(struct cay_remote *remote)
{
    return &remote->service;
}
