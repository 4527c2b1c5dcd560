/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The verbs of this room, and its rows of the host's table. */

#include "host/session/host.h"

cay_verb cay_host_update_session;
cay_verb cay_host_revoke_tokens;
cay_verb cay_host_answer_network_question;
cay_verb cay_host_health_check;
cay_verb cay_host_get_capabilities;
cay_verb cay_host_watch_events;
cay_verb cay_host_get_pool;
cay_verb cay_host_create_pool;
cay_verb cay_host_grow_pool;
cay_verb cay_host_create_key;
cay_verb cay_host_list_keys;
cay_verb cay_host_revoke_key;
cay_verb cay_host_find_caller;
cay_verb cay_host_find_token;
cay_verb cay_host_set_secret;
cay_verb cay_host_list_secrets;
cay_verb cay_host_delete_secret;

extern const struct cay_verb_row cay_service_verbs[];
