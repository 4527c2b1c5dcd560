/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The verbs of this room, and its rows of the host's table. */

#include "host/session/host.h"

cay_verb cay_host_list_bases;
cay_verb cay_host_import_base;
cay_verb cay_host_update_base;
cay_verb cay_host_remove_base;

extern const struct cay_verb_row cay_base_verbs[];
