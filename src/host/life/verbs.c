/* SPDX-License-Identifier: Apache-2.0 */
#include "host/life/verbs.h"

/* clang-format off */
const struct cay_verb_row cay_life_verbs[] = {
    {CAY_V1_SANDBOX_SERVICE_CREATE_SESSION,  cay_host_create_session},
    {CAY_V1_SANDBOX_SERVICE_GET_SESSION,     cay_host_get_session},
    {CAY_V1_SANDBOX_SERVICE_LIST_SESSIONS,   cay_host_list_sessions},
    {CAY_V1_SANDBOX_SERVICE_PAUSE_SESSION,   cay_host_pause_session},
    {CAY_V1_SANDBOX_SERVICE_RESUME_SESSION,  cay_host_resume_session},
    {CAY_V1_SANDBOX_SERVICE_DESTROY_SESSION, cay_host_destroy_session},
    {},
};
/* clang-format on */
