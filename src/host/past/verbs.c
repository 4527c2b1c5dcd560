/* SPDX-License-Identifier: Apache-2.0 */
#include "host/past/verbs.h"

/* clang-format off */
const struct cay_verb_row cay_past_verbs[] = {
    {CAY_V1_SANDBOX_SERVICE_FORK_SESSION,     cay_host_fork_session},
    {CAY_V1_SANDBOX_SERVICE_TURN_COMPLETE,    cay_host_turn_complete},
    {CAY_V1_SANDBOX_SERVICE_CREATE_SNAPSHOT,  cay_host_create_snapshot},
    {CAY_V1_SANDBOX_SERVICE_LIST_SNAPSHOTS,   cay_host_list_snapshots},
    {CAY_V1_SANDBOX_SERVICE_DELETE_SNAPSHOT,  cay_host_delete_snapshot},
    {CAY_V1_SANDBOX_SERVICE_HOLD_SNAPSHOT,    cay_host_hold_snapshot},
    {CAY_V1_SANDBOX_SERVICE_ROLLBACK_SESSION, cay_host_rollback_session},
    {CAY_V1_SANDBOX_SERVICE_RESTORE_PATHS,    cay_host_restore_paths},
    {CAY_V1_SANDBOX_SERVICE_DIFF_SNAPSHOTS,   cay_host_diff_snapshots},
    {},
};
/* clang-format on */
