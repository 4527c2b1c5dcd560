/* SPDX-License-Identifier: Apache-2.0 */
#include "host/owner/account.h"

#include <stdio.h>
#include <stdlib.h>

#include "host/session/host.h"
#include "host/session/session.h"

enum { PARTS_MAX = 64 };

struct cay_account *cay_account_of(struct cay_host *host, const char *owner)
{
    struct cay_account *account = cay_map_get(&host->accounts, cay_str(owner));
    if (account)
        return account;
    account = cay_new(struct cay_account);
    snprintf(account->owner, sizeof(account->owner), "%s", owner);
    account->shares = cay_shares_ref(host->loop, owner);
    account->lane.share = &account->shares->quick;
    account->search.share = &account->shares->search;
    account->intake.share = &account->shares->quick;
    (void)cay_map_put(&host->accounts, cay_str(account->owner), account);
    return account;
}

/* In steps of two, and back later than forth: most starts and ends change nothing for others. */
static unsigned parts_for(const struct cay_account *account)
{
    unsigned parts = CAY_MAX(account->parts, 1u);
    while (parts < account->running && parts < PARTS_MAX)
        parts *= 2;
    while (parts > 1 && account->running <= parts / 4)
        parts /= 2;
    return parts;
}

static void divide(const struct cay_session *session)
{
    struct cay_account *account = session->account;
    unsigned parts = parts_for(account);
    if (parts == account->parts)
        return;
    account->parts = parts;
    cay_list_for_each (struct cay_session, other, &session->host->sessions.list, in_table) {
        if (other->account == account && other->live && other->sandbox)
            cay_sandbox_set_part(other->sandbox, parts);
    }
}

void cay_account_started(struct cay_session *session, struct cay_sandbox *sandbox)
{
    session->account->running++;
    divide(session);
    cay_sandbox_set_part(sandbox, session->account->parts); /* of an earlier daemon: may differ */
}

void cay_account_ended(const struct cay_session *session)
{
    session->account->running--;
    divide(session);
}

void cay_accounts_finish(struct cay_host *host)
{
    size_t cursor = 0;
    for (struct cay_account *account; (account = cay_map_next(&host->accounts, &cursor));) {
        cay_shares_unref(account->shares);
        free(account->quotas);
        free(account);
    }
    cay_map_finish(&host->accounts);
}

static void init(struct cay_session *session)
{
    session->account = cay_account_of(session->host, session->owner);
    session->lane.share = &session->account->shares->quick;
    session->search_lane.share = &session->account->shares->search;
}

const struct cay_session_part cay_account_part = {.init = init};
