/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/account.h"

#include <stdio.h>
#include <stdlib.h>

#include "host/session/host.h"

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
