/* SPDX-License-Identifier: Apache-2.0 */
#include "host/life/tokens.h"

#include <stdio.h>

#include "host/session/host.h"
#include "host/session/session.h"

int64_t cay_session_tokens_born_ns(const struct cay_session *session)
{
    return session->tokens_revoked_ns ? session->tokens_revoked_ns : session->created_ns;
}

struct cay_v1_session_tokens *cay_session_tokens(const struct cay_session *session,
                                                 struct cay_arena *arena)
{
    const struct cay_tokens *secret = &session->host->tokens;
    const struct cay_v1_network_policy *network = session->spec->network;
    struct cay_v1_session_tokens *tokens = cay_arena_new(arena, struct cay_v1_session_tokens);
    char text[CAY_TOKEN_SIZE];
    if (!tokens)
        return NULL;
    cay_token_make(secret, CAY_TOKEN_ACCESS, session->id, cay_session_tokens_born_ns(session),
                   text);
    tokens->access_token = cay_arena_str(arena, cay_str(text));
    if (!network || !network->public_ports) {
        cay_token_make(secret, CAY_TOKEN_TRAFFIC, session->id, cay_session_tokens_born_ns(session),
                       text);
        tokens->traffic_token = cay_arena_str(arena, cay_str(text));
    }
    return tokens;
}

static bool token_caller(struct cay_host *host, struct cay_str token, struct cay_caller *out_caller)
{
    struct cay_str id = cay_token_session(token);
    const struct cay_session *session = id.len ? cay_map_get(&host->sessions.by_id, id) : NULL;
    if (!session || !cay_token_is(&host->tokens, CAY_TOKEN_ACCESS, session->id,
                                  cay_session_tokens_born_ns(session), token))
        return false;
    *out_caller = (struct cay_caller){.role = CAY_ROLE_USER, .key_id = "session-token"};
    memcpy(out_caller->owner, session->owner, sizeof(out_caller->owner));
    memcpy(out_caller->session_id, session->id, sizeof(out_caller->session_id));
    return true;
}

bool cay_host_authenticate(struct cay_host *host, struct cay_str secret,
                           struct cay_caller *out_caller, struct cay_error *err)
{
    return token_caller(host, secret, out_caller) ||
           cay_keys_authenticate(&host->keys, secret, out_caller, err);
}

const char *cay_session_access_token(struct cay_session *session)
{
    if (!session->access_token[0])
        cay_token_make(&session->host->tokens, CAY_TOKEN_ACCESS, session->id,
                       cay_session_tokens_born_ns(session), session->access_token);
    return session->access_token;
}

static void init_holders(struct cay_session *session)
{
    cay_list_init(&session->token_holders);
}

/* What is open by them has ended with the session, or is about to. */
static void drop_holders(struct cay_session *session)
{
    cay_whois_drop_all(&session->token_holders);
}

const struct cay_session_part cay_tokens_part = {.init = init_holders, .free = drop_holders};
