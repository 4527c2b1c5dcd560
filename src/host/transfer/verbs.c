/* SPDX-License-Identifier: Apache-2.0 */
#include "host/transfer/verbs.h"

/* clang-format off */
const struct cay_verb_row cay_transfer_verbs[] = {
    {CAY_V1_SANDBOX_SERVICE_EXPORT_SESSION, cay_host_export_session},
    {CAY_V1_SANDBOX_SERVICE_IMPORT_SESSION, cay_host_import_session},
    {},
};
/* clang-format on */
