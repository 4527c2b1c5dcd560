/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/run.h"
#include "tool/tree/write.h"

bool cay_tool_write_file(struct cay_tool_run *run)
{
    struct cay_path path;
    bool over = false;
    if (!cay_run_path(run, "path", (struct cay_str){}, &path, &over))
        return over;
    struct cay_str content = cay_run_text(run, "content", (struct cay_str){});
    struct cay_write_options options = {
        .create_parents = cay_run_flag(run, "create_dirs", true),
        .size = (int64_t)content.len,
    };
    struct cay_write write;
    if (!cay_write_open(run->tree, &path, &options, &write, run->err))
        return cay_run_fail_error(run);
    if (!cay_write_data(&write, content, run->err)) {
        cay_write_abort(&write);
        return cay_run_fail_error(run);
    }
    if (!cay_write_commit(&write, run->err))
        return cay_run_fail_error(run);
    cay_run_fact_number(run, "bytes_written", (int64_t)content.len);
    cay_run_fact_flag(run, "created", write.created);
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, CAY_TOOL_TEXT_BYTES_MAX);
    cay_buf_printf(&text, "wrote %zu bytes to ", content.len);
    cay_path_append_shown(&text, (struct cay_str){path.bytes, path.len});
    cay_buf_append_byte(&text, '\n');
    return cay_run_done(run, &text);
}
