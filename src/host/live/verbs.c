/* SPDX-License-Identifier: Apache-2.0 */
#include "host/live/verbs.h"

/* clang-format off */
const struct cay_verb_row cay_live_verbs[] = {
    {CAY_V1_SANDBOX_SERVICE_CHECK_NETWORK, cay_host_check_network},
    {CAY_V1_SANDBOX_SERVICE_GET_USAGE, cay_host_get_usage},
    {CAY_V1_SANDBOX_SERVICE_LIST_NETWORK_QUESTIONS, cay_host_list_network_questions},
    {},
};
/* clang-format on */
