/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/env/env_ops.h"
#include "tool/tool.h"

static const struct cay_env_ops *const kinds[] = {
    &cay_env_native,
    &cay_env_local,
};

const struct cay_env_ops *cay_env_kind_find(struct cay_str kind)
{
    for (size_t i = 0; i < CAY_COUNT(kinds); i++) {
        if (cay_str_is(kind, kinds[i]->kind))
            return kinds[i];
    }
    return NULL;
}

/* What can be said of a kind without asking anybody; also of kinds that others implement. */
static const struct {
    const char *kind;
    struct cay_env_capabilities capabilities;
} known[] = {
    {"daytona", {.streaming_progress = true, .isolates = true}},
    {"e2b",
     {.pause = true,
      .streaming_progress = true,
      .max_session_duration_ms = INT64_C(24) * 3600 * 1000,
      .isolates = true}},
    {"fly", {.pause = true, .isolates = true}},
    {"local", {.pause = true, .streaming_progress = true}},
};

const struct cay_env_capabilities *cay_env_kind_capabilities(const char *kind)
{
    for (size_t i = 0; kind && i < CAY_COUNT(known); i++) {
        if (strcmp(kind, known[i].kind) == 0)
            return &known[i].capabilities;
    }
    return NULL;
}

bool cay_is_file_op(const char *tool_name)
{
    const struct cay_tool *tool = cay_tool_find(cay_str(tool_name));
    return tool && tool->tier == CAY_V1_TOOL_TIER_DAEMON;
}

const char *cay_env_state_name(enum cay_env_state state)
{
    switch (state) {
    case CAY_ENV_CREATING: return "creating";
    case CAY_ENV_ACTIVE: return "active";
    case CAY_ENV_PAUSED: return "paused";
    case CAY_ENV_DESTROYING: return "destroying";
    case CAY_ENV_DESTROYED: return "destroyed";
    case CAY_ENV_FAILED: return "failed";
    }
    return "";
}

/* Reasons that do not follow from their code. */
static const struct {
    enum cay_reason reason;
    enum cay_env_error error;
} sentinels[] = {
    {CAY_R_SESSION_NOT_FOUND, CAY_ENV_ERROR_SESSION_NOT_FOUND},
    {CAY_R_MAX_SESSIONS_REACHED, CAY_ENV_ERROR_SESSION_LIMIT_REACHED},
    {CAY_R_NOT_ACTIVE, CAY_ENV_ERROR_NOT_ACTIVE},
    {CAY_R_SESSION_PAUSED, CAY_ENV_ERROR_NOT_ACTIVE},
    {CAY_R_SESSION_DESTROYING, CAY_ENV_ERROR_NOT_ACTIVE},
    {CAY_R_SESSION_FAILED, CAY_ENV_ERROR_NOT_ACTIVE},
    {CAY_R_INVALID_STATE, CAY_ENV_ERROR_NOT_ACTIVE},
    {CAY_R_ROLLBACK_IN_PROGRESS, CAY_ENV_ERROR_NOT_ACTIVE},
    /* It is the sandbox that does not listen. */
    {CAY_R_PORT_NOT_OPEN, CAY_ENV_ERROR_OTHER},
    {CAY_R_UNSUPPORTED_ENCODING, CAY_ENV_ERROR_OTHER},
};

enum cay_env_error cay_env_error_of(const struct cay_error *err)
{
    if (!err)
        return CAY_ENV_ERROR_OTHER;
    for (size_t i = 0; i < CAY_COUNT(sentinels); i++) {
        if (err->reason == (unsigned)sentinels[i].reason)
            return sentinels[i].error;
    }
    /* Also of words that only a newer daemon knows. */
    enum cay_connect_code code = cay_error_code(err);
    if (code == CAY_CODE_UNAVAILABLE)
        return CAY_ENV_ERROR_UNAVAILABLE;
    if (code == CAY_CODE_UNIMPLEMENTED)
        return CAY_ENV_ERROR_CAPABILITY_NOT_SUPPORTED;
    return CAY_ENV_ERROR_OTHER;
}
