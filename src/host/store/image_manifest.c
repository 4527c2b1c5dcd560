/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/image_manifest.h"

#include <errno.h>

#include "base/json.h"

/* Each reader is called behind a key and reads its value to the end. */
typedef bool read_member(struct cay_json_reader *json, struct cay_str key, void *out);

static bool pass_over(struct cay_json_reader *json)
{
    return cay_json_skip(json) == 0;
}

/* The members of the object whose first token was just read. */
static bool read_members(struct cay_json_reader *json, read_member *read, void *out)
{
    if (json->token != CAY_JSON_OBJECT_BEGIN)
        return false;
    while (cay_json_next(json) == CAY_JSON_KEY) {
        if (!read(json, json->text, out))
            return false;
    }
    return json->token == CAY_JSON_OBJECT_END;
}

/* An object that may also be null. */
static bool read_object(struct cay_json_reader *json, read_member *read, void *out)
{
    return cay_json_next(json) == CAY_JSON_NULL || read_members(json, read, out);
}

static bool read_text(struct cay_json_reader *json, struct cay_str *out)
{
    enum cay_json_token token = cay_json_next(json);
    if (token == CAY_JSON_STRING)
        *out = json->text;
    /* Names and digests are handed to functions that take C strings. */
    return token == CAY_JSON_NULL ||
           (token == CAY_JSON_STRING && !memchr(out->ptr, '\0', out->len));
}

static bool read_number(struct cay_json_reader *json, int64_t *out)
{
    return cay_json_next(json) == CAY_JSON_NUMBER && cay_json_to_i64(json->text, out) == 0 &&
           *out >= 0;
}

/* Room for one more; lists are short, so that doubling in an arena wastes little. */
static void *grow(struct cay_json_reader *json, void *items, size_t count, size_t size)
{
    if (count >= CAY_IMAGE_LIST_MAX)
        return NULL;
    if (count && (count & (count - 1)))
        return items; /* doubled at the powers of two */
    void *grown = cay_arena_array(json->arena, count ? count * 2 : 1, size);
    if (grown && count)
        memcpy(grown, items, count * size);
    return grown;
}

static bool read_list(struct cay_json_reader *json, struct cay_image_list *out)
{
    enum cay_json_token token = cay_json_next(json);
    if (token == CAY_JSON_NULL)
        return true;
    if (token != CAY_JSON_ARRAY_BEGIN)
        return false;
    while ((token = cay_json_next(json)) == CAY_JSON_STRING) {
        out->items = grow(json, out->items, out->count, sizeof(*out->items));
        if (!out->items || memchr(json->text.ptr, '\0', json->text.len))
            return false;
        out->items[out->count++] = json->text;
    }
    return token == CAY_JSON_ARRAY_END;
}

static bool read_platform(struct cay_json_reader *json, struct cay_str key, void *out)
{
    struct cay_image_descriptor *descriptor = out;
    descriptor->has_platform = true;
    if (cay_str_is(key, "os"))
        return read_text(json, &descriptor->os);
    if (cay_str_is(key, "architecture"))
        return read_text(json, &descriptor->architecture);
    if (cay_str_is(key, "variant"))
        return read_text(json, &descriptor->variant);
    return pass_over(json);
}

static bool read_descriptor(struct cay_json_reader *json, struct cay_str key, void *out)
{
    struct cay_image_descriptor *descriptor = out;
    if (cay_str_is(key, "mediaType"))
        return read_text(json, &descriptor->media_type);
    if (cay_str_is(key, "digest"))
        return read_text(json, &descriptor->digest);
    if (cay_str_is(key, "size"))
        return read_number(json, &descriptor->size);
    if (cay_str_is(key, "platform"))
        return read_object(json, read_platform, descriptor);
    return pass_over(json);
}

static bool read_descriptors(struct cay_json_reader *json, struct cay_image_descriptor **items,
                             size_t *count)
{
    enum cay_json_token token = cay_json_next(json);
    if (token == CAY_JSON_NULL)
        return true;
    if (token != CAY_JSON_ARRAY_BEGIN)
        return false;
    while ((token = cay_json_next(json)) == CAY_JSON_OBJECT_BEGIN) {
        *items = grow(json, *items, *count, sizeof(**items));
        if (!*items)
            return false;
        struct cay_image_descriptor *descriptor = &(*items)[(*count)++];
        *descriptor = (struct cay_image_descriptor){.size = -1};
        if (!read_members(json, read_descriptor, descriptor))
            return false;
    }
    return token == CAY_JSON_ARRAY_END;
}

static bool read_manifest(struct cay_json_reader *json, struct cay_str key, void *out)
{
    struct cay_image_manifest *manifest = out;
    if (cay_str_is(key, "manifests"))
        return read_descriptors(json, &manifest->manifests, &manifest->manifest_count);
    if (cay_str_is(key, "layers"))
        return read_descriptors(json, &manifest->layers, &manifest->layer_count);
    if (cay_str_is(key, "config"))
        return read_object(json, read_descriptor, &manifest->config);
    return pass_over(json);
}

static bool read_settings(struct cay_json_reader *json, struct cay_str key, void *out)
{
    struct cay_image_config *config = out;
    if (cay_str_is(key, "Env"))
        return read_list(json, &config->env);
    if (cay_str_is(key, "User"))
        return read_text(json, &config->user);
    if (cay_str_is(key, "WorkingDir"))
        return read_text(json, &config->cwd);
    return pass_over(json);
}

static bool read_rootfs(struct cay_json_reader *json, struct cay_str key, void *out)
{
    struct cay_image_config *config = out;
    return cay_str_is(key, "diff_ids") ? read_list(json, &config->diff_ids) : pass_over(json);
}

static bool read_config(struct cay_json_reader *json, struct cay_str key, void *out)
{
    struct cay_image_config *config = out;
    if (cay_str_is(key, "os"))
        return read_text(json, &config->os);
    if (cay_str_is(key, "architecture"))
        return read_text(json, &config->architecture);
    if (cay_str_is(key, "config"))
        return read_object(json, read_settings, config);
    if (cay_str_is(key, "rootfs"))
        return read_object(json, read_rootfs, config);
    return pass_over(json);
}

static bool read_docker(struct cay_json_reader *json, struct cay_str key, void *out)
{
    struct cay_image_docker *docker = out;
    if (cay_str_is(key, "Config"))
        return read_text(json, &docker->config);
    if (cay_str_is(key, "RepoTags"))
        return read_list(json, &docker->tags);
    if (cay_str_is(key, "Layers"))
        return read_list(json, &docker->layers);
    return pass_over(json);
}

static bool finish(struct cay_json_reader *json, bool is_read, const char *what,
                   struct cay_error *err)
{
    if (is_read && cay_json_next(json) == CAY_JSON_END)
        return true;
    if (json->status == -ENOMEM)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "the %s of the image is too large", what);
    return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the %s of the image is not valid%s%s", what,
                    json->error ? ": " : "", json->error ? json->error : "");
}

bool cay_image_read_manifest(struct cay_str text, struct cay_arena *arena,
                             struct cay_image_manifest *out, struct cay_error *err)
{
    struct cay_json_reader json;
    *out = (struct cay_image_manifest){.config.size = -1};
    cay_json_reader_init(&json, text, arena);
    cay_json_next(&json);
    return finish(&json, read_members(&json, read_manifest, out), "manifest", err);
}

bool cay_image_read_config(struct cay_str text, struct cay_arena *arena,
                           struct cay_image_config *out, struct cay_error *err)
{
    struct cay_json_reader json;
    *out = (struct cay_image_config){};
    cay_json_reader_init(&json, text, arena);
    cay_json_next(&json);
    return finish(&json, read_members(&json, read_config, out), "configuration", err);
}

bool cay_image_read_docker(struct cay_str text, struct cay_arena *arena,
                           struct cay_image_docker *out, struct cay_error *err)
{
    struct cay_json_reader json;
    *out = (struct cay_image_docker){};
    cay_json_reader_init(&json, text, arena);
    bool is_read = cay_json_next(&json) == CAY_JSON_ARRAY_BEGIN;
    while (is_read && cay_json_next(&json) == CAY_JSON_OBJECT_BEGIN) {
        struct cay_image_docker ignored = {};
        is_read = out->count < CAY_IMAGE_LIST_MAX &&
                  read_members(&json, read_docker, out->count++ ? &ignored : out);
    }
    return finish(&json, is_read && json.token == CAY_JSON_ARRAY_END, "list", err);
}
