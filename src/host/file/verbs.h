/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The verbs of this room, and its rows of the host's table. */

#include "host/session/host.h"

cay_verb cay_host_stat_file;
cay_verb cay_host_list_dir;
cay_verb cay_host_make_dir;
cay_verb cay_host_make_symlink;
cay_verb cay_host_move_file;
cay_verb cay_host_remove_file;
cay_verb cay_host_read_file;
cay_verb cay_host_write_file;
cay_verb cay_host_watch_dir;

extern const struct cay_verb_row cay_file_verbs[];
