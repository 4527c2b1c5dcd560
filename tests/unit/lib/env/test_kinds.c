/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "cay/env.h"
#include "tests/unit/test.h"
#include "tool/tool.h"

static void file_tools_are_those_of_the_table(void **)
{
    for (size_t i = 0; i < cay_tool_count(); i++) {
        const struct cay_tool *tool = cay_tool_at(i);
        assert_int_equal(cay_is_file_op(tool->name), tool->run != NULL);
        for (const char *const *alias = tool->aliases; alias && *alias; alias++)
            assert_int_equal(cay_is_file_op(*alias), tool->run != NULL);
    }
    static const char *const files[] = {"read",      "write",      "edit",      "grep",    "glob",
                                        "read_file", "write_file", "edit_file", "list_dir"};
    for (size_t i = 0; i < CAY_COUNT(files); i++)
        assert_true(cay_is_file_op(files[i]));
    static const char *const others[] = {"bash", "git_status", "READ", "read ", "", NULL};
    for (size_t i = 0; i < CAY_COUNT(others); i++)
        assert_false(cay_is_file_op(others[i]));
}

static enum cay_env_error error_of(enum cay_reason reason)
{
    struct cay_error err = {};
    cay_fail(&err, reason, NULL);
    return cay_env_error_of(&err);
}

static void reasons_have_their_error(void **)
{
    static const struct {
        enum cay_reason reason;
        enum cay_env_error error;
    } wanted[] = {
        {CAY_R_CAPABILITY_NOT_SUPPORTED, CAY_ENV_ERROR_CAPABILITY_NOT_SUPPORTED},
        {CAY_R_SNAPSHOTS_NOT_AVAILABLE, CAY_ENV_ERROR_CAPABILITY_NOT_SUPPORTED},
        {CAY_R_NOT_SUPPORTED, CAY_ENV_ERROR_CAPABILITY_NOT_SUPPORTED},
        {CAY_R_UNIMPLEMENTED, CAY_ENV_ERROR_CAPABILITY_NOT_SUPPORTED},
        {CAY_R_SESSION_NOT_FOUND, CAY_ENV_ERROR_SESSION_NOT_FOUND},
        {CAY_R_NOT_ACTIVE, CAY_ENV_ERROR_NOT_ACTIVE},
        {CAY_R_SESSION_PAUSED, CAY_ENV_ERROR_NOT_ACTIVE},
        {CAY_R_SESSION_DESTROYING, CAY_ENV_ERROR_NOT_ACTIVE},
        {CAY_R_SESSION_FAILED, CAY_ENV_ERROR_NOT_ACTIVE},
        {CAY_R_INVALID_STATE, CAY_ENV_ERROR_NOT_ACTIVE},
        {CAY_R_UNAVAILABLE, CAY_ENV_ERROR_UNAVAILABLE},
        {CAY_R_DAEMON_RESTARTING, CAY_ENV_ERROR_UNAVAILABLE},
        {CAY_R_DISK_FAILED, CAY_ENV_ERROR_UNAVAILABLE},
        {CAY_R_MAX_SESSIONS_REACHED, CAY_ENV_ERROR_SESSION_LIMIT_REACHED},
        {CAY_R_INTERNAL, CAY_ENV_ERROR_OTHER},
        {CAY_R_FILE_NOT_FOUND, CAY_ENV_ERROR_OTHER},
        {CAY_R_PORT_NOT_OPEN, CAY_ENV_ERROR_OTHER},
        {CAY_R_UNAUTHENTICATED, CAY_ENV_ERROR_OTHER},
        {CAY_R_DEADLINE_EXCEEDED, CAY_ENV_ERROR_OTHER},
    };
    for (size_t i = 0; i < CAY_COUNT(wanted); i++)
        assert_int_equal(error_of(wanted[i].reason), wanted[i].error);
    const struct cay_error unset = {};
    assert_int_equal(cay_env_error_of(&unset), CAY_ENV_ERROR_OTHER);
}

static void kinds_are_known_by_design(void **)
{
    const struct cay_env_capabilities *e2b = cay_env_kind_capabilities("e2b");
    assert_true(e2b->pause && e2b->streaming_progress && !e2b->snapshots && !e2b->rollback);
    assert_int_equal(e2b->max_session_duration_ms, 86'400'000);
    const struct cay_env_capabilities *daytona = cay_env_kind_capabilities("daytona");
    assert_true(!daytona->pause && daytona->streaming_progress && !daytona->snapshots);
    const struct cay_env_capabilities *fly = cay_env_kind_capabilities("fly");
    assert_true(fly->pause && !fly->streaming_progress && !fly->tier_routing);
    const struct cay_env_capabilities *local = cay_env_kind_capabilities("local");
    assert_true(local->pause && local->streaming_progress && !local->isolates);
    assert_null(cay_env_kind_capabilities("native"));
    assert_null(cay_env_kind_capabilities(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_tools_are_those_of_the_table),
        cmocka_unit_test(reasons_have_their_error),
        cmocka_unit_test(kinds_are_known_by_design),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
