/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/env/result.h"

#include <stdlib.h>

#include "api/noun.h"
#include "base/clock.h"

enum {
    WORDS_BYTES_MAX = 64 * 1024,
    TEXT_BYTES_MAX = 32 * 1024 * 1024,
    JSON_BYTES_MAX = 128 * 1024 * 1024, /* a byte of a result has up to six in JSON */
    DIFF_BYTES_MAX = 256 * 1024 * 1024, /* of paths; of entries; of patches */
};

/* A NUL behind what is there, which does not count. */
static bool end_text(struct cay_buf *buf)
{
    cay_buf_append_byte(buf, '\0');
    if (buf->failed)
        return false;
    buf->len--;
    return true;
}

/* --- a tool's result --- */

struct response {
    struct cay_tool_response public;
    struct cay_buf text;
    struct cay_buf json;
    struct cay_arena words;
};

void cay_tool_response_free(struct cay_tool_response *public)
{
    if (!public)
        return;
    struct response *self = CAY_CONTAINER_OF(public, struct response, public);
    cay_buf_finish(&self->text);
    cay_buf_finish(&self->json);
    cay_arena_finish(&self->words);
    free(self);
}

static bool fill_text(struct response *self, const struct cay_v1_tool_result *result)
{
    for (size_t i = 0; i < result->content.count; i++) {
        const struct cay_v1_content_block *block = &result->content.items[i];
        if (block->which_block == CAY_V1_CONTENT_BLOCK_BLOCK_TEXT)
            cay_buf_append_str(&self->text, block->block.text);
    }
    return end_text(&self->text);
}

static bool fill_json(struct response *self, const struct cay_v1_tool_result *result)
{
    return cay_pb_json_write(&cay_v1_tool_result_desc, result, NULL, &self->json) == 0 &&
           end_text(&self->json);
}

static bool fill_words(struct response *self, const struct cay_v1_tool_result *result)
{
    struct cay_tool_response *public = &self->public;
    public->reason = cay_arena_copy(&self->words, result->error_reason);
    public->process_id = cay_arena_copy(&self->words, result->process_id);
    return public->reason && public->process_id;
}

bool cay_result_response(const struct cay_v1_tool_result *result,
                         struct cay_tool_response **out_response, struct cay_error *err)
{
    struct response *self = calloc(1, sizeof(*self));
    if (!self)
        return cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
    cay_buf_init(&self->text, TEXT_BYTES_MAX);
    cay_buf_init(&self->json, JSON_BYTES_MAX);
    cay_arena_init(&self->words, WORDS_BYTES_MAX);
    if (!fill_text(self, result) || !fill_json(self, result) || !fill_words(self, result)) {
        cay_tool_response_free(&self->public);
        return cay_fail(err, CAY_R_OUT_OF_MEMORY, "there is not enough memory for the result");
    }
    struct cay_tool_response *public = &self->public;
    public->is_error = result->is_error;
    public->text = self->text.data;
    public->text_len = self->text.len;
    public->has_exit_code = result->exec && result->exec->has_exit_code;
    public->exit_code = public->has_exit_code ? result->exec->exit_code : 0;
    public->is_cached = result->cached;
    public->json = self->json.data;
    public->json_len = self->json.len;
    if (result->duration)
    public->duration_us =
        cay_noun_duration_ms(result->duration) * 1000 + result->duration->nanos / 1000 % 1000;
    *out_response = public;
    return true;
}

/* --- a snapshot --- */

struct snapshot {
    struct cay_env_snapshot public;
    char name[]; /* also its id: names are unique in a session */
};

void cay_env_snapshot_free(struct cay_env_snapshot *public)
{
    if (public)
        free(CAY_CONTAINER_OF(public, struct snapshot, public));
}

bool cay_result_snapshot(const struct cay_v1_snapshot *snapshot,
                         struct cay_env_snapshot **out_snapshot, struct cay_error *err)
{
    if (!snapshot || !snapshot->name.len)
        return cay_fail(err, CAY_R_INTERNAL, "the daemon did not say which snapshot it took");
    struct snapshot *self = calloc(1, sizeof(*self) + snapshot->name.len + 1);
    if (!self)
        return cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
    memcpy(self->name, snapshot->name.ptr, snapshot->name.len);
    self->public.id = self->name;
    self->public.name = self->name;
    if (snapshot->created_at)
        self->public.created_ms = cay_noun_time_ns(snapshot->created_at) / CAY_NS_PER_MS;
    self->public.space_used_bytes = snapshot->size_bytes;
    *out_snapshot = &self->public;
    return true;
}

/* --- a diff --- */

struct cay_result_diff {
    struct cay_env_diff public;
    struct cay_buf changes; /* pointers to what is in the arena */
    struct cay_buf patch;
    struct cay_arena arena;
};

void cay_result_diff_destroy(struct cay_result_diff *diff)
{
    if (!diff)
        return;
    cay_buf_finish(&diff->changes);
    cay_buf_finish(&diff->patch);
    cay_arena_finish(&diff->arena);
    free(diff);
}

void cay_env_diff_free(struct cay_env_diff *public)
{
    if (public)
        cay_result_diff_destroy(CAY_CONTAINER_OF(public, struct cay_result_diff, public));
}

bool cay_result_diff_create(struct cay_result_diff **out_diff, struct cay_error *err)
{
    struct cay_result_diff *diff = calloc(1, sizeof(*diff));
    if (!diff)
        return cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
    cay_buf_init(&diff->changes, DIFF_BYTES_MAX);
    cay_buf_init(&diff->patch, DIFF_BYTES_MAX);
    cay_arena_init(&diff->arena, DIFF_BYTES_MAX);
    *out_diff = diff;
    return true;
}

static enum cay_env_change_kind kind_of(const struct cay_v1_diff_entry *entry)
{
    if (entry->kind == CAY_V1_DIFF_KIND_ADDED)
        return entry->old_path.len ? CAY_ENV_RENAMED : CAY_ENV_ADDED;
    return entry->kind == CAY_V1_DIFF_KIND_DELETED ? CAY_ENV_DELETED : CAY_ENV_MODIFIED;
}

static bool fail_memory(struct cay_error *err)
{
    return cay_fail(err, CAY_R_OUT_OF_MEMORY, "there is not enough memory for all the changes");
}

bool cay_result_diff_add(struct cay_result_diff *diff, const struct cay_v1_diff_entry *entry,
                         struct cay_error *err)
{
    struct cay_env_change *change = cay_arena_new(&diff->arena, struct cay_env_change);
    if (!change)
        return fail_memory(err);
    *change = (struct cay_env_change){
        .kind = kind_of(entry),
        .path = cay_arena_copy(&diff->arena, entry->path),
        .old_path = cay_arena_copy(&diff->arena, entry->old_path),
        .is_binary = entry->binary,
        .is_patch_cut = entry->patch_truncated,
    };
    cay_buf_append(&diff->changes, &change, sizeof(struct cay_env_change *));
    cay_buf_append_str(&diff->patch, entry->patch);
    return (change->path && change->old_path && !diff->changes.failed && !diff->patch.failed) ||
           fail_memory(err);
}

bool cay_result_diff_give(struct cay_result_diff *diff, struct cay_env_diff **out_diff,
                          struct cay_error *err)
{
    if (!end_text(&diff->patch))
        return cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
    diff->public.changes = (const struct cay_env_change *const *)(const void *)diff->changes.data;
    diff->public.change_count = diff->changes.len / sizeof(*diff->public.changes);
    diff->public.patch = diff->patch.data;
    diff->public.patch_len = diff->patch.len;
    *out_diff = &diff->public;
    return true;
}
