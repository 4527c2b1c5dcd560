/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/offer.h"

#include "api/cay_v1.h"
#include "api/limits.h"
#include "cli/command.h"
#include "cli/completion.h"

/* Completion asks the daemon: at a key press, so at once or not at all. */
enum { OFFER_TIMEOUT_MS = 400 };

static bool ask(struct cay_completion *completion, unsigned method, const void *request,
                void *response)
{
    struct cay_cli *cli = completion->cli;
    struct cay_error ignored = {};
    cli->has_timeout = true;
    cli->timeout_ms = OFFER_TIMEOUT_MS;
    return cay_cli_call(cli, method, request, response, &ignored);
}

const char *cay_session_state_name(int state)
{
    switch ((enum cay_v1_session_state)state) {
    case CAY_V1_SESSION_STATE_CREATING: return "creating";
    case CAY_V1_SESSION_STATE_ACTIVE: return "active";
    case CAY_V1_SESSION_STATE_PAUSED: return "paused";
    case CAY_V1_SESSION_STATE_DESTROYING: return "destroying";
    case CAY_V1_SESSION_STATE_FAILED: return "failed";
    case CAY_V1_SESSION_STATE_UNSPECIFIED: break;
    }
    return "unknown";
}

static void offer_sessions(struct cay_completion *completion, const char *suffix)
{
    struct cay_v1_list_sessions_request request = {.page_size = CAY_LIMIT_PAGE_SIZE};
    struct cay_v1_list_sessions_response response = {};
    struct cay_arena *arena = &completion->cli->arena;
    if (!ask(completion, CAY_V1_SANDBOX_SERVICE_LIST_SESSIONS, &request, &response))
        return;
    for (size_t i = 0; i < response.sessions.count; i++) {
        const struct cay_v1_session *session = &response.sessions.items[i];
        const char *name = cay_arena_printf(arena, "%.*s%s", (int)session->id.len,
                                            session->id.len ? session->id.ptr : "", suffix);
        if (name)
            cay_completion_offer(completion, name, cay_session_state_name((int)session->state));
    }
}

void cay_session_offer(struct cay_completion *completion)
{
    if (!completion->word_count)
        offer_sessions(completion, "");
}

void cay_session_offer_many(struct cay_completion *completion)
{
    offer_sessions(completion, "");
}

void cay_session_offer_bases(struct cay_completion *completion)
{
    const struct cay_v1_list_bases_request request = {.page_size = CAY_LIMIT_PAGE_SIZE};
    struct cay_v1_list_bases_response response = {};
    struct cay_arena *arena = &completion->cli->arena;
    if (!ask(completion, CAY_V1_BASE_SERVICE_LIST_BASES, &request, &response))
        return;
    for (size_t i = 0; i < response.bases.count; i++) {
        const struct cay_v1_base *base = &response.bases.items[i];
        const char *name = cay_arena_copy(arena, base->name);
        if (name)
            cay_completion_offer(completion, name, "");
        for (size_t j = 0; j < base->aliases.count; j++) {
            const char *alias = cay_arena_copy(arena, base->aliases.items[j]);
            if (alias)
                cay_completion_offer(completion, alias, name ? name : "");
        }
    }
}

void cay_session_offer_runtimes(struct cay_completion *completion)
{
    const struct cay_v1_get_capabilities_request request = {};
    struct cay_v1_get_capabilities_response response = {};
    struct cay_arena *arena = &completion->cli->arena;
    if (!ask(completion, CAY_V1_SANDBOX_SERVICE_GET_CAPABILITIES, &request, &response) ||
        !response.capabilities)
        return;
    for (size_t i = 0; i < response.capabilities->runtimes.count; i++) {
        const struct cay_v1_runtime_info *runtime = &response.capabilities->runtimes.items[i];
        const char *name = runtime->available ? cay_arena_copy(arena, runtime->name) : NULL;
        if (name)
            cay_completion_offer(completion, name, runtime->is_default ? "the default" : "");
    }
}

void cay_session_offer_places(struct cay_completion *completion)
{
    if (!strpbrk(completion->prefix, ":/."))
        offer_sessions(completion, ":");
}

void cay_session_offer_snapshots(struct cay_completion *completion)
{
    struct cay_v1_list_snapshots_request request = {.page_size = CAY_LIMIT_PAGE_SIZE};
    struct cay_v1_list_snapshots_response response = {};
    cay_session_offer(completion);
    if (!completion->word_count)
        return;
    request.session_id = cay_str(completion->words[0]);
    if (!ask(completion, CAY_V1_SANDBOX_SERVICE_LIST_SNAPSHOTS, &request, &response))
        return;
    for (size_t i = 0; i < response.snapshots.count; i++) {
        const char *name =
            cay_arena_copy(&completion->cli->arena, response.snapshots.items[i].name);
        if (name)
            cay_completion_offer(completion, name, "");
    }
}

void cay_session_offer_processes(struct cay_completion *completion)
{
    struct cay_v1_list_processes_request request = {.page_size = CAY_LIMIT_PAGE_SIZE};
    struct cay_v1_list_processes_response response = {};
    struct cay_arena *arena = &completion->cli->arena;
    cay_session_offer(completion);
    if (!completion->word_count)
        return;
    request.session_id = cay_str(completion->words[0]);
    if (!ask(completion, CAY_V1_PROCESS_SERVICE_LIST_PROCESSES, &request, &response))
        return;
    for (size_t i = 0; i < response.processes.count; i++) {
        const struct cay_v1_process *process = &response.processes.items[i];
        const char *name = cay_arena_copy(arena, process->id);
        const char *program =
            process->argv.count ? cay_arena_copy(arena, process->argv.items[0]) : "";
        if (name)
            cay_completion_offer(completion, name, program ? program : "");
    }
}

void cay_secret_offer(struct cay_completion *completion)
{
    struct cay_v1_list_secrets_request request = {};
    struct cay_v1_list_secrets_response response = {};
    struct cay_arena *arena = &completion->cli->arena;
    if (!ask(completion, CAY_V1_SECRET_SERVICE_LIST_SECRETS, &request, &response))
        return;
    for (size_t i = 0; i < response.secrets.count; i++) {
        struct cay_str name = response.secrets.items[i].name;
        const char *text = cay_arena_printf(arena, "%.*s", (int)name.len, name.len ? name.ptr : "");
        if (text)
            cay_completion_offer(completion, text, "");
    }
}
