/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/host.h"

/* Files belong to the owners that a sandbox knows, whose numbers are others on the host. */
bool cay_host_needs_owner_map(const struct cay_host *host)
{
    return cay_runtimes_can(&host->runtimes, CAY_RUNTIME_OWN_IDS);
}

bool cay_host_is_still(const struct cay_host *host, struct cay_error *err)
{
    return !host->is_moving || cay_fail(err, CAY_R_UNAVAILABLE,
                                        "this host is moving into a new pool; try again when that "
                                        "is done");
}
