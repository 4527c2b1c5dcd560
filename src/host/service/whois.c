/* SPDX-License-Identifier: Apache-2.0 */
#include "host/life/tokens.h"
#include "host/service/service_internal.h"
#include "host/session/session.h"

enum { LOOK_MS = 1000 }; /* somebody may set the clock that keys expire by */

static void on_lapse(struct cay_timer *timer)
{
    struct cay_host *host = CAY_CONTAINER_OF(timer, struct cay_host, keys_lapse);
    host->is_lapse_due = false;
    struct cay_error err = {};
    cay_fail(&err, CAY_R_UNAUTHENTICATED,
             "the token of this call was revoked; 'cay token show' has the new one");
    cay_whois_lapse_all(&host->tokens_lapsed, &err);
    int64_t again_ms = cay_keys_lapse(&host->keys);
    if (again_ms == INT64_MAX || host->is_lapse_due)
        return;
    host->is_lapse_due = true;
    cay_timer_start(timer, (uint64_t)CAY_MIN(again_ms, LOOK_MS), 0);
}

void cay_host_lapse_start(struct cay_host *host)
{
    cay_list_init(&host->tokens_lapsed);
    cay_timer_open(&host->keys_lapse, host->loop, on_lapse);
}

void cay_host_lapse_keys(struct cay_host *host)
{
    host->is_lapse_due = true;
    cay_timer_start(&host->keys_lapse, 0, 0);
}

void cay_host_lapse_tokens(struct cay_session *session)
{
    struct cay_list_node *holder;
    while ((holder = cay_list_pop_front(&session->token_holders)))
        cay_list_push_back(&session->host->tokens_lapsed, holder);
    cay_host_lapse_keys(session->host);
}

static void hold(struct cay_host *host, struct cay_key *key, struct cay_whois *whois)
{
    cay_keys_hold(&host->keys, key, &host->service, whois);
    if (key->expires_ns && !host->is_lapse_due)
        cay_host_lapse_keys(host);
}

static void hold_token(struct cay_host *host, struct cay_str session_id, struct cay_whois *whois)
{
    struct cay_session *session = cay_map_get(&host->sessions.by_id, session_id);
    cay_whois_keep(&host->service, &session->token_holders, whois);
}

void cay_host_whois(struct cay_service *service, struct cay_str secret, struct cay_whois *whois)
{
    struct cay_host *host = cay_host_of(service);
    struct cay_caller caller = {};
    struct cay_error err = {};
    bool is_known = cay_host_authenticate(host, secret, &caller, &err);
    struct cay_key *key = is_known ? cay_keys_find(&host->keys, cay_str(caller.key_id)) : NULL;
    if (key)
        hold(host, key, whois);
    if (is_known && caller.session_id[0])
        hold_token(host, cay_str(caller.session_id), whois);
    cay_whois_answer(whois, is_known ? &caller : NULL, is_known ? NULL : &err);
}

bool cay_host_follow(struct cay_service *service, struct cay_str key_id, struct cay_whois *whois,
                     struct cay_error *err)
{
    struct cay_host *host = cay_host_of(service);
    struct cay_key *key = cay_keys_find(&host->keys, key_id);
    if (key && !cay_key_is_good(key))
        return cay_fail(err, CAY_R_UNAUTHENTICATED,
                        "the API key of who this call is for was revoked or has expired; 'cay key "
                        "create' makes one");
    if (key)
        hold(host, key, whois);
    return true;
}
