/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a tool's run function works with. The parameters have been checked against the schema, the
 * thread has the user's identity. A run function ends with one of cay_run_done, cay_run_fail* and
 * returns what that returned.
 */

#include "base/buf.h"
#include "tool/tool.h"
#include "tool/tree/path.h"

enum { CAY_RUN_FACTS_MAX = 12 };

struct cay_tool_run {
    const struct cay_tool *tool;
    const struct cay_tool_tree *tree;
    const struct google_protobuf_struct *params;
    size_t text_bytes_max;
    int64_t deadline_ms; /* on the monotonic clock */
    int64_t timeout_ms;  /* of a command that names none */
    struct cay_arena *arena;
    struct cay_v1_tool_result *out;
    struct cay_error *err;
    bool is_full; /* a fact is missing: the arena had no room; the end of the run says so */
    struct cay_v1_truncation spare; /* written to then */
};

/* Parameters; what is not given has the value `otherwise`. */
struct cay_str cay_run_text(const struct cay_tool_run *run, const char *name,
                            struct cay_str otherwise);
int64_t cay_run_number(const struct cay_tool_run *run, const char *name, int64_t otherwise);
bool cay_run_flag(const struct cay_tool_run *run, const char *name, bool otherwise);
/* NULL when it is not given, or no list. */
const struct google_protobuf_list_value *cay_run_list(const struct cay_tool_run *run,
                                                      const char *name);

/* The parameter `name` as a path; false when the run is over (*out_over: what to return). */
[[nodiscard]] bool cay_run_path(struct cay_tool_run *run, const char *name,
                                struct cay_str otherwise, struct cay_path *out_path,
                                bool *out_over);

/* Facts for programs. */
void cay_run_fact_number(struct cay_tool_run *run, const char *name, int64_t value);
void cay_run_fact_flag(struct cay_tool_run *run, const char *name, bool value);

/* `text` stays. */
void cay_run_fact_text(struct cay_tool_run *run, const char *name, const char *text);

/* Something was left out; the caller fills it. Never NULL. */
struct cay_v1_truncation *cay_run_truncated(struct cay_tool_run *run);

/* The end: there is no memory for it. */
[[nodiscard]] bool cay_run_fail_memory(struct cay_tool_run *run);

/* The end: text as result. A buffer that is `failed` is an error of the call. */
[[nodiscard]] bool cay_run_done(struct cay_tool_run *run, const struct cay_buf *text);

/* The end: an image as result. `type` stays. */
[[nodiscard]] bool cay_run_done_image(struct cay_tool_run *run, const char *type,
                                      struct cay_str data);

/* The end: the tool failed at its task, with a reason of its own ... */
[[nodiscard]] CAY_PRINTF(3, 4) bool cay_run_fail(struct cay_tool_run *run, const char *reason,
                                                 const char *fmt, ...);
[[nodiscard]] bool cay_run_fail_text(struct cay_tool_run *run, const char *reason,
                                     const struct cay_buf *text);
/* ... or because of a file ... */
[[nodiscard]] bool cay_run_fail_errno(struct cay_tool_run *run, int neg_errno,
                                      const struct cay_path *path);
/* ... or as run->err says: what a client can do nothing about stays an error of the call. */
[[nodiscard]] bool cay_run_fail_error(struct cay_tool_run *run);

/* Reads a regular file of at most CAY_TOOL_FILE_BYTES_MAX; false when the run is over. `out_stat`
 * is what it was when it was opened. */
[[nodiscard]] bool cay_run_read(struct cay_tool_run *run, const struct cay_path *path,
                                struct cay_buf *out_content, struct stat *out_stat, bool *out_over);

/* The tools. */
bool cay_tool_read_file(struct cay_tool_run *run);
bool cay_tool_write_file(struct cay_tool_run *run);
bool cay_tool_edit_file(struct cay_tool_run *run);
bool cay_tool_list_dir(struct cay_tool_run *run);
bool cay_tool_grep(struct cay_tool_run *run);
bool cay_tool_glob(struct cay_tool_run *run);
