/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/record.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "api/limits.h"
#include "host/runtime/runtime.h"

enum { SPEC_BYTES_MAX = 2 * 1024 * 1024 };

void cay_session_record_take(struct cay_session_record *out_record,
                             const struct cay_session *session)
{
    *out_record = (struct cay_session_record){
        .state = session->state,
        .created_ns = session->created_ns,
        .uid_slot = session->uid_slot,
        .turn_count = session->turn_count,
        .branch_count = session->branch_count,
        .generation = session->generation,
    };
    memcpy(out_record->id, session->id, sizeof(session->id));
    memcpy(out_record->owner, session->owner, sizeof(session->owner));
    memcpy(out_record->store_id, session->store_id, sizeof(session->store_id));
    memcpy(out_record->head, session->head, sizeof(session->head));
    cay_buf_init(&out_record->spec, SPEC_BYTES_MAX);
    cay_buf_init(&out_record->sandbox, SPEC_BYTES_MAX);
    cay_buf_init(&out_record->restore, CAY_LIMIT_MESSAGE_BYTES);
    int status = cay_pb_encode(&cay_v1_session_desc, session->spec, &out_record->spec);
    assert(status == 0); /* it came through the codec with a smaller bound */
    (void)status;
    const struct cay_sandbox *sandbox = session->sandbox;
    if (sandbox)
        cay_sandbox_describe(sandbox, &out_record->sandbox);
}

bool cay_session_record_set_spec(struct cay_session_record *record,
                                 const struct cay_v1_session *spec, struct cay_error *err)
{
    cay_buf_clear(&record->spec, SIZE_MAX);
    return cay_pb_encode(&cay_v1_session_desc, spec, &record->spec) == 0 ||
           cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "session '%s'", record->id);
}

bool cay_snapshot_record_take(struct cay_snapshot_record *out_record,
                              const struct cay_session *session,
                              const struct cay_snapshot *snapshot,
                              const struct cay_v1_snapshot *spec, struct cay_error *err)
{
    *out_record = (struct cay_snapshot_record){.created_ns = snapshot->created_ns};
    memcpy(out_record->session_id, session->id, sizeof(out_record->session_id));
    memcpy(out_record->name, snapshot->name, sizeof(out_record->name));
    memcpy(out_record->store_id, snapshot->store_id, sizeof(out_record->store_id));
    memcpy(out_record->request_id, snapshot->request_id, sizeof(out_record->request_id));
    cay_buf_init(&out_record->spec, SPEC_BYTES_MAX);
    return cay_pb_encode(&cay_v1_snapshot_desc, spec, &out_record->spec) == 0 ||
           cay_fail(err, CAY_R_INTERNAL, "encode snapshot '%s'", snapshot->name);
}

struct cay_v1_snapshot cay_snapshot_without_words(const struct cay_v1_snapshot *spec)
{
    struct cay_v1_snapshot rest = *spec;
    rest.message = CAY_STR("");
    rest.metadata = NULL;
    return rest;
}

bool cay_snapshot_record_set_spec(struct cay_snapshot_record *record,
                                  const struct cay_v1_snapshot *spec, struct cay_error *err)
{
    const struct cay_v1_snapshot words = {.message = spec->message, .metadata = spec->metadata};
    const struct cay_v1_snapshot rest = cay_snapshot_without_words(spec);
    cay_buf_finish(&record->spec);
    cay_buf_finish(&record->words);
    cay_buf_init(&record->spec, SPEC_BYTES_MAX);
    cay_buf_init(&record->words, SPEC_BYTES_MAX);
    record->has_words = true;
    return (cay_pb_encode(&cay_v1_snapshot_desc, &rest, &record->spec) == 0 &&
            cay_pb_encode(&cay_v1_snapshot_desc, &words, &record->words) == 0) ||
           cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "message and metadata are too large");
}

void cay_snapshot_record_drop_words(struct cay_snapshot_record *record)
{
    cay_buf_finish(&record->words);
    record->has_words = false;
}

void cay_session_record_finish(struct cay_session_record *record)
{
    cay_buf_finish(&record->spec);
    cay_buf_finish(&record->sandbox);
    cay_buf_finish(&record->restore);
}

void cay_snapshot_record_finish(struct cay_snapshot_record *record)
{
    cay_buf_finish(&record->spec);
    cay_buf_finish(&record->words);
}

bool cay_session_record_put(struct cay_db *db, const struct cay_session_record *record,
                            struct cay_error *err)
{
    struct cay_db_query query;
    cay_db_begin(&query, db,
                 "INSERT INTO sessions (id, owner, store_id, state, created_ns, uid_slot,"
                 " turn_count, branch_count, head, pending, generation, spec, sandbox, restore)"
                 " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                 " ON CONFLICT (id) DO UPDATE SET state = excluded.state,"
                 " turn_count = excluded.turn_count, branch_count = excluded.branch_count,"
                 " head = excluded.head, pending = excluded.pending,"
                 " generation = excluded.generation, spec = excluded.spec,"
                 " sandbox = excluded.sandbox, restore = excluded.restore");
    cay_db_bind_text(&query, cay_str(record->id));
    cay_db_bind_text(&query, cay_str(record->owner));
    cay_db_bind_text(&query, cay_str(record->store_id));
    cay_db_bind_int(&query, (int64_t)record->state);
    cay_db_bind_int(&query, record->created_ns);
    cay_db_bind_int(&query, record->uid_slot);
    cay_db_bind_int(&query, record->turn_count);
    cay_db_bind_int(&query, record->branch_count);
    cay_db_bind_text(&query, cay_str(record->head));
    cay_db_bind_text(&query, cay_str(record->pending));
    cay_db_bind_int(&query, (int64_t)record->generation);
    cay_db_bind_blob(&query, cay_buf_str(&record->spec));
    cay_db_bind_blob(&query, cay_buf_str(&record->sandbox));
    cay_db_bind_blob(&query, cay_buf_str(&record->restore));
    return cay_db_end(&query, err) || cay_wrap(err, "record session '%s'", record->id);
}

bool cay_session_record_put_head(struct cay_db *db, const char *id, const char *head,
                                 struct cay_error *err)
{
    struct cay_db_query query;
    cay_db_begin(&query, db, "UPDATE sessions SET head = ? WHERE id = ?");
    cay_db_bind_text(&query, cay_str(head));
    cay_db_bind_text(&query, cay_str(id));
    return cay_db_end(&query, err) || cay_wrap(err, "record session '%s'", id);
}

bool cay_session_record_put_tokens(struct cay_db *db, const char *id, int64_t revoked_ns,
                                   struct cay_error *err)
{
    struct cay_db_query query;
    cay_db_begin(&query, db,
                 "UPDATE sessions SET tokens_revoked_ns = max(tokens_revoked_ns, ?) WHERE id = ?");
    cay_db_bind_int(&query, revoked_ns);
    cay_db_bind_text(&query, cay_str(id));
    return cay_db_end(&query, err) ||
           cay_wrap(err, "record that the tokens of session '%s' are revoked", id);
}

bool cay_snapshot_record_put(struct cay_db *db, const struct cay_snapshot_record *record,
                             struct cay_error *err)
{
    struct cay_db_query query;
    cay_db_begin(&query, db,
                 "INSERT INTO snapshots (session_id, name, store_id, is_pending, created_ns, spec,"
                 " request_id, words) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                 " ON CONFLICT (session_id, name) DO UPDATE SET"
                 " store_id = excluded.store_id, created_ns = excluded.created_ns,"
                 " request_id = excluded.request_id,"
                 " is_pending = excluded.is_pending, spec = excluded.spec,"
                 " words = coalesce(excluded.words, words, spec)");
    cay_db_bind_text(&query, cay_str(record->session_id));
    cay_db_bind_text(&query, cay_str(record->name));
    cay_db_bind_text(&query, cay_str(record->store_id));
    cay_db_bind_int(&query, record->is_pending);
    cay_db_bind_int(&query, record->created_ns);
    cay_db_bind_blob(&query, cay_buf_str(&record->spec));
    cay_db_bind_text(&query, cay_str(record->request_id));
    if (record->has_words)
        cay_db_bind_blob(&query, cay_buf_str(&record->words));
    else
        cay_db_bind_null(&query);
    return cay_db_end(&query, err) ||
           cay_wrap(err, "record snapshot '%s' of '%s'", record->name, record->session_id);
}

static bool decode_words(struct cay_str bytes, struct cay_arena *arena,
                         struct cay_v1_snapshot *message, struct cay_error *err)
{
    /* The decoded message borrows from its bytes, which are the query's. */
    struct cay_str kept = cay_arena_str(arena, bytes);
    struct cay_v1_snapshot words = {};
    int status = bytes.len && !kept.len ? -ENOMEM
                                        : cay_pb_decode(&cay_v1_snapshot_desc, kept, arena, &words);
    if (status == -ENOMEM)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "message and metadata are too large");
    if (status < 0)
        words = (struct cay_v1_snapshot){.message = CAY_STR("(what was said of it is damaged)")};
    message->message = words.message;
    message->metadata = words.metadata;
    return true;
}

bool cay_snapshot_read_words(struct cay_db *db, struct cay_str session_id, struct cay_str name,
                             struct cay_arena *arena, struct cay_v1_snapshot *message,
                             bool *out_is_there, struct cay_error *err)
{
    struct cay_db_query query;
    struct cay_error read_err = {};
    cay_db_begin(&query, db,
                 "SELECT coalesce(words, spec) FROM snapshots WHERE session_id = ? AND name = ?");
    cay_db_bind_text(&query, session_id);
    cay_db_bind_text(&query, name);
    bool is_there = cay_db_row(&query);
    bool is_good = !is_there || decode_words(cay_db_blob(&query, 0), arena, message, err);
    if (out_is_there)
        *out_is_there = is_there;
    bool is_read = cay_db_end(&query, &read_err);
    if (is_good && !is_read)
        *err = read_err;
    return (is_good && is_read) ||
           cay_wrap(err, "snapshot '%.*s'", (int)name.len, name.len ? name.ptr : "");
}

bool cay_session_record_delete(struct cay_db *db, const char *id, struct cay_error *err)
{
    struct cay_db_query query;
    cay_db_begin(&query, db, "DELETE FROM sessions WHERE id = ?"); /* snapshots go by cascade */
    cay_db_bind_text(&query, cay_str(id));
    return cay_db_end(&query, err) || cay_wrap(err, "remove the record of session '%s'", id);
}

bool cay_snapshot_record_delete(struct cay_db *db, const char *session_id, const char *name,
                                struct cay_error *err)
{
    struct cay_db_query query;
    cay_db_begin(&query, db, "DELETE FROM snapshots WHERE session_id = ? AND name = ?");
    cay_db_bind_text(&query, cay_str(session_id));
    cay_db_bind_text(&query, cay_str(name));
    return cay_db_end(&query, err) || cay_wrap(err, "remove the record of snapshot '%s'", name);
}

static void copy_text(char *out, size_t size, struct cay_str text)
{
    snprintf(out, size, "%.*s", (int)text.len, text.len ? text.ptr : "");
}

bool cay_session_records_load(struct cay_db *db, cay_session_record_fn *visit, void *context,
                              struct cay_error *err)
{
    struct cay_db_query query;
    bool is_good = true;
    cay_db_begin(&query, db,
                 "SELECT id, owner, store_id, state, created_ns, uid_slot, turn_count,"
                 " branch_count, head, generation, spec, sandbox, pending, restore,"
                 " tokens_revoked_ns"
                 " FROM sessions ORDER BY created_ns, id");
    while (is_good && cay_db_row(&query)) {
        struct cay_session_record record = {
            .state = (enum cay_session_state)cay_db_int(&query, 3),
            .created_ns = cay_db_int(&query, 4),
            .uid_slot = (uint32_t)cay_db_int(&query, 5),
            .turn_count = cay_db_int(&query, 6),
            .branch_count = cay_db_int(&query, 7),
            .generation = (uint64_t)cay_db_int(&query, 9),
            .tokens_revoked_ns = cay_db_int(&query, 14),
        };
        copy_text(record.id, sizeof(record.id), cay_db_text(&query, 0));
        copy_text(record.owner, sizeof(record.owner), cay_db_text(&query, 1));
        copy_text(record.store_id, sizeof(record.store_id), cay_db_text(&query, 2));
        copy_text(record.head, sizeof(record.head), cay_db_text(&query, 8));
        copy_text(record.pending, sizeof(record.pending), cay_db_text(&query, 12));
        cay_buf_init(&record.spec, SPEC_BYTES_MAX);
        cay_buf_init(&record.sandbox, SPEC_BYTES_MAX);
        cay_buf_init(&record.restore, CAY_LIMIT_MESSAGE_BYTES);
        cay_buf_append_str(&record.spec, cay_db_blob(&query, 10));
        cay_buf_append_str(&record.sandbox, cay_db_blob(&query, 11));
        cay_buf_append_str(&record.restore, cay_db_blob(&query, 13));
        is_good = visit(context, &record, err);
    }
    struct cay_error end_err = {};
    bool is_read = cay_db_end(&query, &end_err);
    if (is_good && !is_read)
        *err = end_err;
    return is_good && is_read;
}

bool cay_snapshot_records_load(struct cay_db *db, cay_snapshot_record_fn *visit, void *context,
                               struct cay_error *err)
{
    struct cay_db_query query;
    bool is_good = true;
    cay_db_begin(&query, db,
                 "SELECT session_id, name, store_id, is_pending, created_ns, spec, request_id"
                 " FROM snapshots ORDER BY created_ns, name");
    while (is_good && cay_db_row(&query)) {
        struct cay_snapshot_record record = {
            .is_pending = cay_db_int(&query, 3) != 0,
            .created_ns = cay_db_int(&query, 4),
        };
        copy_text(record.session_id, sizeof(record.session_id), cay_db_text(&query, 0));
        copy_text(record.name, sizeof(record.name), cay_db_text(&query, 1));
        copy_text(record.store_id, sizeof(record.store_id), cay_db_text(&query, 2));
        copy_text(record.request_id, sizeof(record.request_id), cay_db_text(&query, 6));
        cay_buf_init(&record.spec, SPEC_BYTES_MAX);
        cay_buf_append_str(&record.spec, cay_db_blob(&query, 5));
        is_good = visit(context, &record, err);
    }
    struct cay_error end_err = {};
    bool is_read = cay_db_end(&query, &end_err);
    if (is_good && !is_read)
        *err = end_err;
    return is_good && is_read;
}
