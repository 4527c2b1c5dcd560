/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The verbs of this room, and its rows of the host's table. */

#include "host/session/host.h"

cay_verb cay_host_check_network;
cay_verb cay_host_get_usage;
cay_verb cay_host_list_network_questions;

extern const struct cay_verb_row cay_live_verbs[];
