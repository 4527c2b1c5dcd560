/* SPDX-License-Identifier: Apache-2.0 */
#include "host/exec/verbs.h"

/* clang-format off */
const struct cay_verb_row cay_exec_verbs[] = {
    {CAY_V1_SANDBOX_SERVICE_LIST_TOOLS,          cay_host_list_tools},
    {CAY_V1_SANDBOX_SERVICE_EXECUTE_TOOL,        cay_host_execute_tool},
    {CAY_V1_SANDBOX_SERVICE_EXECUTE_TOOL_STREAM, cay_host_execute_tool_stream},
    {CAY_V1_PROCESS_SERVICE_LAUNCH_PROCESS,      cay_host_launch_process},
    {CAY_V1_PROCESS_SERVICE_LIST_PROCESSES,      cay_host_list_processes},
    {CAY_V1_PROCESS_SERVICE_GET_PROCESS_STATUS,  cay_host_get_process_status},
    {CAY_V1_PROCESS_SERVICE_WAIT_PROCESS,        cay_host_wait_process},
    {CAY_V1_PROCESS_SERVICE_ATTACH_PROCESS,      cay_host_attach_process},
    {CAY_V1_PROCESS_SERVICE_SEND_INPUT,          cay_host_send_input, .is_piece = true},
    {CAY_V1_PROCESS_SERVICE_CLOSE_INPUT,         cay_host_close_input},
    {CAY_V1_PROCESS_SERVICE_RESIZE_PTY,          cay_host_resize_pty},
    {CAY_V1_PROCESS_SERVICE_KILL_PROCESS,        cay_host_kill_process},
    {CAY_V1_PROCESS_SERVICE_EXPOSE_PORT,         cay_host_expose_port},
    {CAY_V1_PROCESS_SERVICE_UNEXPOSE_PORT,       cay_host_unexpose_port},
    {CAY_V1_PROCESS_SERVICE_TERMINAL,            cay_host_terminal},
    {CAY_V1_PROCESS_SERVICE_CONNECT_PORT,        cay_host_connect_port},
    {},
};
/* clang-format on */
