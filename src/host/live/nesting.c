/* SPDX-License-Identifier: Apache-2.0 */
#include "host/live/nesting.h"

#include "host/runtime/runtime.h"
#include "host/session/host.h"

bool cay_nesting_check(const struct cay_host *host, const struct cay_runtime *runtime,
                       bool is_wanted, bool is_admin, struct cay_error *err)
{
    if (!is_wanted)
        return true;
    if (!cay_runtime_can(runtime, CAY_RUNTIME_NESTS))
        return cay_fail(err, CAY_R_NOT_SUPPORTED,
                        "nesting: with the runtime '%s' there is nothing to open",
                        cay_runtime_name(runtime));
    if (host->settings->nesting == CAY_NESTING_NOBODY)
        return cay_fail(err, CAY_R_PERMISSION_DENIED,
                        "nesting: nobody may choose it here; 'nesting' in the daemon's "
                        "configuration says so");
    return host->settings->nesting == CAY_NESTING_EVERYBODY || is_admin ||
           cay_fail(err, CAY_R_PERMISSION_DENIED,
                    "nesting: only an administrator may make sessions in which namespaces can be "
                    "made; ask one, or do without");
}
