/* SPDX-License-Identifier: Apache-2.0 */
#include "host/owner/verbs.h"

/* clang-format off */
const struct cay_verb_row cay_owner_verbs[] = {
    {CAY_V1_QUOTA_SERVICE_GET_QUOTA, cay_host_get_quota},
    {CAY_V1_QUOTA_SERVICE_SET_QUOTA, cay_host_set_quota},
    {},
};
/* clang-format on */
