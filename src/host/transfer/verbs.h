/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The verbs of this room, and its rows of the host's table. */

#include "host/session/host.h"

cay_verb cay_host_export_session;
cay_verb cay_host_import_session;

extern const struct cay_verb_row cay_transfer_verbs[];
