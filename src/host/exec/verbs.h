/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The verbs of this room, and its rows of the host's table. */

#include "host/session/host.h"

cay_verb cay_host_list_tools;
cay_verb cay_host_execute_tool;
cay_verb cay_host_execute_tool_stream;
cay_verb cay_host_launch_process;
cay_verb cay_host_list_processes;
cay_verb cay_host_get_process_status;
cay_verb cay_host_wait_process;
cay_verb cay_host_attach_process;
cay_verb cay_host_send_input;
cay_verb cay_host_close_input;
cay_verb cay_host_resize_pty;
cay_verb cay_host_kill_process;
cay_verb cay_host_expose_port;
cay_verb cay_host_unexpose_port;
cay_verb cay_host_terminal;
cay_verb cay_host_connect_port;

extern const struct cay_verb_row cay_exec_verbs[];
