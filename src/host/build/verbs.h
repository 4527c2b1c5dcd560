/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The verbs of this room, and its rows of the host's table. */

#include "host/session/host.h"

cay_verb cay_host_build_base;
cay_verb cay_host_start_build;
cay_verb cay_host_get_build;
cay_verb cay_host_put_build_files;
cay_verb cay_host_get_build_files;

extern const struct cay_verb_row cay_build_verbs[];
