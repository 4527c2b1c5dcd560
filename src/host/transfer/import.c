/* SPDX-License-Identifier: Apache-2.0 */
#include "host/transfer/import.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/stop.h"
#include "host/base/base_record.h"
#include "host/session/host.h"
#include "host/session/tidy.h"
#include "host/store/base.h"
#include "host/store/pack.h"
#include "host/store/unpack.h"

enum {
    ARENA_BYTES_MAX = 128 << 20,
    WORDS_ARENA_BYTES_MAX = 16 << 20, /* of one point, decoded */
};
#define UNPACKED_BYTES_MAX ((uint64_t)512 << 30) /* of a whole stream */

/* Trees are written with the owners that are seen inside. */
static const struct cay_store_owner natural = {
    .id_base = 0, .id_count = CAY_IMPORT_IDS, .userns_fd = -1};

void cay_import_init(struct cay_import *self, struct cay_host *host, int fd)
{
    *self = (struct cay_import){.host = host, .fd = fd};
    cay_arena_init(&self->arena, ARENA_BYTES_MAX);
}

void cay_import_finish(struct cay_import *self)
{
    cay_archive_in_finish(&self->in);
    cay_arena_finish(&self->arena);
    for (size_t i = 0; i < self->snapshot_count; i++)
        cay_snapshot_record_finish(&self->snapshots[i]);
    free(self->snapshots);
    cay_snapshot_record_finish(&self->live);
    cay_session_record_finish(&self->session);
    if (self->fd >= 0)
        cay_host_close_later(self->host, cay_take_fd(self->fd));
}

static bool damaged(struct cay_error *err, const char *what)
{
    return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the exported session is damaged: %s", what);
}

bool cay_import_inspect(struct cay_import *self, struct cay_error *err)
{
    struct archive_entry *entry = NULL;
    (void)lseek(self->fd, 0, SEEK_SET);
    if (!cay_pack_verify(self->fd, UNPACKED_BYTES_MAX, err) ||
        !cay_archive_in_open(&self->in, self->fd, false, err) ||
        !cay_archive_in_next(&self->in, &entry, err))
        return false;
    const char *name = entry ? cay_archive_path(entry) : NULL;
    if (!name || strcmp(name, CAY_EXPORT_MANIFEST) != 0 ||
        archive_entry_filetype(entry) != AE_IFREG || cay_archive_hard_link(entry))
        return damaged(err, "it does not begin with its description");
    la_int64_t size = archive_entry_size(entry);
    if (size < 0 || size > CAY_EXPORT_MANIFEST_BYTES_MAX)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "the description has more than %d bytes",
                        CAY_EXPORT_MANIFEST_BYTES_MAX);
    char *text = cay_arena_alloc(&self->arena, (size_t)size + 1);
    if (!text || archive_read_data(self->in.archive, text, (size_t)size) != size)
        return damaged(err, "its description cannot be read");
    return cay_manifest_read((struct cay_str){text, (size_t)size}, &self->arena, &self->manifest,
                             err);
}

/* Sections in their order: 0 the base, then the points, then the live files. */
struct place {
    size_t section;
    bool is_deletion;
    bool is_words;       /* of the point; there is no path */
    char path[PATH_MAX]; /* in the tree */
};

struct applying {
    struct cay_import *import;
    size_t live_section;
    size_t section;
    bool is_open;     /* a section is under way */
    bool is_begun;    /* and something of it was there */
    bool has_words;   /* and what was said of the point is in its record */
    bool has_content; /* something in it is not the root itself */
    bool is_ended;
    struct cay_unpack unpack;
    struct cay_store_base_draft draft;
    int root_fd;
    char tree[CAY_STORE_ID_SIZE];       /* the tree being written; empty: none */
    char tree_is_at[CAY_STORE_ID_SIZE]; /* the snapshot it was last */
    uint64_t entries;
    struct cay_error *err;
};

static bool take_number(struct cay_str *rest, size_t max, size_t *out_number)
{
    struct cay_str part;
    uint64_t number = 0;
    if (!cay_str_split(rest, '/', &part) || cay_str_to_u64(part, max, &number) < 0 || !number)
        return false;
    *out_number = number;
    return true;
}

static bool find_place(const struct applying *self, const char *name, struct place *out_place)
{
    struct cay_str rest = cay_str(name);
    struct cay_str part;
    if (!cay_str_split(&rest, '/', &part))
        return false;
    if (cay_str_is(part, "base"))
        out_place->section = 0;
    else if (cay_str_is(part, "live"))
        out_place->section = self->live_section;
    else if (!cay_str_is(part, "points") ||
             !take_number(&rest, self->live_section - 1, &out_place->section))
        return false;
    if (!cay_str_split(&rest, '/', &part))
        return false;
    bool is_point = out_place->section > 0 && out_place->section < self->live_section;
    out_place->is_deletion = cay_str_is(part, "deleted");
    out_place->is_words = is_point && cay_str_is(part, CAY_EXPORT_WORDS) && !rest.ptr;
    if (out_place->is_words)
        return true;
    if (!out_place->is_deletion && !cay_str_is(part, "tree"))
        return false;
    snprintf(out_place->path, sizeof(out_place->path), "%.*s", (int)rest.len,
             rest.len ? rest.ptr : "");
    return true;
}

static void close_root(struct applying *self)
{
    if (self->root_fd >= 0)
        close(cay_take_fd(self->root_fd));
    cay_unpack_finish(&self->unpack);
}

static void drop_tree(struct applying *self)
{
    struct cay_error ignored = {};
    if (self->tree[0])
        (void)cay_store_destroy(self->import->host->store, self->tree, &ignored);
    self->tree[0] = self->tree_is_at[0] = '\0';
}

/* The id of a point by name; NULL: the base. */
static const char *find_snapshot(const struct cay_import *import, struct cay_str name)
{
    if (import->is_existing && cay_str_equal(name, import->manifest.since))
        return import->since_store_id;
    for (size_t i = 0; name.len && i < import->snapshot_count; i++) {
        if (cay_str_is(name, import->snapshots[i].name))
            return import->snapshots[i].store_id;
    }
    return NULL;
}

/* A tree that is as the point is; the one at hand when it is there already. */
static bool open_tree(struct applying *self, struct cay_str onto, const char *wanted_id)
{
    struct cay_import *import = self->import;
    const char *snapshot = find_snapshot(import, onto);
    if (!wanted_id && snapshot && !strcmp(snapshot, self->tree_is_at))
        return true;
    drop_tree(self);
    if (wanted_id)
        memcpy(self->tree, wanted_id, sizeof(self->tree));
    else
        cay_store_new_id(self->tree);
    snprintf(self->tree_is_at, sizeof(self->tree_is_at), "%s", snapshot ? snapshot : "");
    const struct cay_store_source source = {.base = snapshot ? NULL : import->base,
                                            .snapshot = snapshot};
    return cay_store_create(import->host->store, self->tree, &source, self->err);
}

static bool begin_base(struct applying *self)
{
    struct cay_import *import = self->import;
    if (!import->makes_base)
        return true; /* what is in the stream is here already */
    if (!cay_store_base_begin(import->host->store, &self->draft, self->err))
        return false;
    self->unpack.root_fd = self->draft.root_fd;
    return true;
}

static bool begin_section(struct applying *self)
{
    struct cay_import *import = self->import;
    const struct cay_manifest *manifest = &import->manifest;
    self->unpack = (struct cay_unpack){
        .root_fd = -1,
        .is_plain = true,
        .replaces = true,
        .entries_max = CAY_BASE_ENTRIES_MAX,
        .bytes_max = CAY_BASE_BYTES_MAX,
        .take = self->section > 0 ? cay_quota_take : NULL,
        .take_ctx = &import->taker,
    };
    self->is_open = true;
    self->has_content = self->is_begun = self->has_words = false;
    if (self->section == 0)
        return begin_base(self);
    bool is_live = self->section == self->live_section;
    struct cay_str onto = is_live ? manifest->head : manifest->points[self->section - 1].onto;
    const char *wanted_id = is_live && !import->is_existing ? import->session.store_id : NULL;
    cay_autoclose int mount_fd = -1;
    if (!open_tree(self, onto, wanted_id) ||
        !cay_store_mount(import->host->store, self->tree, &natural, &mount_fd, self->err))
        return false;
    self->root_fd = openat(mount_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    self->unpack.root_fd = self->root_fd;
    return self->root_fd >= 0 ||
           cay_fail_errno(self->err, CAY_R_STORE_FAILED, -errno, "open the tree");
}

static bool write_base_down(void *ctx, const struct cay_base_info *info, struct cay_error *err)
{
    struct cay_import *import = ctx;
    const struct cay_manifest *manifest = &import->manifest;
    if (manifest->base_digest.len && !cay_str_is(manifest->base_digest, info->digest))
        return damaged(err, "its base does not have the digest it should");
    import->base_spec.digest = cay_arena_str(&import->arena, cay_str(info->digest));
    import->is_base_recorded = cay_base_record_add(import->host->db, &import->base_spec, err);
    return import->is_base_recorded;
}

static bool finish_base(struct applying *self)
{
    struct cay_import *import = self->import;
    struct cay_base_info info = {};
    const struct cay_base_options options = {.ready = write_base_down, .ready_ctx = import};
    if (!import->makes_base)
        return true;
    import->base_spec.size_bytes = (int64_t)self->unpack.stats.bytes;
    import->base_spec.entry_count = (int64_t)self->unpack.stats.entries;
    import->is_base_made =
        cay_base_keep(import->host->store, &self->draft, import->base, &options, &info, self->err);
    return import->is_base_made;
}

static bool keep_point(struct applying *self, const char *store_id, bool *out_changed)
{
    struct cay_store_point point = {.root_fd = -1};
    const struct cay_store_snapshot_request request = {
        .session_id = self->tree,
        .snapshot_id = store_id,
        .activity = CAY_STORE_QUIET,
        .previous_id = self->tree_is_at,
    };
    if (!cay_store_snapshot(self->import->host->store, &request, &point, self->err))
        return false;
    if (point.root_fd >= 0)
        close(point.root_fd);
    memcpy(self->tree_is_at, store_id, sizeof(self->tree_is_at));
    *out_changed = point.changed;
    return true;
}

static bool finish_section(struct applying *self)
{
    struct cay_import *import = self->import;
    bool is_changed = false;
    self->is_open = false;
    if (self->unpack.root_fd >= 0)
        cay_unpack_times(&self->unpack);
    close_root(self);
    if (self->section == 0)
        return finish_base(self);
    if (self->section == self->live_section) {
        if (import->is_existing)
            return keep_point(self, import->live.store_id, &import->has_live);
        self->tree[0] = '\0'; /* it is the session's own */
        return true;
    }
    struct cay_snapshot_record *record = &import->snapshots[self->section - 1];
    struct cay_v1_snapshot *spec = import->manifest.points[self->section - 1].snapshot;
    if (!keep_point(self, record->store_id, &is_changed))
        return false;
    /* Some stores take the root's times, which are always there, for a change. */
    is_changed = is_changed && (!spec->unchanged || self->has_content);
    spec->unchanged =
        !is_changed && cay_str_equal(spec->parent, import->manifest.points[self->section - 1].onto);
    if (!cay_snapshot_record_set_spec(record, spec, self->err))
        return false;
    if (self->has_words)
        cay_snapshot_record_drop_words(record);
    return true;
}

static size_t first_section(const struct cay_import *import)
{
    if (import->manifest.has_base)
        return 0;
    return import->manifest.point_count || import->manifest.has_live ? 1 : SIZE_MAX;
}

static size_t last_section(const struct cay_import *import)
{
    return import->manifest.point_count + (import->manifest.has_live ? 1 : 0);
}

/* To the section of the entry at hand: the one under way, or the next. */
static bool go_to(struct applying *self, size_t section)
{
    size_t next = self->section == SIZE_MAX ? first_section(self->import) : self->section + 1;
    if (self->is_open && section == self->section)
        return true;
    if (section != next || section > last_section(self->import))
        return damaged(self->err, "its parts are not in order");
    if (self->is_open && !finish_section(self))
        return false;
    self->section = section;
    return begin_section(self);
}

/* Targets of hard links stand in the archive with the same beginning as the names. */
static bool apply_link(struct applying *self, const struct place *place, const char *raw)
{
    char clean[PATH_MAX];
    struct place target = {};
    if (!cay_archive_clean(raw, clean) || !find_place(self, clean, &target) ||
        target.section != place->section || target.is_deletion || target.is_words)
        return damaged(self->err, "a hard link leads outside");
    return cay_unpack_link(&self->unpack, place->path, target.path, self->err);
}

/* Into the record at once: all of them together may be more than belongs in memory. */
static bool apply_words(struct applying *self, struct archive_entry *entry)
{
    struct cay_import *import = self->import;
    struct cay_snapshot_record *record = &import->snapshots[self->section - 1];
    struct cay_v1_snapshot spec = *import->manifest.points[self->section - 1].snapshot;
    la_int64_t size = archive_entry_size(entry);
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, WORDS_ARENA_BYTES_MAX);
    if (self->is_begun || archive_entry_filetype(entry) != AE_IFREG ||
        cay_archive_hard_link(entry) || size < 0 || size > CAY_EXPORT_WORDS_BYTES_MAX)
        return damaged(self->err, "what was said of a snapshot is not where it should be");
    char *text = cay_arena_alloc(&arena, (size_t)size + 1);
    if (!text || archive_read_data(import->in.archive, text, (size_t)size) != size)
        return damaged(self->err, "what was said of a snapshot cannot be read");
    bool is_good =
        cay_manifest_read_words((struct cay_str){text, (size_t)size}, &arena, &spec, self->err) &&
        cay_snapshot_record_set_spec(record, &spec, self->err) &&
        cay_snapshot_record_put(import->host->db, record, self->err);
    cay_snapshot_record_drop_words(record);
    self->has_words = self->is_begun = true;
    return is_good;
}

static bool apply_entry(struct applying *self, struct archive_entry *entry)
{
    char clean[PATH_MAX];
    struct place place = {};
    const char *raw = cay_archive_path(entry);
    const char *link = cay_archive_hard_link(entry);
    if (++self->entries > CAY_BASE_ENTRIES_MAX)
        return cay_fail(self->err, CAY_R_RESOURCE_EXHAUSTED, "it has more than %d entries",
                        CAY_BASE_ENTRIES_MAX);
    if (!raw || !cay_archive_clean(raw, clean) || self->is_ended)
        return damaged(self->err, "a name in it is not valid");
    if (!strcmp(clean, CAY_EXPORT_END)) {
        self->is_ended = true;
        return true;
    }
    if (!find_place(self, clean, &place))
        return damaged(self->err, "a name in it is not valid");
    if (!go_to(self, place.section))
        return false;
    if (place.is_words)
        return apply_words(self, entry);
    self->is_begun = true;
    self->has_content = self->has_content || place.path[0];
    if (self->unpack.root_fd < 0)
        return true; /* a base that is here already */
    if (place.is_deletion)
        return cay_unpack_remove(&self->unpack, place.path, self->err);
    if (link)
        return apply_link(self, &place, link);
    uint64_t skipped = self->unpack.stats.skipped;
    return cay_unpack_entry(&self->unpack, &self->import->in, entry, place.path, self->err) &&
           (self->unpack.stats.skipped == skipped || damaged(self->err, "it holds a device"));
}

static bool apply_all(struct applying *self)
{
    struct cay_import *import = self->import;
    for (;;) {
        struct archive_entry *entry = NULL;
        if (!cay_archive_in_next(&import->in, &entry, self->err))
            return false;
        if (!entry)
            break;
        if (!apply_entry(self, entry))
            return false;
    }
    if (!self->is_ended)
        return damaged(self->err, "its end is missing");
    if (self->is_open && !finish_section(self))
        return false;
    size_t last = self->section == SIZE_MAX ? 0 : self->section;
    if (last != last_section(import) ||
        (self->section == SIZE_MAX && first_section(import) != SIZE_MAX))
        return damaged(self->err, "a part of it is missing");
    if (import->manifest.has_live || import->is_existing)
        return true;
    /* The live files are as the head is. */
    drop_tree(self);
    const char *head = find_snapshot(import, import->manifest.head);
    const struct cay_store_source source = {.base = head ? NULL : import->base, .snapshot = head};
    return cay_store_create(import->host->store, import->session.store_id, &source, self->err);
}

bool cay_import_put_snapshots(struct cay_import *self, bool is_pending, struct cay_error *err)
{
    bool is_good = true;
    for (size_t i = 0; is_good && i < self->snapshot_count; i++) {
        self->snapshots[i].is_pending = is_pending;
        is_good = cay_snapshot_record_put(self->host->db, &self->snapshots[i], err);
    }
    return is_good;
}

/* All ids stand in the records before the store hears of them. */
static bool write_down(struct cay_import *self, struct cay_error *err)
{
    struct cay_db *db = self->host->db;
    return cay_db_transaction_begin(db, err) &&
           cay_db_transaction_end(db,
                                  (self->is_existing
                                       ? cay_snapshot_record_put(db, &self->live, err)
                                       : cay_session_record_put(db, &self->session, err)) &&
                                      cay_import_put_snapshots(self, true, err),
                                  err);
}

static bool acknowledge(struct cay_import *self, struct cay_error *err)
{
    struct cay_db *db = self->host->db;
    if (self->is_existing)
        return cay_import_continue(self, err);
    self->session.state = CAY_SESSION_ACTIVE;
    return cay_db_transaction_begin(db, err) &&
           cay_db_transaction_end(
               db,
               cay_import_put_snapshots(self, false, err) &&
                   cay_session_record_put(db, &self->session, err) &&
                   (!self->makes_base || cay_base_record_keep(db, &self->base_spec, err)),
               err);
}

static void undo(struct cay_import *self)
{
    struct cay_host *host = self->host;
    struct cay_error err = {};
    bool is_good =
        self->is_existing || cay_store_destroy(host->store, self->session.store_id, &err);
    for (size_t i = 0; is_good && i < self->snapshot_count; i++) {
        is_good =
            cay_store_delete_snapshot(host->store, self->snapshots[i].store_id, &err) &&
            cay_snapshot_record_delete(host->db, self->session.id, self->snapshots[i].name, &err);
    }
    if (self->is_existing)
        is_good = is_good && cay_store_delete_snapshot(host->store, self->live.store_id, &err) &&
                  cay_snapshot_record_delete(host->db, self->session.id, self->live.name, &err);
    else
        is_good = is_good && cay_session_record_delete(host->db, self->session.id, &err);
    struct cay_error ignored = {};
    if (self->is_base_made)
        (void)cay_store_base_remove(host->store, self->base, &ignored);
    if (self->is_base_recorded)
        is_good = cay_base_record_take_back(host->db, self->base, &err) && is_good;
    if (!is_good)
        cay_log(CAY_WARN, "import.undo_failed", CAY_S("session", self->session.id), CAY_ERR(&err));
}

bool cay_import_apply(struct cay_import *self, struct cay_error *err)
{
    struct applying applying = {
        .import = self,
        .live_section = self->manifest.point_count + 1,
        .section = SIZE_MAX,
        .root_fd = -1,
        .draft.root_fd = -1,
        .unpack.root_fd = -1,
        .err = err,
    };
    if (!self->is_existing)
        self->session.generation = CAY_STORE_GENERATION_FIRST;
    bool is_good = (!self->is_existing || cay_import_check_existing(self, err)) &&
                   write_down(self, err) && apply_all(&applying) &&
                   (self->is_existing ||
                    cay_quota_set(self->host, self->session.store_id, self->disk_bytes, err));
    (void)cay_stop_watch(NULL); /* from here on it is put right, or taken back */
    close_root(&applying);
    if (applying.draft.root_fd >= 0)
        cay_store_base_abort(self->host->store, &applying.draft);
    drop_tree(&applying);
    is_good = is_good && acknowledge(self, err);
    if (!is_good)
        undo(self);
    return is_good || cay_wrap(err, "import session '%s'", self->session.id);
}
