/* SPDX-License-Identifier: Apache-2.0 */
#include "host/base/verbs.h"

/* clang-format off */
const struct cay_verb_row cay_base_verbs[] = {
    {CAY_V1_BASE_SERVICE_LIST_BASES,  cay_host_list_bases},
    {CAY_V1_BASE_SERVICE_IMPORT_BASE, cay_host_import_base},
    {CAY_V1_BASE_SERVICE_UPDATE_BASE, cay_host_update_base},
    {CAY_V1_BASE_SERVICE_REMOVE_BASE, cay_host_remove_base},
    {},
};
/* clang-format on */
