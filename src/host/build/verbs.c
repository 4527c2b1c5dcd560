/* SPDX-License-Identifier: Apache-2.0 */
#include "host/build/verbs.h"

/* clang-format off */
const struct cay_verb_row cay_build_verbs[] = {
    {CAY_V1_BASE_SERVICE_BUILD_BASE,      cay_host_build_base},
    {CAY_V1_BASE_SERVICE_START_BUILD,     cay_host_start_build},
    {CAY_V1_BASE_SERVICE_GET_BUILD,       cay_host_get_build},
    {CAY_V1_BASE_SERVICE_PUT_BUILD_FILES, cay_host_put_build_files},
    {CAY_V1_BASE_SERVICE_GET_BUILD_FILES, cay_host_get_build_files},
    {},
};
/* clang-format on */
