/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/cay_v1.h"
#include "api/limits.h"
#include "base/quantity.h"
#include "cli/help.h"
#include "client/rpc/client.h"

enum { UNARY_TIMEOUT_MS = 60'000 };

#define CAY_COMMAND(name) extern const struct cay_command cay_command_##name;
#include "cli/commands.def"
#undef CAY_COMMAND

const struct cay_command *const cay_commands[] = {
#define CAY_COMMAND(name) &cay_command_##name,
#include "cli/commands.def"
#undef CAY_COMMAND
};
const size_t cay_command_count = CAY_COUNT(cay_commands);

const struct cay_variable cay_variables[] = {
    {"CAY_URL", "where the daemon is, unless --url says it; " CAY_CLIENT_URL_DEFAULT " otherwise"},
    {"CAY_API_KEY", "the key to call it with; a Unix socket needs none"},
    {"CAY_CA_FILE", "certificates (PEM) to trust for https instead of the system's"},
    {"NO_COLOR", "when set to anything, output has no colours"},
    {},
};

void cay_cli_failed_one(struct cay_cli *cli, const struct cay_error *failure, struct cay_error *err)
{
    if (err->reason)
        cay_output_error(&cli->out, err);
    *err = *failure;
}

const char *cay_cli_url(const struct cay_cli *cli)
{
    const char *url = cay_args_text(&cli->args, "url");
    if (!url)
        url = getenv("CAY_URL");
    return url && *url ? url : CAY_CLIENT_URL_DEFAULT;
}

static bool open_client(struct cay_cli *cli, struct cay_error *err)
{
    char *key = getenv("CAY_API_KEY");
    const char *ca_file = getenv("CAY_CA_FILE");
    struct cay_client_options options = {
        .size = sizeof(options),
        .url = cay_cli_url(cli),
        .key = key,
        .ca_file = ca_file && *ca_file ? ca_file : NULL,
    };
    bool done = cay_client_open(&options, &cli->client, err);
    cli->has_key = key && *key;
    if (key) {
        /* The client has its copy; this one would stay readable in /proc. */
        cay_wipe(key, strlen(key));
        unsetenv("CAY_API_KEY");
    }
    return done;
}

bool cay_cli_client(struct cay_cli *cli, enum cay_call_kind kind, struct cay_client **out_client,
                    struct cay_error *err)
{
    if (!cli->client && !open_client(cli, err))
        return false;
    int64_t otherwise_ms = kind == CAY_CALL_UNARY ? UNARY_TIMEOUT_MS : 0;
    cay_client_set_timeout(cli->client, cli->has_timeout ? cli->timeout_ms : otherwise_ms);
    *out_client = cli->client;
    return true;
}

bool cay_cli_call(struct cay_cli *cli, unsigned method, const void *request, void *out_response,
                  struct cay_error *err)
{
    struct cay_client *client = NULL;
    return cay_cli_client(cli, CAY_CALL_UNARY, &client, err) &&
           cay_client_call(client, &cay_v1_methods[method], request, &cli->arena, out_response,
                           err);
}

static bool read_timeout(struct cay_cli *cli, struct cay_error *err)
{
    const char *text = cay_args_text(&cli->args, "timeout");
    if (!text)
        return true;
    cli->has_timeout = true;
    if (cay_duration_parse(cay_str(text), &cli->timeout_ms) == 0)
        return true;
    return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "--timeout '%.40s' is not a duration; write 500ms, 30s, 5m, or 0 for none",
                    text);
}

static bool run(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_args *args = &cli->args;
    if (cay_args_has(args, "version"))
        return cay_help_version(cli, err);
    if (cay_args_has(args, "help"))
        return cay_help_show(cli, args->command ? args->command->name : args->noun, err);
    if (!args->command && args->noun)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "'cay %.40s' needs one more word; 'cay help %.40s' lists them", args->noun,
                        args->noun);
    if (!args->command) {
        cli->exit_status = CAY_EXIT_ERROR;
        return cay_help_show(cli, NULL, err);
    }
    return cay_args_check_words(args, err) && read_timeout(cli, err) &&
           args->command->run(cli, err);
}

/* Known before the flags are parsed, because their errors are printed too. */
static bool wants_json(int argc, const char *const *argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--json") == 0)
            return true;
    }
    return false;
}

/* What the client advises, in terms of this program. */
static const struct {
    const char *remedy;
    const char *advice;
} advices[] = {
    {"start", "start it with 'cayd' or './dev up', or set CAY_URL"},
    {"rights", "try sudo, or set CAY_URL and CAY_API_KEY"},
    {"address", "check CAY_URL"},
    {"time", "give it more time with --timeout"},
    {"certificate", "CAY_CA_FILE can name the certificate to trust"},
    {"plain", "if the daemon has no certificate, write http:// in CAY_URL"},
    {"tls", "if it uses TLS, write https:// in CAY_URL"},
};

static void advise(struct cay_error *err)
{
    const char *remedy = cay_error_get(err, "remedy");
    char *advice = strrchr(err->text, ';');
    for (size_t i = 0; remedy && advice && i < CAY_COUNT(advices); i++) {
        if (strcmp(advices[i].remedy, remedy) == 0)
            snprintf(advice, (size_t)(err->text + sizeof(err->text) - advice), "; %s",
                     advices[i].advice);
    }
}

/* The daemon speaks of headers; here the key comes from the environment. */
static void reword(const struct cay_cli *cli, struct cay_error *err)
{
    advise(err);
    if (err->reason == CAY_R_UNAUTHENTICATED && cli->client && !cli->has_key)
        cay_fail(err, CAY_R_UNAUTHENTICATED,
                 "an API key is needed at %.100s: set CAY_API_KEY ('cay key create' on that "
                 "machine makes one)",
                 cay_cli_url(cli));
}

/* Output that did not arrive is a failure. Nobody is told when the reader has had enough. */
static int flush(const struct cay_cli *cli, int status)
{
    errno = 0;
    bool is_lost = fflush(cli->out.file) != 0 || ferror(cli->out.file);
    if (!is_lost)
        return status;
    if (errno != EPIPE)
        fprintf(stderr, "cay: the output could not be written: %s\n",
                errno ? strerrordesc_np(errno) : "standard output failed");
    return CAY_EXIT_ERROR;
}

int cay_cli_main(int argc, const char *const *argv)
{
    struct cay_cli cli = {};
    struct cay_error err = {};
    cay_output_init(&cli.out);
    cli.out.is_json = wants_json(argc, argv);
    cay_arena_init(&cli.arena, CAY_LIMIT_CALL_ARENA_BYTES);
    if (!cay_args_parse(cay_commands, cay_command_count, argc, argv, &cli.args, &err) ||
        !run(&cli, &err)) {
        reword(&cli, &err);
        cay_output_error(&cli.out, &err);
        cli.exit_status = err.reason == CAY_R_DEADLINE_EXCEEDED ? CAY_EXIT_TIMEOUT : CAY_EXIT_ERROR;
    }
    int status = flush(&cli, cli.exit_status);
    cay_client_close(cli.client);
    cay_args_finish(&cli.args);
    cay_arena_finish(&cli.arena);
    return status;
}
