/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/run.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/utf8.h"

static const struct google_protobuf_value *find(const struct cay_tool_run *run, const char *name)
{
    for (size_t i = 0; run->params && i < run->params->fields.count; i++) {
        const struct google_protobuf_struct_fields_entry *field = &run->params->fields.items[i];
        if (cay_str_is(field->key, name) && field->value->which_kind &&
            field->value->which_kind != GOOGLE_PROTOBUF_VALUE_KIND_NULL_VALUE)
            return field->value;
    }
    return NULL;
}

struct cay_str cay_run_text(const struct cay_tool_run *run, const char *name,
                            struct cay_str otherwise)
{
    const struct google_protobuf_value *value = find(run, name);
    return value ? value->kind.string_value : otherwise;
}

int64_t cay_run_number(const struct cay_tool_run *run, const char *name, int64_t otherwise)
{
    const struct google_protobuf_value *value = find(run, name);
    return value ? (int64_t)value->kind.number_value : otherwise;
}

bool cay_run_flag(const struct cay_tool_run *run, const char *name, bool otherwise)
{
    const struct google_protobuf_value *value = find(run, name);
    return value ? value->kind.bool_value : otherwise;
}

const struct google_protobuf_list_value *cay_run_list(const struct cay_tool_run *run,
                                                      const char *name)
{
    const struct google_protobuf_value *value = find(run, name);
    return value && value->which_kind == GOOGLE_PROTOBUF_VALUE_KIND_LIST_VALUE
               ? value->kind.list_value
               : NULL;
}

bool cay_run_path(struct cay_tool_run *run, const char *name, struct cay_str otherwise,
                  struct cay_path *out_path, bool *out_over)
{
    if (cay_path_resolve(run->tree, cay_run_text(run, name, otherwise), out_path, run->err))
        return true;
    *out_over = cay_run_fail_error(run);
    return false;
}

static void *no_room(struct cay_tool_run *run)
{
    run->is_full = true;
    return NULL;
}

/* NULL when the arena is full. */
static struct google_protobuf_value *add_fact(struct cay_tool_run *run, const char *name)
{
    struct google_protobuf_struct *data = run->out->data;
    if (!data) {
        data = cay_arena_new(run->arena, struct google_protobuf_struct);
        struct google_protobuf_struct_fields_entry *fields =
            cay_arena_array(run->arena, CAY_RUN_FACTS_MAX, sizeof(*fields));
        if (!data || !fields)
            return no_room(run);
        data->fields.items = fields;
        run->out->data = data;
    }
    assert(data->fields.count < CAY_RUN_FACTS_MAX);
    struct google_protobuf_value *value = cay_arena_new(run->arena, struct google_protobuf_value);
    if (!value)
        return no_room(run);
    data->fields.items[data->fields.count++] =
        (struct google_protobuf_struct_fields_entry){.key = cay_str(name), .value = value};
    return value;
}

void cay_run_fact_number(struct cay_tool_run *run, const char *name, int64_t number)
{
    struct google_protobuf_value *value = add_fact(run, name);
    if (!value)
        return;
    value->which_kind = GOOGLE_PROTOBUF_VALUE_KIND_NUMBER_VALUE;
    value->kind.number_value = (double)number;
}

void cay_run_fact_flag(struct cay_tool_run *run, const char *name, bool flag)
{
    struct google_protobuf_value *value = add_fact(run, name);
    if (!value)
        return;
    value->which_kind = GOOGLE_PROTOBUF_VALUE_KIND_BOOL_VALUE;
    value->kind.bool_value = flag;
}

void cay_run_fact_text(struct cay_tool_run *run, const char *name, const char *text)
{
    struct google_protobuf_value *value = add_fact(run, name);
    if (!value)
        return;
    value->which_kind = GOOGLE_PROTOBUF_VALUE_KIND_STRING_VALUE;
    value->kind.string_value = cay_str(text);
}

struct cay_v1_truncation *cay_run_truncated(struct cay_tool_run *run)
{
    if (!run->out->truncation)
        run->out->truncation = cay_arena_new(run->arena, struct cay_v1_truncation);
    run->is_full = run->is_full || !run->out->truncation;
    return run->out->truncation ? run->out->truncation : &run->spare;
}

static bool arena_full(const struct cay_tool_run *run)
{
    return cay_fail(run->err, CAY_R_RESOURCE_EXHAUSTED,
                    "the result is larger than this host allows");
}

static bool set_text(struct cay_tool_run *run, struct cay_str text)
{
    bool valid = cay_utf8_valid(text);
    size_t len = valid ? text.len : cay_utf8_repaired_len(text);
    char *copy = cay_arena_alloc(run->arena, len + 1);
    struct cay_v1_content_block *block = cay_arena_new(run->arena, struct cay_v1_content_block);
    if (!copy || !block || run->is_full)
        return arena_full(run);
    if (valid && len)
        memcpy(copy, text.ptr, len);
    else
        cay_utf8_repair(text, copy);
    block->which_block = CAY_V1_CONTENT_BLOCK_BLOCK_TEXT;
    block->block.text = (struct cay_str){copy, len};
    run->out->content.items = block;
    run->out->content.count = 1;
    return true;
}

bool cay_run_done(struct cay_tool_run *run, const struct cay_buf *text)
{
    return text->failed || run->is_full ? arena_full(run) : set_text(run, cay_buf_str(text));
}

bool cay_run_done_image(struct cay_tool_run *run, const char *type, struct cay_str data)
{
    struct cay_v1_content_block *block = cay_arena_new(run->arena, struct cay_v1_content_block);
    struct cay_v1_image_content *image = cay_arena_new(run->arena, struct cay_v1_image_content);
    char *copy = cay_arena_alloc(run->arena, data.len + 1);
    if (!block || !image || !copy || run->is_full)
        return arena_full(run);
    memcpy(copy, data.ptr, data.len);
    *image = (struct cay_v1_image_content){.mime_type = cay_str(type), .data = {copy, data.len}};
    block->which_block = CAY_V1_CONTENT_BLOCK_BLOCK_IMAGE;
    block->block.image = image;
    run->out->content.items = block;
    run->out->content.count = 1;
    return true;
}

bool cay_run_fail_memory(struct cay_tool_run *run)
{
    return cay_fail(run->err, CAY_R_RESOURCE_EXHAUSTED, "out of memory");
}

bool cay_run_fail_text(struct cay_tool_run *run, const char *reason, const struct cay_buf *text)
{
    run->out->is_error = true;
    run->out->error_reason = cay_str(reason);
    return cay_run_done(run, text);
}

bool cay_run_fail(struct cay_tool_run *run, const char *reason, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    run->out->is_error = true;
    run->out->error_reason = cay_str(reason);
    return set_text(run, cay_str(text));
}

bool cay_run_fail_error(struct cay_tool_run *run)
{
    static const enum cay_reason about_files[] = {
        CAY_R_FILE_NOT_FOUND,      CAY_R_FILE_EXISTS,
        CAY_R_NOT_A_DIRECTORY,     CAY_R_IS_A_DIRECTORY,
        CAY_R_NOT_A_REGULAR_FILE,  CAY_R_ACCESS_DENIED,
        CAY_R_INVALID_PATH,        CAY_R_NO_SPACE,
        CAY_R_QUOTA_EXCEEDED,      CAY_R_NOT_SUPPORTED,
        CAY_R_FAILED_PRECONDITION,
    };
    for (size_t i = 0; i < CAY_COUNT(about_files); i++)
        if (run->err->reason == about_files[i])
            return cay_run_fail(run, cay_reason_info(run->err->reason)->name, "%s", run->err->text);
    return false;
}

bool cay_run_fail_errno(struct cay_tool_run *run, int neg_errno, const struct cay_path *path)
{
    cay_tree_fail(run->err, neg_errno, (struct cay_str){path->bytes, path->len});
    return cay_run_fail_error(run);
}

/* As much as the file said it has; up to its end where it said nothing (or changed meanwhile).
 * -EFBIG above the limit. */
static int read_whole(int fd, size_t size_hint, struct cay_buf *content)
{
    cay_buf_init(content, CAY_TOOL_FILE_BYTES_MAX + 1);
    size_t want = CAY_MIN(size_hint, (size_t)CAY_TOOL_FILE_BYTES_MAX) + 1;
    for (;;) {
        char *room = cay_buf_reserve(content, want);
        if (!room)
            return -ENOMEM;
        ssize_t got = read(fd, room, want);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : 0;
        cay_buf_grew(content, (size_t)got);
        if (content->len > CAY_TOOL_FILE_BYTES_MAX)
            return -EFBIG;
        if (content->len == size_hint)
            return 0;
        want = CAY_MIN((size_t)64 * 1024, CAY_TOOL_FILE_BYTES_MAX + 1 - content->len);
    }
}

bool cay_run_read(struct cay_tool_run *run, const struct cay_path *path,
                  struct cay_buf *out_content, struct stat *out_stat, bool *out_over)
{
    cay_autoclose int fd = cay_tree_open_file(run->tree, path->bytes, O_RDONLY, out_stat);
    int failed = fd;
    if (fd >= 0 && out_stat->st_size > CAY_TOOL_FILE_BYTES_MAX)
        failed = -EFBIG;
    else if (fd >= 0)
        failed = read_whole(fd, (size_t)out_stat->st_size, out_content);
    if (failed >= 0)
        return true;
    char shown[256];
    cay_path_excerpt((struct cay_str){path->bytes, path->len}, shown, sizeof(shown));
    *out_over = failed == -EFBIG
                    ? cay_run_fail(run, "file_too_large",
                                   "'%s' is larger than %d MiB; look into it with grep, or with "
                                   "head, tail or sed in bash",
                                   shown, CAY_TOOL_FILE_BYTES_MAX >> 20)
                    : cay_run_fail_errno(run, failed, path);
    return false;
}
