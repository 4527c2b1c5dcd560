/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The tools: one constant table of what there is, and running those that work on files (tier 1).
 * Tools of tier 2 have no run function: the host sends them into the sandbox.
 *
 * cay_tool_run blocks and belongs on a worker. It gets values only and keeps nothing.
 */

#include "api/cay_v1.h"
#include "base/arena.h"
#include "base/error.h"
#include "tool/tree/tree.h"

enum {
    CAY_TOOL_FILE_BYTES_MAX = 10 * 1024 * 1024, /* read_file and edit_file take no larger file */
    CAY_TOOL_TEXT_BYTES_DEFAULT = 256 * 1024,
    CAY_TOOL_TEXT_BYTES_MAX = 8 * 1024 * 1024,
    CAY_TOOL_IMAGE_BYTES_MAX = 8 * 1024 * 1024,
};

struct cay_tool_command;
struct cay_tool_run;

struct cay_tool {
    const char *name;
    const char *const *aliases; /* NULL at the end; may be NULL */
    enum cay_v1_tool_tier tier;
    const char *description;
    const char *schema; /* JSON Schema of the parameters, as text */
    bool read_only;
    bool streaming;
    bool is_search; /* may keep a processor busy for long */
    uint32_t timeout_ms;
    bool (*run)(struct cay_tool_run *run); /* tool/run.h; NULL for tier 2 */
    /* tool/command.h; for tier 2 */
    bool (*command)(struct cay_tool_run *run, struct cay_tool_command *out_command);
    void (*facts)(struct cay_tool_run *run, struct cay_str output); /* of a command; may be NULL */
};

/* By name or alias; NULL when there is none. */
const struct cay_tool *cay_tool_find(struct cay_str name);

/* The tool that was probably meant; NULL when none is near. */
const char *cay_tool_nearest(struct cay_str name);

/* Whether a call may keep a processor busy for long: a search, or a look at a whole tree. */
bool cay_tool_is_search(const struct cay_tool *tool, const struct google_protobuf_struct *params);

/* By name. */
size_t cay_tool_count(void);
const struct cay_tool *cay_tool_at(size_t index);

/* How long a call that does not say may take, where the host gives commands `command_ms`; 0: it
 * leaves it to the tool. */
[[nodiscard]] int64_t cay_tool_timeout_ms(const struct cay_tool *tool, int64_t command_ms);

/* Fills the message that ListTools sends. */
[[nodiscard]] bool cay_tool_describe(const struct cay_tool *tool, int64_t command_ms,
                                     struct cay_arena *arena, struct cay_v1_tool *out_tool,
                                     struct cay_error *err);

/* The schema as a message; NULL when there is no memory. Made when it is first asked for, by one
 * of those who ask; constant from then on, and kept for ever. */
const struct google_protobuf_struct *cay_tool_schema(const struct cay_tool *tool);

/* INVALID_ARGUMENT with the field and what is allowed. `params` may be NULL. A null counts as not
 * given. */
[[nodiscard]] bool cay_tool_check_params(const struct cay_tool *tool,
                                         const struct google_protobuf_struct *params,
                                         struct cay_error *err);

/* Checks the parameters and runs a tool of tier 1. A tool that fails at its task (no such file, no
 * match for an edit) is true, with is_error and error_reason in the result; false means that the
 * call could not be made. timeout_ms can shorten the tool's own; 0: that one. result_bytes_max
 * bounds the text; 0: 256 KiB. All of the result is in the arena. */
[[nodiscard]] bool cay_tool_run(const struct cay_tool *tool, const struct cay_tool_tree *tree,
                                const struct google_protobuf_struct *params, int64_t timeout_ms,
                                int64_t result_bytes_max, struct cay_arena *arena,
                                struct cay_v1_tool_result *out_result, struct cay_error *err);
