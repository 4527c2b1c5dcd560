/* SPDX-License-Identifier: Apache-2.0 */
#include "host/transfer/manifest.h"

#include <stdio.h>

#include "api/limits.h"
#include "base/id.h"
#include "base/json.h"
#include "base/map.h"
#include "host/past/snapshot_name.h"
#include "host/session/request.h"

static const char format[] = "cay-export";

static void write_message(struct cay_json_writer *json, const char *key,
                          const struct cay_pb_message *desc, const void *message)
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, CAY_EXPORT_MANIFEST_BYTES_MAX);
    cay_json_key(json, key);
    if (cay_pb_json_write(desc, message, NULL, &text) < 0)
        json->buf->failed = true;
    else
        cay_json_raw(json, cay_buf_str(&text));
}

static void write_text(struct cay_json_writer *json, const char *key, struct cay_str text)
{
    cay_json_key(json, key);
    cay_json_string(json, text);
}

bool cay_manifest_write(const struct cay_manifest *manifest, struct cay_buf *buf)
{
    struct cay_json_writer json = {.buf = buf};
    cay_json_object_begin(&json);
    write_text(&json, "format", cay_str(format));
    cay_json_key(&json, "version");
    cay_json_i64(&json, CAY_EXPORT_VERSION);
    write_text(&json, "since", manifest->since);
    if (manifest->since_time)
        write_message(&json, "sinceTime", &google_protobuf_timestamp_desc, manifest->since_time);
    write_text(&json, "head", manifest->head);
    cay_json_key(&json, "live");
    cay_json_bool(&json, manifest->has_live);
    cay_json_key(&json, "base");
    cay_json_object_begin(&json);
    write_text(&json, "name", manifest->base_name);
    write_text(&json, "digest", manifest->base_digest);
    cay_json_key(&json, "included");
    cay_json_bool(&json, manifest->has_base);
    if (manifest->base_settings)
        write_message(&json, "settings", &cay_v1_base_settings_desc, manifest->base_settings);
    cay_json_object_end(&json);
    write_message(&json, "session", &cay_v1_session_desc, manifest->session);
    cay_json_key(&json, "points");
    cay_json_array_begin(&json);
    for (size_t i = 0; i < manifest->point_count; i++) {
        cay_json_object_begin(&json);
        write_text(&json, "onto", manifest->points[i].onto);
        write_message(&json, "snapshot", &cay_v1_snapshot_desc, manifest->points[i].snapshot);
        cay_json_object_end(&json);
    }
    cay_json_array_end(&json);
    cay_json_object_end(&json);
    cay_buf_append_byte(buf, '\n');
    return !buf->failed;
}

struct reading {
    struct cay_json_reader json;
    struct cay_arena *arena;
    struct cay_manifest *manifest;
    size_t point_room;
    bool is_ours;
    int64_t version;
    char error[160];
};

static bool bad(struct reading *reading, const char *what)
{
    if (!reading->error[0])
        snprintf(reading->error, sizeof(reading->error), "%s", what);
    return false;
}

static bool read_text(struct reading *reading, struct cay_str *out)
{
    if (cay_json_next(&reading->json) != CAY_JSON_STRING)
        return bad(reading, "a text was expected");
    *out = reading->json.text;
    return true;
}

static bool read_bool(struct reading *reading, bool *out)
{
    enum cay_json_token token = cay_json_next(&reading->json);
    *out = token == CAY_JSON_TRUE;
    return token == CAY_JSON_TRUE || token == CAY_JSON_FALSE ||
           bad(reading, "true or false was expected");
}

/* The value of the key just read as a message of the contract. */
static bool read_message(struct reading *reading, const struct cay_pb_message *desc,
                         void **out_message)
{
    struct cay_json_reader *json = &reading->json;
    const char *from = json->at;
    if (cay_json_skip(json) < 0)
        return false;
    struct cay_str text = {from, (size_t)(json->at - from)};
    void *message = cay_arena_alloc(reading->arena, desc->size_bytes);
    if (!message)
        return bad(reading, "it is too large");
    if (cay_pb_json_read(desc, text, NULL, reading->arena, message, reading->error,
                         sizeof(reading->error)) < 0)
        return bad(reading, "a message is not valid");
    *out_message = message;
    return true;
}

static bool read_base(struct reading *reading)
{
    struct cay_json_reader *json = &reading->json;
    struct cay_manifest *manifest = reading->manifest;
    if (cay_json_next(json) != CAY_JSON_OBJECT_BEGIN)
        return bad(reading, "base: an object was expected");
    while (cay_json_next(json) == CAY_JSON_KEY) {
        bool is_good = true;
        void *settings = NULL;
        if (cay_str_is(json->text, "name")) {
            is_good = read_text(reading, &manifest->base_name);
        } else if (cay_str_is(json->text, "digest")) {
            is_good = read_text(reading, &manifest->base_digest);
        } else if (cay_str_is(json->text, "included")) {
            is_good = read_bool(reading, &manifest->has_base);
        } else if (cay_str_is(json->text, "settings")) {
            is_good = read_message(reading, &cay_v1_base_settings_desc, &settings);
            manifest->base_settings = settings;
        } else {
            is_good = cay_json_skip(json) == 0;
        }
        if (!is_good)
            return false;
    }
    return json->token == CAY_JSON_OBJECT_END;
}

static bool read_point(struct reading *reading, struct cay_export_point *point)
{
    struct cay_json_reader *json = &reading->json;
    while (cay_json_next(json) == CAY_JSON_KEY) {
        bool is_good = true;
        void *snapshot = NULL;
        if (cay_str_is(json->text, "onto")) {
            is_good = read_text(reading, &point->onto);
        } else if (cay_str_is(json->text, "snapshot")) {
            is_good = read_message(reading, &cay_v1_snapshot_desc, &snapshot);
            point->snapshot = snapshot;
        } else {
            is_good = cay_json_skip(json) == 0;
        }
        if (!is_good)
            return false;
    }
    return json->token == CAY_JSON_OBJECT_END;
}

static bool read_points(struct reading *reading)
{
    struct cay_json_reader *json = &reading->json;
    struct cay_manifest *manifest = reading->manifest;
    if (cay_json_next(json) != CAY_JSON_ARRAY_BEGIN)
        return bad(reading, "points: a list was expected");
    while (cay_json_next(json) == CAY_JSON_OBJECT_BEGIN) {
        if (manifest->point_count == CAY_EXPORT_POINTS_MAX)
            return bad(reading, "there are too many points");
        if (manifest->point_count == reading->point_room) {
            size_t room = CAY_MAX(reading->point_room * 2, (size_t)16);
            struct cay_export_point *points =
                cay_arena_array(reading->arena, room, sizeof(*points));
            if (!points)
                return bad(reading, "it is too large");
            if (manifest->point_count)
                memcpy(points, manifest->points, manifest->point_count * sizeof(*points));
            manifest->points = points;
            reading->point_room = room;
        }
        struct cay_export_point *point = &manifest->points[manifest->point_count++];
        *point = (struct cay_export_point){};
        if (!read_point(reading, point))
            return false;
    }
    return json->token == CAY_JSON_ARRAY_END;
}

static bool read_member(struct reading *reading)
{
    struct cay_json_reader *json = &reading->json;
    struct cay_manifest *manifest = reading->manifest;
    struct cay_str text = {};
    void *session = NULL;
    if (cay_str_is(json->text, "format")) {
        reading->is_ours = read_text(reading, &text) && cay_str_is(text, format);
        return reading->is_ours || bad(reading, "it is not an exported session");
    }
    if (cay_str_is(json->text, "version"))
        return (cay_json_next(json) == CAY_JSON_NUMBER &&
                cay_json_to_i64(json->text, &reading->version) == 0 && reading->version >= 1 &&
                reading->version <= CAY_EXPORT_VERSION) ||
               bad(reading, "its version is not one this daemon reads");
    if (cay_str_is(json->text, "since"))
        return read_text(reading, &manifest->since);
    if (cay_str_is(json->text, "sinceTime")) {
        void *stamp = NULL;
        bool is_stamp = read_message(reading, &google_protobuf_timestamp_desc, &stamp);
        manifest->since_time = stamp;
        return is_stamp;
    }
    if (cay_str_is(json->text, "head"))
        return read_text(reading, &manifest->head);
    if (cay_str_is(json->text, "live"))
        return read_bool(reading, &manifest->has_live);
    if (cay_str_is(json->text, "base"))
        return read_base(reading);
    if (cay_str_is(json->text, "points"))
        return read_points(reading);
    if (!cay_str_is(json->text, "session"))
        return cay_json_skip(json) == 0;
    bool is_read = read_message(reading, &cay_v1_session_desc, &session);
    manifest->session = session;
    return is_read;
}

static bool are_words_good(const struct cay_v1_snapshot *snapshot)
{
    struct cay_error ignored = {};
    return cay_check_message(snapshot->message, &ignored) &&
           (!snapshot->metadata ||
            cay_pb_encoded_size(&google_protobuf_struct_desc, snapshot->metadata) <=
                CAY_LIMIT_METADATA_BYTES);
}

static bool check_point(struct reading *reading, const struct cay_export_point *point)
{
    const struct cay_v1_snapshot *snapshot = point->snapshot;
    if (!snapshot || !cay_snapshot_name_valid(snapshot->name))
        return bad(reading, "points: a snapshot has no valid name");
    if (snapshot->kind <= CAY_V1_SNAPSHOT_KIND_UNSPECIFIED ||
        snapshot->kind > CAY_V1_SNAPSHOT_KIND_BRANCH || snapshot->turn_number < 0 ||
        snapshot->turn_number > INT32_MAX || snapshot->tool_call_id.len > CAY_LIMIT_ID_BYTES ||
        (snapshot->parent.len && !cay_id_valid(snapshot->parent)) ||
        (snapshot->branch.len && !cay_id_valid(snapshot->branch)))
        return bad(reading, "points: a snapshot is not valid");
    return are_words_good(snapshot) || bad(reading, "points: message or metadata are too large");
}

/* Names are unique, and each point is put onto one before it. */
static bool check_order(struct reading *reading)
{
    struct cay_manifest *manifest = reading->manifest;
    struct cay_map known;
    bool is_good = !manifest->since.len || cay_id_valid(manifest->since) ||
                   bad(reading, "since is no valid name");
    cay_map_init(&known);
    for (size_t i = 0; is_good && i < manifest->point_count; i++) {
        struct cay_export_point *point = &manifest->points[i];
        is_good = check_point(reading, point);
        if (!is_good)
            break;
        /* The past is walked along its parents: there must be an end to it. */
        if (!cay_str_equal(point->snapshot->parent, manifest->since) &&
            !cay_map_get(&known, point->snapshot->parent))
            point->snapshot->parent = point->onto;
        bool is_on_since = manifest->since.len && cay_str_equal(point->onto, manifest->since);
        if (!is_on_since &&
            (point->onto.len ? !cay_map_get(&known, point->onto) : manifest->since.len > 0))
            is_good = bad(reading, "one of the points is put onto what does not come before it");
        else if (cay_str_equal(point->snapshot->name, manifest->since) ||
                 cay_map_put(&known, point->snapshot->name, point))
            is_good = bad(reading, "points: two have the same name");
    }
    if (is_good && !cay_str_equal(manifest->head, manifest->since) &&
        !(manifest->head.len ? cay_map_get(&known, manifest->head) != NULL : !manifest->since.len))
        is_good = bad(reading, "head is not one of the points");
    cay_map_finish(&known);
    return is_good;
}

bool cay_manifest_read(struct cay_str text, struct cay_arena *arena,
                       struct cay_manifest *out_manifest, struct cay_error *err)
{
    struct reading reading = {.arena = arena, .manifest = out_manifest};
    *out_manifest = (struct cay_manifest){};
    cay_json_reader_init(&reading.json, text, arena);
    bool is_good = cay_json_next(&reading.json) == CAY_JSON_OBJECT_BEGIN;
    while (is_good && cay_json_next(&reading.json) == CAY_JSON_KEY)
        is_good = read_member(&reading);
    is_good = is_good && reading.json.token == CAY_JSON_OBJECT_END &&
              cay_json_next(&reading.json) == CAY_JSON_END;
    if (is_good && (!reading.is_ours || !reading.version || !out_manifest->session))
        is_good = bad(&reading, "it is not an exported session");
    is_good = is_good && check_order(&reading);
    if (is_good)
        return true;
    const char *why = reading.error[0] ? reading.error : reading.json.error;
    return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the head of the exported session: %s",
                    why ? why : "not valid");
}

bool cay_manifest_write_words(const struct cay_v1_snapshot *snapshot, struct cay_buf *buf)
{
    const struct cay_v1_snapshot words = {.message = snapshot->message,
                                          .metadata = snapshot->metadata};
    return cay_pb_json_write(&cay_v1_snapshot_desc, &words, NULL, buf) == 0 && !buf->failed;
}

bool cay_manifest_read_words(struct cay_str text, struct cay_arena *arena,
                             struct cay_v1_snapshot *snapshot, struct cay_error *err)
{
    struct cay_v1_snapshot words = {};
    char why[160] = "";
    if (cay_pb_json_read(&cay_v1_snapshot_desc, text, NULL, arena, &words, why, sizeof(why)) < 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the message or metadata of a snapshot: %s",
                        why);
    snapshot->message = words.message;
    snapshot->metadata = words.metadata;
    return are_words_good(snapshot) ||
           cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "the message or metadata of a snapshot are too large");
}
