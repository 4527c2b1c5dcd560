/* SPDX-License-Identifier: Apache-2.0 */
#include "host/service/verbs.h"

/* clang-format off */
const struct cay_verb_row cay_service_verbs[] = {
    {CAY_V1_SANDBOX_SERVICE_UPDATE_SESSION,   cay_host_update_session},
    {CAY_V1_SANDBOX_SERVICE_REVOKE_TOKENS,    cay_host_revoke_tokens},
    {CAY_V1_SANDBOX_SERVICE_ANSWER_NETWORK_QUESTION, cay_host_answer_network_question},
    {CAY_V1_SANDBOX_SERVICE_HEALTH_CHECK,     cay_host_health_check},
    {CAY_V1_SANDBOX_SERVICE_GET_CAPABILITIES, cay_host_get_capabilities},
    {CAY_V1_SANDBOX_SERVICE_WATCH_EVENTS,     cay_host_watch_events},
    {CAY_V1_POOL_SERVICE_GET_POOL,            cay_host_get_pool},
    {CAY_V1_POOL_SERVICE_CREATE_POOL,         cay_host_create_pool},
    {CAY_V1_POOL_SERVICE_GROW_POOL,           cay_host_grow_pool},
    {CAY_V1_KEY_SERVICE_CREATE_KEY,           cay_host_create_key},
    {CAY_V1_KEY_SERVICE_LIST_KEYS,            cay_host_list_keys},
    {CAY_V1_KEY_SERVICE_REVOKE_KEY,           cay_host_revoke_key},
    {CAY_V1_KEY_SERVICE_FIND_CALLER,          cay_host_find_caller},
    {CAY_V1_KEY_SERVICE_FIND_TOKEN,           cay_host_find_token},
    {CAY_V1_SECRET_SERVICE_SET_SECRET,        cay_host_set_secret},
    {CAY_V1_SECRET_SERVICE_LIST_SECRETS,      cay_host_list_secrets},
    {CAY_V1_SECRET_SERVICE_DELETE_SECRET,     cay_host_delete_secret},
    {},
};
/* clang-format on */
