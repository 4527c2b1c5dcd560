/* SPDX-License-Identifier: Apache-2.0 */
#include "host/transfer/export.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/noun.h"
#include "host/base/base_record.h"
#include "host/past/snapshot.h"
#include "host/session/host.h"
#include "host/session/record.h"
#include "host/store/changes.h"

enum {
    PLAN_BYTES_MAX = 64 << 20,
    WORDS_ARENA_BYTES_MAX = 16 << 20, /* of one point, decoded */
};

/* The way from a snapshot to the base, itself included; over a parent that is gone, no further. */
static bool descends(const struct cay_session *session, const struct cay_snapshot *snapshot,
                     const struct cay_snapshot *ancestor)
{
    for (size_t steps = 0; snapshot && steps <= cay_session_snapshot_count(session); steps++) {
        if (snapshot == ancestor)
            return true;
        snapshot = cay_session_snapshot(session, snapshot->spec->parent);
    }
    return false;
}

struct wish {
    const struct cay_session *session;
    const struct cay_snapshot *since; /* NULL: from the base on */
    const struct cay_snapshot *last;  /* what the live files stand on, or where to end */
    bool has_live;
    bool no_branches;
};

static bool find_wish(struct wish *wish, const struct cay_session *session,
                      const struct cay_v1_export_session_request *request, struct cay_error *err)
{
    struct cay_str names[] = {request->since, request->until};
    const struct cay_snapshot *found[2] = {};
    for (size_t i = 0; i < CAY_COUNT(names); i++) {
        found[i] = names[i].len ? cay_session_snapshot(session, names[i]) : NULL;
        if (names[i].len && !found[i])
            return cay_fail(err, CAY_R_SNAPSHOT_NOT_FOUND,
                            "session '%s' has no snapshot '%.*s'; 'cay log %s' lists its snapshots",
                            session->id, (int)CAY_MIN(names[i].len, (size_t)128), names[i].ptr,
                            session->id);
    }
    *wish = (struct wish){
        .session = session,
        .since = found[0],
        .last = found[1] ? found[1] : cay_session_snapshot(session, cay_str(session->head)),
        .has_live = !found[1],
        .no_branches = request->no_branches,
    };
    if (wish->since && !descends(session, wish->last, wish->since))
        return cay_fail(err, CAY_R_FAILED_PRECONDITION, "%s not descend from snapshot '%s'",
                        found[1] ? "the last snapshot does" : "the live files do",
                        wish->since->name);
    return true;
}

static bool is_wanted(const struct wish *wish, const struct cay_snapshot *snapshot,
                      bool is_past_last)
{
    if (wish->since && (snapshot == wish->since || !descends(wish->session, snapshot, wish->since)))
        return false;
    if (wish->no_branches)
        return descends(wish->session, wish->last, snapshot);
    return !is_past_last || wish->has_live;
}

/* A parent that is exported too, or the one all builds on; else the base. */
static struct cay_str onto_of(const struct cay_manifest *manifest, const struct wish *wish,
                              const struct cay_snapshot *snapshot)
{
    struct cay_str parent = snapshot->spec->parent;
    for (size_t i = 0; i < manifest->point_count; i++) {
        if (cay_str_equal(manifest->points[i].snapshot->name, parent))
            return parent;
    }
    return wish->since ? cay_str(wish->since->name) : CAY_STR("");
}

static bool add_points(struct cay_export *self, const struct wish *wish, struct cay_error *err)
{
    const struct cay_session *session = wish->session;
    struct cay_manifest *manifest = &self->manifest;
    manifest->points = cay_arena_array(&self->arena, cay_session_snapshot_count(session) + 1,
                                       sizeof(*manifest->points));
    self->store_ids =
        cay_realloc_array(NULL, cay_session_snapshot_count(session) + 1, CAY_STORE_ID_SIZE);
    bool is_past_last = false;
    cay_list_for_each (struct cay_snapshot, snapshot, &session->snapshots, in_session) {
        bool is_one = is_wanted(wish, snapshot, is_past_last);
        is_past_last = is_past_last || (!wish->has_live && snapshot == wish->last);
        if (!is_one)
            continue;
        if (!manifest->points || manifest->point_count == CAY_EXPORT_POINTS_MAX)
            return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                            "the session has more than %d snapshots; prune some, or export a part "
                            "with since or until",
                            CAY_EXPORT_POINTS_MAX);
        struct cay_v1_snapshot *spec =
            cay_noun_copy(&cay_v1_snapshot_desc, snapshot->spec, &self->arena);
        if (!spec)
            return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                            "the session's past is too large; export a part with since or until");
        spec->name = cay_arena_str(&self->arena, cay_str(snapshot->name));
        struct cay_str onto = onto_of(manifest, wish, snapshot);
        memcpy(self->store_ids[manifest->point_count], snapshot->store_id, CAY_STORE_ID_SIZE);
        manifest->points[manifest->point_count++] =
            (struct cay_export_point){cay_arena_str(&self->arena, onto), spec};
    }
    return true;
}

bool cay_export_plan(struct cay_export *self, const struct cay_session *session,
                     const struct cay_v1_export_session_request *request, struct cay_error *err)
{
    struct wish wish = {};
    struct cay_manifest *manifest = &self->manifest;
    struct cay_host *host = session->host;
    char key[CAY_STORE_NAME_SIZE];
    cay_arena_init(&self->arena, PLAN_BYTES_MAX);
    self->store = host->store;
    self->db = host->db;
    self->level = request->compression_level ? request->compression_level : 3;
    if (!find_wish(&wish, session, request, err))
        return false;
    if (!cay_base_key(session->spec->base, key) ||
        !cay_store_base_resolve(host->store, key, self->base, err))
        return cay_wrap(err, "the base of session '%s' is gone", session->id);
    manifest->session = cay_session_message(session, &self->arena);
    if (!manifest->session)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "the session is too large");
    const struct cay_v1_base *base = cay_bases_record(host, self->base);
    manifest->base_name = cay_base_shown(self->base, &self->arena);
    if (base) {
        manifest->base_digest = cay_arena_str(&self->arena, base->digest);
        if (base->settings)
            manifest->base_settings =
                cay_noun_copy(&cay_v1_base_settings_desc, base->settings, &self->arena);
    }
    manifest->has_base = request->include_base;
    if (wish.since) {
        manifest->since = cay_arena_str(&self->arena, cay_str(wish.since->name));
        if (wish.since->spec->created_at)
            manifest->since_time = cay_noun_copy(&google_protobuf_timestamp_desc,
                                                 wish.since->spec->created_at, &self->arena);
        memcpy(self->since_store_id, wish.since->store_id, CAY_STORE_ID_SIZE);
    }
    if (wish.last)
        manifest->head = cay_arena_str(&self->arena, cay_str(wish.last->name));
    manifest->has_live = wish.has_live;
    if (wish.has_live)
        cay_store_new_id(self->live_store_id);
    return add_points(self, &wish, err);
}

int64_t cay_export_estimate(const struct cay_export *self)
{
    int64_t bytes = 0;
    for (size_t i = 0; i <= self->manifest.point_count; i++) {
        struct cay_store_usage usage;
        struct cay_error ignored = {};
        bool is_live = i == self->manifest.point_count;
        const char *id = is_live ? self->live_store_id : self->store_ids[i];
        const struct cay_store_ref ref = {.snapshot = id};
        if (*id && cay_store_usage(self->store, &ref, &usage, &ignored))
            bytes += (int64_t)usage.own_bytes;
    }
    return bytes;
}

/* Points are found again by name, with what is known of their links. */
struct point {
    struct cay_str name;
    struct cay_store_ref ref;
    struct cay_links links;
};

static bool view(struct cay_export *self, const struct cay_store_ref *ref, int *out_fd,
                 struct cay_links *links, struct cay_error *err)
{
    cay_links_init(links);
    return cay_store_view(self->store, ref, NULL, out_fd, err) &&
           cay_links_read(links, *out_fd, NULL, NULL, err);
}

/* An export goes on without what no archive takes, and says so. */
static bool note_left_out(struct cay_export *self, const struct cay_changes *changes)
{
    self->left_out += changes->left_out;
    if (changes->left_out_first && !self->left_out_first)
        self->left_out_first = cay_strdup(changes->left_out_first);
    return true;
}

static bool write_point(struct cay_export *self, const struct point *from, struct point *to,
                        const char *prefix, struct cay_error *err)
{
    cay_autoclose int root_fd = -1;
    cay_auto(cay_changes_finish) struct cay_changes changes;
    cay_changes_init(&changes);
    cay_links_init(&to->links);
    return cay_store_view(self->store, &to->ref, NULL, &root_fd, err) &&
           cay_changes_find(&changes, self->store, &from->ref, &to->ref, root_fd, &from->links,
                            &to->links, err) &&
           note_left_out(self, &changes) &&
           cay_pack_changes(&self->pack, root_fd, prefix, &changes, err);
}

/* The first point: the base, or the snapshot that all builds on. */
static bool write_ground(struct cay_export *self, struct point *ground, struct cay_error *err)
{
    cay_autoclose int root_fd = -1;
    cay_auto(cay_changes_finish) struct cay_changes changes;
    cay_changes_init(&changes);
    ground->name = self->manifest.since;
    if (self->manifest.since.len)
        ground->ref.snapshot = self->since_store_id;
    else
        ground->ref.base = self->base;
    if (!self->manifest.has_base)
        return view(self, &ground->ref, &root_fd, &ground->links, err);
    const struct cay_store_ref base = {.base = self->base};
    struct cay_links links;
    cay_links_init(&links);
    bool is_good = cay_store_view(self->store, &base, NULL, &root_fd, err) &&
                   cay_changes_all(&changes, root_fd, &links, err) &&
                   note_left_out(self, &changes) &&
                   cay_pack_changes(&self->pack, root_fd, "base", &changes, err);
    cay_links_finish(&links);
    if (root_fd >= 0)
        close(cay_take_fd(root_fd));
    return is_good && view(self, &ground->ref, &root_fd, &ground->links, err);
}

static const struct point *find_point(const struct point *points, size_t count, struct cay_str name)
{
    for (size_t i = count; i-- > 1;) {
        if (cay_str_equal(points[i].name, name))
            return &points[i];
    }
    return &points[0];
}

/* In memory for one point at a time. */
static bool write_words(struct cay_export *self, struct cay_str name, const char *prefix,
                        struct cay_error *err)
{
    struct cay_v1_snapshot words = {};
    bool is_there = false;
    char path[64];
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_buf_init(&text, CAY_EXPORT_WORDS_BYTES_MAX);
    cay_arena_init(&arena, WORDS_ARENA_BYTES_MAX);
    snprintf(path, sizeof(path), "%s/" CAY_EXPORT_WORDS, prefix);
    if (!cay_snapshot_read_words(self->db, self->manifest.session->id, name, &arena, &words,
                                 &is_there, err))
        return false;
    if (!is_there)
        return cay_fail(err, CAY_R_SNAPSHOT_NOT_FOUND, "it was deleted meanwhile");
    if (!words.message.len && !words.metadata)
        return true;
    return (cay_manifest_write_words(&words, &text) ||
            cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "its message and metadata are too large")) &&
           cay_pack_text(&self->pack, path, cay_buf_str(&text), err);
}

static bool write_points(struct cay_export *self, struct point *points, struct cay_error *err)
{
    const struct cay_manifest *manifest = &self->manifest;
    if (!write_ground(self, &points[0], err))
        return false;
    for (size_t i = 0; i < manifest->point_count; i++) {
        char prefix[32];
        struct point *point = &points[i + 1];
        point->name = manifest->points[i].snapshot->name;
        point->ref.snapshot = self->store_ids[i];
        snprintf(prefix, sizeof(prefix), "points/%06zu", i + 1);
        const struct point *from = find_point(points, i + 1, manifest->points[i].onto);
        if (!write_words(self, point->name, prefix, err) ||
            !write_point(self, from, point, prefix, err))
            return cay_wrap(err, "export snapshot '%.*s'", (int)point->name.len, point->name.ptr);
    }
    if (!manifest->has_live)
        return true;
    struct point *live = &points[manifest->point_count + 1];
    live->ref.snapshot = self->live_store_id;
    const struct point *head = find_point(points, manifest->point_count + 1, manifest->head);
    return write_point(self, head, live, "live", err) || cay_wrap(err, "export the live files");
}

bool cay_export_write(struct cay_export *self, int fd, cay_pack_progress *progress, void *ctx,
                      struct cay_error *err)
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    size_t count = self->manifest.point_count + 2;
    cay_autofree struct point *points = cay_realloc_array(NULL, count, sizeof(*points));
    memset(points, 0, count * sizeof(*points));
    cay_buf_init(&text, CAY_EXPORT_MANIFEST_BYTES_MAX);
    bool is_good = cay_manifest_write(&self->manifest, &text) ||
                   cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                            "the session's past is too large; export a part with since or until");
    is_good = is_good && cay_pack_open(&self->pack, fd, self->level, progress, ctx, err) &&
              cay_pack_text(&self->pack, CAY_EXPORT_MANIFEST, cay_buf_str(&text), err) &&
              write_points(self, points, err) &&
              cay_pack_text(&self->pack, CAY_EXPORT_END, CAY_STR(""), err) &&
              cay_pack_close(&self->pack, self->sha256, err);
    for (size_t i = 0; i < count; i++)
        cay_links_finish(&points[i].links);
    return is_good;
}

void cay_export_finish(struct cay_export *self)
{
    cay_pack_finish(&self->pack);
    cay_arena_finish(&self->arena);
    free(self->store_ids);
    free(self->left_out_first);
}
