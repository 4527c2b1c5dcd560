/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"
#include "cli/offer.h"
#include "cli/values.h"
#include "client/rpc/client.h"

enum { PORT_MAX = 65535 };

static bool read_port(const char *text, uint32_t *out_port, struct cay_error *err)
{
    uint64_t port = 0;
    if (cay_str_to_u64(cay_str(text), PORT_MAX, &port) < 0 || port == 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "'%.40s' is not a port; write 1 to %d", text,
                        PORT_MAX);
    *out_port = (uint32_t)port;
    return true;
}

static bool is_loopback(struct cay_str address)
{
    return cay_str_starts(address, "127.") || cay_str_is(address, "::1");
}

/* From another machine such an address would lead to that machine itself. */
static bool is_out_of_reach(const struct cay_cli *cli, const struct cay_v1_exposed_port *port)
{
    return !cay_client_is_local(cli->client) && is_loopback(port->bind_address) &&
           (cay_str_starts(port->address, "127.") || cay_str_starts(port->address, "[::1]"));
}

static void note_reach(const struct cay_cli *cli, const struct cay_v1_exposed_port *ports,
                       size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!is_out_of_reach(cli, &ports[i]))
            continue;
        fprintf(stderr,
                "cay: this address works on the daemon's machine alone; 'cay forward %s %u' brings "
                "the port here (or set port_bind and port_advertise there)\n",
                cli->args.words[0], ports[i].port);
        return;
    }
}

static bool expose(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_port_request port = {};
    struct cay_v1_expose_port_response response = {};
    struct cay_v1_expose_port_request request = {
        .session_id = cay_str(cli->args.words[0]),
        .port = &port,
        .process_id = cay_values_text(cli, "process"),
    };
    bool is_given = false;
    int32_t host_port = 0;
    if (!read_port(cli->args.words[1], &port.port, err) ||
        !cay_values_number(cli, "host-port", 1, PORT_MAX, &is_given, &host_port, err) ||
        !cay_values_duration(cli, "wait", &port.wait_listening, err))
        return false;
    port.host_port = (uint32_t)host_port;
    if (!cay_cli_call(cli, CAY_V1_PROCESS_SERVICE_EXPOSE_PORT, &request, &response, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_expose_port_response_desc, &response, err);
    if (response.port)
        cay_output_text(&cli->out, CAY_STYLE_GOOD, response.port->address);
    cay_output_printf(&cli->out, "\n");
    if (response.port)
        note_reach(cli, response.port, 1);
    return true;
}

static void print_table(struct cay_output *out, const struct cay_v1_exposed_port_array *ports)
{
    static const char *const titles[] = {"PORT", "ADDRESS", "LISTENING", "PROCESS"};
    cay_auto(cay_table_finish) struct cay_table table;
    cay_table_init(&table, titles, CAY_COUNT(titles));
    for (size_t i = 0; i < ports->count; i++) {
        const struct cay_v1_exposed_port *port = &ports->items[i];
        char number[16];
        snprintf(number, sizeof(number), "%u", port->port);
        cay_table_cell(&table, CAY_STYLE_BOLD, cay_str(number));
        cay_table_cell(&table, CAY_STYLE_PLAIN, port->address);
        cay_table_cell(&table, port->listening ? CAY_STYLE_GOOD : CAY_STYLE_DIM,
                       cay_str(port->listening ? "yes" : "no"));
        cay_table_cell(&table, CAY_STYLE_DIM, port->process_id);
    }
    cay_table_print(&table, out);
}

static bool list(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_get_session_request request = {.session_id = cay_str(cli->args.words[0])};
    struct cay_v1_get_session_response response = {};
    if (!cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_GET_SESSION, &request, &response, err))
        return false;
    const struct cay_v1_session none = {};
    const struct cay_v1_session *session = response.session ? response.session : &none;
    if (cli->out.is_json) { /* the ports alone, as a session has them */
        const struct cay_v1_session found = {.id = session->id, .ports = session->ports};
        return cay_output_message(&cli->out, &cay_v1_session_desc, &found, err);
    }
    if (session->ports.count) {
        print_table(&cli->out, &session->ports);
        note_reach(cli, session->ports.items, session->ports.count);
    } else if (cli->out.is_terminal)
        cay_output_printf(
            &cli->out, "The session has no exposed port; 'cay port SESSION PORT' exposes one.\n");
    return true;
}

static bool run_port(struct cay_cli *cli, struct cay_error *err)
{
    if (cli->args.word_count > 1)
        return expose(cli, err);
    if (cli->args.value_count &&
        (cay_args_has(&cli->args, "host-port") || cay_args_has(&cli->args, "process") ||
         cay_args_has(&cli->args, "wait")))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "which port? usage: cay port SESSION PORT");
    return list(cli, err);
}

static bool run_port_rm(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_unexpose_port_request request = {.session_id = cay_str(cli->args.words[0])};
    struct cay_v1_unexpose_port_response response = {};
    if (!read_port(cli->args.words[1], &request.port, err) ||
        !cay_cli_call(cli, CAY_V1_PROCESS_SERVICE_UNEXPOSE_PORT, &request, &response, err))
        return false;
    return !cli->out.is_json ||
           cay_output_message(&cli->out, &cay_v1_unexpose_port_response_desc, &response, err);
}

static const struct cay_flag port_flags[] = {
    {.name = "host-port",
     .value = "N",
     .help = "the port on the daemon's machine; any free one otherwise"},
    {.name = "process", .value = "ID", .help = "close the port together with this process"},
    {.name = "wait",
     .value = "DURATION",
     .help = "wait until something listens on the port, at most this long"},
    {},
};

const struct cay_command cay_command_port = {
    .name = "port",
    .arguments = "SESSION [PORT]",
    .summary = "Make a port of a sandbox reachable from outside, or list such ports",
    .details =
        "The command prints the address to connect to. The port stays exposed until\n"
        "'cay port rm', or until the sandbox ends; a daemon that starts again opens it where\n"
        "it was. When the daemon is on another machine, 'cay forward' brings the port to\n"
        "this one.",
    .examples = "  cay port demo 8080 --wait 10s\n"
                "  cay port demo",
    .flags = port_flags,
    .group = CAY_GROUP_SANDBOX,
    .words_min = 1,
    .words_max = 2,
    .run = run_port,
    .complete = cay_session_offer,
};

const struct cay_command cay_command_port_rm = {
    .name = "port rm",
    .arguments = "SESSION PORT",
    .summary = "Close an exposed port and its connections",
    .group = CAY_GROUP_SANDBOX,
    .words_min = 2,
    .words_max = 2,
    .run = run_port_rm,
    .complete = cay_session_offer,
};
