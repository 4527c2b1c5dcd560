/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/selftest/selftest.h"
#include "client/rpc/client.h"

enum { RUN_TIMEOUT_S = 60, WORDS_MAX = 64 };

bool cay_selftest_call(struct cay_selftest *self, unsigned method, const void *request,
                       void *out_response, struct cay_error *err)
{
    return cay_client_call(self->client, &cay_v1_methods[method], request, &self->arena,
                           out_response, err);
}

bool cay_selftest_create(struct cay_selftest *self, const char *id, const char *runtime,
                         enum cay_v1_network_mode network, struct cay_error *err)
{
    /* All that can be allowed by number, and names that are not asked for: what is refused all the
     * same is refused by the host's guard. */
    static struct cay_str allow[] = {{"0.0.0.0/0", 9}, {"::/0", 4}, {"*.allowed.example", 17}};
    struct cay_v1_network_policy policy = {.mode = network};
    if (network == CAY_V1_NETWORK_MODE_FILTERED)
        policy.allow = (struct cay_pb_strs){allow, CAY_COUNT(allow)};
    struct cay_v1_resource_limits limits = {.has_memory_bytes = true,
                                            .memory_bytes = CAY_SELFTEST_MEMORY_BYTES,
                                            .has_pids = true,
                                            .pids = CAY_SELFTEST_PROCESSES};
    struct cay_v1_create_session_response response = {};
    struct cay_v1_create_session_request request = {
        .session_id = cay_str(id),
        .base = CAY_STR("selftest"),
        .runtime = cay_str(runtime),
        .limits = &limits,
        .network = &policy,
    };
    return cay_selftest_call(self, CAY_V1_SANDBOX_SERVICE_CREATE_SESSION, &request, &response, err);
}

void cay_selftest_destroy(struct cay_selftest *self, const char *id)
{
    struct cay_error ignored = {};
    struct cay_v1_destroy_session_response response = {};
    struct cay_v1_destroy_session_request request = {
        .session_id = cay_str(id), .missing_ok = true, .wait = true};
    (void)cay_selftest_call(self, CAY_V1_SANDBOX_SERVICE_DESTROY_SESSION, &request, &response,
                            &ignored);
}

static struct cay_pb_strs strings(struct cay_selftest *self, const char *const *words)
{
    struct cay_pb_strs made = {};
    made.items = cay_arena_array(&self->arena, WORDS_MAX, sizeof(*made.items));
    for (; made.items && words[made.count] && made.count < WORDS_MAX; made.count++)
        made.items[made.count] = cay_str(words[made.count]);
    return made;
}

bool cay_selftest_run(struct cay_selftest *self, const char *id, const char *user, const char *cwd,
                      const char *const *words, struct cay_selftest_ran *out, struct cay_error *err)
{
    struct google_protobuf_duration patience = {.seconds = RUN_TIMEOUT_S};
    struct cay_v1_exec_policy policy = {.timeout = &patience,
                                        .leftovers = CAY_V1_LEFTOVER_POLICY_KILL};
    struct cay_v1_process_spec spec = {.argv = strings(self, words),
                                       .user = cay_str(user),
                                       .cwd = cay_str(cwd),
                                       .policy = &policy};
    struct cay_v1_launch_process_response response = {};
    struct cay_v1_launch_process_request request = {
        .session_id = cay_str(id),
        .spec = &spec,
        .wait = &patience,
        .max_output_bytes = CAY_SELFTEST_OUTPUT_BYTES,
    };
    if (!cay_selftest_call(self, CAY_V1_PROCESS_SERVICE_LAUNCH_PROCESS, &request, &response, err))
        return false;
    cay_auto(cay_buf_finish) struct cay_buf said;
    cay_buf_init(&said, CAY_SELFTEST_OUTPUT_BYTES);
    for (size_t i = 0; i < response.output.count; i++)
        if (response.output.items[i].stream != CAY_V1_OUTPUT_STREAM_STDERR)
            cay_buf_append_str(&said, response.output.items[i].data);
    const struct cay_v1_exec_result *result = response.process ? response.process->result : NULL;
    *out = (struct cay_selftest_ran){
        .output = cay_arena_str(&self->arena, cay_buf_str(&said)),
        .exit_code = result && result->has_exit_code ? result->exit_code : -1,
        .cause = result ? (int)result->cause : 0,
    };
    return true;
}

struct listener {
    struct cay_selftest *self;
    struct cay_buf said;
    bool has_line;
};

/* Ends the call with the first line; the process goes on. */
static bool on_frame(void *state, const void *message, struct cay_error *err)
{
    struct listener *listener = state;
    const struct cay_v1_attach_process_response *response = message;
    if (response->which_frame == CAY_V1_ATTACH_PROCESS_RESPONSE_FRAME_OUTPUT)
        cay_buf_append_str(&listener->said, response->frame.output->data);
    const char *end =
        listener->said.len ? memchr(listener->said.data, '\n', listener->said.len) : NULL;
    if (!end)
        return true;
    listener->has_line = true;
    listener->self->neighbour_prizes =
        cay_arena_copy(&listener->self->arena,
                       (struct cay_str){listener->said.data, (size_t)(end - listener->said.data)});
    return cay_fail(err, CAY_R_CANCELED, "it was heard");
}

bool cay_selftest_hold(struct cay_selftest *self, const char *id, struct cay_error *err)
{
    char token[CAY_SELFTEST_TOKEN_BYTES];
    /* Another token than the host's. */
    snprintf(token, sizeof(token), "n%.31s", self->token);
    const char *const words[] = {"/bin/cay-probe", "hold", "/tmp", token, NULL};
    struct cay_v1_process_spec spec = {
        .argv = strings(self, words), .user = CAY_STR("root"), .stdin_open = true};
    struct cay_v1_attach_process_request request = {
        .session_id = cay_str(id),
        .which_target = CAY_V1_ATTACH_PROCESS_REQUEST_TARGET_LAUNCH,
        .target.launch = &spec,
    };
    struct listener listener = {.self = self};
    cay_buf_init(&listener.said, CAY_SELFTEST_OUTPUT_BYTES);
    bool is_done =
        cay_client_call_stream(self->client, &cay_v1_methods[CAY_V1_PROCESS_SERVICE_ATTACH_PROCESS],
                               &request, on_frame, &listener, err);
    cay_buf_finish(&listener.said);
    if (listener.has_line) {
        *err = (struct cay_error){};
        return true;
    }
    return is_done ? cay_fail(err, CAY_R_INTERNAL, "the holder in '%s' says nothing", id) : false;
}
