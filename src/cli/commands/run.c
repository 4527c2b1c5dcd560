/* SPDX-License-Identifier: Apache-2.0 */
#include "base/id.h"
#include "cli/commands/exec.h"
#include "cli/commands/session.h"
#include "cli/values.h"

/* One-shot: a session of its own for one command. Its id is made here, so that it can be destroyed
 * even when the answer to its creation was lost. */

static bool create(struct cay_cli *cli, struct cay_str id, struct cay_error *err)
{
    struct cay_v1_create_session_response response = {};
    struct cay_v1_create_session_request request = {
        .session_id = id,
        .base = cay_values_text(cli, "base"),
    };
    return cay_values_limits(cli, &request.limits, err) &&
           cay_values_network(cli, (struct cay_str){}, &request.network, err) &&
           cay_values_new_secrets(cli, &request.secrets, &request.network, err) &&
           cay_session_make(cli, &request, &response, err);
}

static bool destroy(struct cay_cli *cli, struct cay_str id, struct cay_error *err)
{
    struct cay_v1_destroy_session_response response = {};
    struct cay_v1_destroy_session_request request = {.session_id = id, .missing_ok = true};
    return cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_DESTROY_SESSION, &request, &response, err);
}

static bool run_run(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_args *args = &cli->args;
    char id[sizeof("run-") + CAY_ID_RANDOM_CHARS];
    struct cay_error rm_err = {};
    if (args->dash_at && args->dash_at != args->word_count)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "'%.60s' stands before '--'; usage: cay run [FLAGS] -- COMMAND...",
                        args->words[0]);
    cay_id_make(id, sizeof(id), "run-");
    cli->has_timeout = false; /* it is the command's, not that of the calls */
    /* From here on signals are noticed between the steps. */
    cay_exec_catch();
    bool done = create(cli, cay_str(id), err);
    if (done && !cay_exec_caught())
        done = cay_exec_follow(cli, cay_str(id), args->words, args->word_count, (struct cay_str){},
                               NULL, err);
    else if (done)
        cli->exit_status = 128 + cay_exec_caught();
    if (cay_args_has(args, "keep")) {
        if (done && !cli->out.is_json)
            fprintf(stderr, "cay: kept as session %s\n", id);
        return done;
    }
    if (!destroy(cli, cay_str(id), &rm_err) && done) {
        *err = rm_err;
        return cay_wrap(err, "destroy session '%s'", id);
    }
    return done;
}

static const struct cay_flag run_flags[] = {
    {.name = "base",
     .value = "BASE",
     .help = "what the sandbox starts from; the daemon's default base otherwise"},
    CAY_FLAGS_EXEC,
    CAY_FLAGS_LIMITS,
    CAY_FLAGS_DISK,
    CAY_FLAG_NETWORK,
    CAY_FLAG_SECRET,
    {.name = "keep", .help = "keep the session and tell its id"},
    {},
};

const struct cay_command cay_command_run = {
    .name = "run",
    .arguments = "-- COMMAND...",
    .summary = "Run a command in a sandbox of its own, gone afterwards",
    .details = "Output and exit status are as with 'cay exec'. The sandbox is destroyed when the\n"
               "command has ended, or Ctrl-C is pressed.",
    .examples = "  cay run -- python3 -c 'print(6*7)'\n"
                "  cay run --timeout 10s --memory 256M -- ./tests\n"
                "  cay run --network open -- curl https://example.com",
    .flags = run_flags,
    .group = CAY_GROUP_SANDBOX,
    .words_min = 1,
    .words_max = UINT32_MAX,
    .run = run_run,
};
