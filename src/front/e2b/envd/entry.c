/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/envd/entry.h"

#include <stdio.h>
#include <sys/stat.h>

#include "api/noun.h"
#include "base/clock.h"

/* Where commands run that say nothing of it: where the template says, else at home. */
static struct cay_str default_cwd(const struct cay_rest_request *request)
{
    struct cay_str cwd = cay_e2b_visit(request)->session->default_cwd;
    return cwd.len && !cay_str_is(cwd, "/workspace") ? cwd : CAY_STR("~");
}

struct cay_str cay_e2b_path(struct cay_rest_request *request, struct cay_str path)
{
    if (!path.len)
        return default_cwd(request);
    bool is_home = path.ptr[0] == '~' && (path.len == 1 || path.ptr[1] == '/');
    if (path.ptr[0] == '/' || is_home)
        return path;
    /* Whatever bytes it has: the hallway judges them. */
    char *below = cay_arena_alloc(&request->arena, path.len + 2);
    if (!below)
        return (struct cay_str){};
    memcpy(below, "~/", 2);
    memcpy(below + 2, path.ptr, path.len);
    return (struct cay_str){below, path.len + 2};
}

static const char *type_name(enum cay_v1_file_type type)
{
    if (type == CAY_V1_FILE_TYPE_FILE)
        return "FILE_TYPE_FILE";
    return type == CAY_V1_FILE_TYPE_DIRECTORY ? "FILE_TYPE_DIRECTORY" : "FILE_TYPE_UNSPECIFIED";
}

/* `-rw-r--r--`, `dtrwxrwxrwx`: letters for all that it is, then what may be done. */
static void write_permissions(struct cay_json_writer *json, const struct cay_v1_file_info *info)
{
    static const char kinds[] = {
        [CAY_V1_FILE_TYPE_DIRECTORY] = 'd',    [CAY_V1_FILE_TYPE_SYMLINK] = 'L',
        [CAY_V1_FILE_TYPE_FIFO] = 'p',         [CAY_V1_FILE_TYPE_SOCKET] = 'S',
        [CAY_V1_FILE_TYPE_BLOCK_DEVICE] = 'D', [CAY_V1_FILE_TYPE_CHAR_DEVICE] = 'D'};
    char text[16];
    size_t len = 0;
    if ((size_t)info->type < CAY_COUNT(kinds) && kinds[info->type])
        text[len++] = kinds[info->type];
    if (info->mode & S_ISUID)
        text[len++] = 'u';
    if (info->mode & S_ISGID)
        text[len++] = 'g';
    if (info->type == CAY_V1_FILE_TYPE_CHAR_DEVICE)
        text[len++] = 'c';
    if (info->mode & S_ISVTX)
        text[len++] = 't';
    if (!len)
        text[len++] = '-';
    for (int bit = 8; bit >= 0; bit--)
        text[len++] = (char)(info->mode >> bit & 1 ? "xwr"[bit % 3] : '-');
    cay_json_string(json, (struct cay_str){text, len});
}

void cay_e2b_write_metadata(struct cay_json_writer *json, const struct cay_v1_file_info *info)
{
    if (!info->metadata.count)
        return;
    cay_json_key(json, "metadata");
    cay_json_object_begin(json);
    for (size_t i = 0; i < info->metadata.count; i++) {
        cay_json_key_str(json, info->metadata.items[i].key);
        cay_json_string(json, info->metadata.items[i].value);
    }
    cay_json_object_end(json);
}

static void write_text(struct cay_json_writer *json, const char *key, struct cay_str text)
{
    cay_json_key(json, key);
    cay_json_string(json, text);
}

static void write_time(struct cay_json_writer *json, const struct google_protobuf_timestamp *time)
{
    char text[CAY_TIME_BYTES];
    if (!time)
        return;
    cay_time_format(cay_noun_time_ns(time), 9, text);
    cay_json_key(json, "modifiedTime");
    cay_json_text(json, text);
}

void cay_e2b_write_entry(struct cay_json_writer *json, const struct cay_v1_file_info *info)
{
    bool is_link = info->type == CAY_V1_FILE_TYPE_SYMLINK;
    char size[24];
    snprintf(size, sizeof(size), "%lld", (long long)info->size);
    cay_json_object_begin(json);
    write_text(json, "name", info->name);
    cay_json_key(json, "type");
    cay_json_text(json, type_name(is_link ? info->target_type : info->type));
    write_text(json, "path", info->path);
    cay_json_key(json, "size");
    cay_json_text(json, size);
    cay_json_key(json, "mode");
    cay_json_u64(json, (is_link ? info->target_mode : info->mode) & 0777);
    cay_json_key(json, "permissions");
    write_permissions(json, info);
    write_text(json, "owner", info->owner);
    write_text(json, "group", info->group);
    write_time(json, info->modified_at);
    if (is_link && info->resolved_path.len)
        write_text(json, "symlinkTarget", info->resolved_path);
    cay_e2b_write_metadata(json, info);
    cay_json_object_end(json);
}
