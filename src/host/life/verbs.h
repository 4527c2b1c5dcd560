/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The verbs of this room, and its rows of the host's table. */

#include "host/session/host.h"

cay_verb cay_host_create_session;
cay_verb cay_host_get_session;
cay_verb cay_host_list_sessions;
cay_verb cay_host_pause_session;
cay_verb cay_host_resume_session;
cay_verb cay_host_destroy_session;

extern const struct cay_verb_row cay_life_verbs[];
