/* SPDX-License-Identifier: Apache-2.0 */
#include "host/base/base_record.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/noun.h"
#include "base/crash.h"
#include "base/log.h"
#include "host/owner/account.h"
#include "host/session/access.h"
#include "host/session/host.h"

enum { SPEC_BYTES_MAX = 2 * 1024 * 1024 };

/* The store's names have neither '/' nor ':'. */
static const struct {
    char shown;
    const char *kept;
} escapes[] = {{'/', CAY_STORE_FOR_SLASH}, {':', CAY_STORE_FOR_COLON}};

bool cay_base_key(struct cay_str name, char out_key[static CAY_STORE_NAME_SIZE])
{
    size_t len = 0;
    char last = '/';
    out_key[0] = '\0';
    for (size_t i = 0; i < name.len; i++) {
        const char one[2] = {name.ptr[i], '\0'};
        const char *kept = one;
        for (size_t j = 0; j < CAY_COUNT(escapes); j++)
            kept = name.ptr[i] == escapes[j].shown ? escapes[j].kept : kept;
        /* Each part is a name of its own: it begins with a letter or a digit. */
        if ((last == '/' || last == ':') && strchr("._-/:", name.ptr[i]))
            return false;
        last = name.ptr[i];
        if (len + strlen(kept) >= CAY_STORE_NAME_SIZE)
            return false;
        memcpy(out_key + len, kept, strlen(kept) + 1);
        len += strlen(kept);
    }
    for (size_t j = 0; j < CAY_COUNT(escapes); j++) {
        if (name.len && memmem(name.ptr, name.len, escapes[j].kept, strlen(escapes[j].kept)))
            return false; /* would be taken for the other one */
    }
    return last != '/' && last != ':' && cay_store_base_name_valid(out_key);
}

struct cay_str cay_base_shown(const char *key, struct cay_arena *arena)
{
    char shown[CAY_STORE_NAME_SIZE];
    cay_store_base_shown(key, shown);
    return cay_arena_str(arena, cay_str(shown));
}

bool cay_base_key_of_owner(const char *owner, struct cay_str name,
                           char out_key[static CAY_STORE_NAME_SIZE])
{
    char full[CAY_STORE_NAME_SIZE];
    int len = snprintf(full, sizeof(full), "%s/%.*s", owner, (int)CAY_MIN(name.len, sizeof(full)),
                       name.len ? name.ptr : "");
    return len > 0 && (size_t)len < sizeof(full) && cay_base_key(cay_str(full), out_key);
}

void cay_base_full_name(const struct cay_host *host, const char *key,
                        char out[static CAY_BASE_FULL_NAME_SIZE])
{
    char shown[CAY_STORE_NAME_SIZE];
    const struct cay_v1_base *record = cay_bases_record(host, key);
    bool is_bare = record && record->owner.len && !strstr(key, CAY_STORE_FOR_SLASH);
    cay_store_base_shown(key, shown);
    if (is_bare)
        snprintf(out, CAY_BASE_FULL_NAME_SIZE, "%.*s/%s", (int)record->owner.len, record->owner.ptr,
                 shown);
    else
        snprintf(out, CAY_BASE_FULL_NAME_SIZE, "%s", shown);
}

const struct cay_v1_base *cay_bases_record(const struct cay_host *host, const char *key)
{
    const struct cay_base_entry *entry = cay_map_get(&host->bases, cay_str(key));
    return entry ? entry->spec : NULL;
}

const struct cay_v1_base *cay_bases_find(const struct cay_host *host, struct cay_str name)
{
    char key[CAY_STORE_NAME_SIZE];
    char resolved[CAY_STORE_NAME_SIZE];
    struct cay_error ignored = {};
    if (!cay_base_key(name, key) || !cay_store_base_resolve(host->store, key, resolved, &ignored))
        return NULL;
    return cay_bases_record(host, resolved);
}

int64_t cay_base_own_bytes(const struct cay_v1_base *spec)
{
    return spec->has_own_bytes ? spec->own_bytes : spec->size_bytes;
}

int64_t cay_bases_bytes(const struct cay_host *host)
{
    int64_t bytes = 0;
    size_t cursor = 0;
    for (const struct cay_base_entry *entry; (entry = cay_map_next(&host->bases, &cursor));)
        bytes += entry->spec->size_bytes;
    return bytes;
}

/* The built-in base is made when it is first asked for: everybody knows of it before. */
static bool is_built_in(const char *key)
{
    return strcmp(key, "host") == 0;
}

/* What `key` of `found` stands for, if the caller may know of it. */
static bool resolve(const struct cay_host *host, const struct cay_caller *caller,
                    struct cay_base_found *found)
{
    struct cay_error ignored = {};
    if (!cay_store_base_resolve(host->store, found->key, found->name, &ignored))
        return false;
    found->record = cay_bases_record(host, found->name);
    return cay_may_know_base(caller, found->name, found->record);
}

static bool find_own(const struct cay_host *host, const struct cay_caller *caller,
                     struct cay_str name, struct cay_base_found *found)
{
    return cay_base_key_of_owner(caller->owner, name, found->key) && resolve(host, caller, found);
}

/* An admin knows of all bases, but does not mean that of somebody who took a well-known name. */
static bool find_as_said(const struct cay_host *host, const struct cay_caller *caller,
                         struct cay_str name, struct cay_base_found *found)
{
    if (!cay_base_key(name, found->key) || !resolve(host, caller, found))
        return false;
    bool is_bare = strcmp(found->key, found->name) == 0 && !strstr(found->key, CAY_STORE_FOR_SLASH);
    return !is_bare || !found->record || !found->record->owner.len ||
           cay_str_is(found->record->owner, caller->owner);
}

/* OWNER/NAME of a base from before names were the owner's own. */
static bool find_old(const struct cay_host *host, const struct cay_caller *caller,
                     struct cay_str name, struct cay_base_found *found)
{
    struct cay_str owner;
    struct cay_str rest = name;
    return cay_str_split(&rest, '/', &owner) && rest.len && cay_base_key(rest, found->key) &&
           resolve(host, caller, found) && strcmp(found->key, found->name) == 0 && found->record &&
           cay_str_equal(found->record->owner, owner);
}

bool cay_bases_look_up(const struct cay_host *host, const struct cay_caller *caller,
                       struct cay_str name, struct cay_base_found *out_found, struct cay_error *err)
{
    struct cay_base_found found = {};
    bool is_there =
        caller->role == CAY_ROLE_ADMIN
            ? find_as_said(host, caller, name, &found) || find_own(host, caller, name, &found)
            : find_own(host, caller, name, &found) || find_as_said(host, caller, name, &found);
    is_there = is_there || find_old(host, caller, name, &found);
    if (!is_there && cay_base_key(name, found.key) && is_built_in(found.key)) {
        memcpy(found.name, found.key, sizeof(found.name));
        found.record = NULL;
        is_there = true;
    }
    if (!is_there)
        return cay_fail(
            err, CAY_R_BASE_NOT_FOUND, "there is no base '%.*s'; 'cay base ls' lists the bases",
            (int)CAY_MIN(name.len, (size_t)CAY_STORE_NAME_SIZE), name.len ? name.ptr : "");
    *out_found = found;
    return true;
}

static void free_entry(struct cay_base_entry *entry)
{
    if (!entry)
        return;
    cay_arena_finish(&entry->arena);
    free(entry);
}

/* For its owner's quota; those of everybody are nobody's. */
static void count(struct cay_host *host, const struct cay_base_entry *entry, int sign)
{
    char owner[CAY_ID_SIZE];
    if (!entry || !entry->spec->owner.len)
        return;
    snprintf(owner, sizeof(owner), "%.*s", (int)entry->spec->owner.len, entry->spec->owner.ptr);
    struct cay_account *account = cay_account_of(host, owner);
    account->bases += sign;
    account->bases_bytes += sign * cay_base_own_bytes(entry->spec);
}

void cay_bases_put(struct cay_host *host, const struct cay_v1_base *spec)
{
    struct cay_base_entry *entry = cay_new(struct cay_base_entry);
    snprintf(entry->name, sizeof(entry->name), "%.*s", (int)spec->name.len, spec->name.ptr);
    cay_arena_init(&entry->arena, 2 * SPEC_BYTES_MAX);
    entry->spec = cay_noun_copy(&cay_v1_base_desc, spec, &entry->arena);
    if (!entry->spec) {
        free_entry(entry);
        return;
    }
    struct cay_base_entry *old = cay_map_put(&host->bases, cay_str(entry->name), entry);
    count(host, old, -1);
    count(host, entry, 1);
    free_entry(old);
}

void cay_bases_remove(struct cay_host *host, const char *name)
{
    struct cay_base_entry *entry = cay_map_remove(&host->bases, cay_str(name));
    count(host, entry, -1);
    free_entry(entry);
}

void cay_bases_finish(struct cay_map *bases)
{
    size_t cursor = 0;
    for (struct cay_base_entry *entry; (entry = cay_map_next(bases, &cursor));)
        free_entry(entry);
    cay_map_finish(bases);
}

static bool put(struct cay_db *db, struct cay_str key, enum cay_base_record_state state,
                const struct cay_v1_base *spec, struct cay_error *err)
{
    cay_auto(cay_buf_finish) struct cay_buf bytes;
    struct cay_db_query query;
    cay_buf_init(&bytes, SPEC_BYTES_MAX);
    if (cay_pb_encode(&cay_v1_base_desc, spec, &bytes) < 0)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "labels and settings are too large");
    cay_db_begin(&query, db,
                 state == CAY_BASE_NEW ? "INSERT INTO bases (name, state, spec) VALUES (?, ?, ?)"
                                         " ON CONFLICT (name) DO NOTHING RETURNING 1"
                                       : "INSERT INTO bases (name, state, spec) VALUES (?, ?, ?)"
                                         " ON CONFLICT (name) DO UPDATE SET state = excluded.state,"
                                         " spec = excluded.spec RETURNING 1");
    cay_db_bind_text(&query, key);
    cay_db_bind_int(&query, state);
    cay_db_bind_blob(&query, cay_buf_str(&bytes));
    bool is_put = cay_db_row(&query);
    if (!cay_db_end(&query, err))
        return cay_wrap(err, "record the base");
    return is_put || cay_fail(err, CAY_R_BASE_EXISTS, NULL);
}

bool cay_base_record_add(struct cay_db *db, const struct cay_v1_base *spec, struct cay_error *err)
{
    return put(db, spec->name, CAY_BASE_NEW, spec, err);
}

bool cay_base_record_keep(struct cay_db *db, const struct cay_v1_base *spec, struct cay_error *err)
{
    return put(db, spec->name, CAY_BASE_KEPT, spec, err);
}

/* Not that of one which has taken the name's place meanwhile. */
bool cay_base_record_take_back(struct cay_db *db, const char *name, struct cay_error *err)
{
    struct cay_db_query query;
    cay_db_begin(&query, db, "DELETE FROM bases WHERE name = ? AND state = ?");
    cay_db_bind_text(&query, cay_str(name));
    cay_db_bind_int(&query, CAY_BASE_NEW);
    return cay_db_end(&query, err) || cay_wrap(err, "take back the record of a base");
}

bool cay_base_record_delete(struct cay_db *db, const char *name, struct cay_error *err)
{
    struct cay_db_query query;
    cay_db_begin(&query, db, "DELETE FROM bases WHERE name = ?");
    cay_db_bind_text(&query, cay_str(name));
    return cay_db_end(&query, err) || cay_wrap(err, "remove the record of a base");
}

/* No base has a name that begins with a dot. */
enum { BESIDE_SIZE = 1 + CAY_STORE_ID_SIZE + CAY_STORE_NAME_SIZE };

static void name_beside(const char *draft_id, struct cay_str name, char out[static BESIDE_SIZE])
{
    snprintf(out, BESIDE_SIZE, ".%.16s.%.*s", draft_id, (int)name.len, name.ptr);
}

bool cay_base_record_begin_replace(struct cay_db *db, const char *draft_id,
                                   const struct cay_v1_base *spec, struct cay_error *err)
{
    char key[BESIDE_SIZE];
    name_beside(draft_id, spec->name, key);
    if (!put(db, cay_str(key), CAY_BASE_REPLACING, spec, err))
        return false;
    CAY_CRASH_POINT("replace.recorded");
    return true;
}

bool cay_base_record_end_replace(struct cay_db *db, const char *draft_id,
                                 const struct cay_v1_base *spec, struct cay_error *err)
{
    char key[BESIDE_SIZE];
    name_beside(draft_id, spec->name, key);
    if (!put(db, spec->name, CAY_BASE_KEPT, spec, err))
        return false;
    CAY_CRASH_POINT("replace.kept");
    return cay_base_record_delete(db, key, err);
}

bool cay_base_record_abort_replace(struct cay_db *db, const char *draft_id, const char *name,
                                   struct cay_error *err)
{
    char key[BESIDE_SIZE];
    name_beside(draft_id, cay_str(name), key);
    return cay_base_record_delete(db, key, err);
}

/* The record beside becomes the base's when the store has switched to its draft. */
static bool settle(struct cay_host *host, const char *key, struct cay_error *err)
{
    char id[CAY_STORE_ID_SIZE];
    char found[CAY_STORE_ID_SIZE];
    struct cay_error ignored = {};
    const char *name = key + CAY_STORE_ID_SIZE + 1;
    bool is_named = strlen(key) > CAY_STORE_ID_SIZE + 1 && key[CAY_STORE_ID_SIZE] == '.';
    snprintf(id, sizeof(id), "%.16s", key + 1);
    if (is_named && cay_store_base_id(host->store, name, found, &ignored) && !strcmp(id, found)) {
        struct cay_db_query query;
        cay_db_begin(
            &query, host->db,
            "INSERT INTO bases (name, state, spec)"
            " SELECT ?, ?, spec FROM bases WHERE name = ?"
            " ON CONFLICT (name) DO UPDATE SET state = excluded.state, spec = excluded.spec");
        cay_db_bind_text(&query, cay_str(name));
        cay_db_bind_int(&query, CAY_BASE_KEPT);
        cay_db_bind_text(&query, cay_str(key));
        if (!cay_db_end(&query, err))
            return cay_wrap(err, "record the base");
        CAY_CRASH_POINT("recovery.replaced");
    }
    return cay_base_record_delete(host->db, key, err);
}

static bool settle_all(struct cay_host *host, struct cay_error *err)
{
    for (;;) {
        struct cay_db_query query;
        char key[BESIDE_SIZE] = "";
        cay_db_begin(&query, host->db, "SELECT name FROM bases WHERE name GLOB '.*' LIMIT 1");
        if (cay_db_row(&query)) {
            struct cay_str text = cay_db_text(&query, 0);
            snprintf(key, sizeof(key), "%.*s", (int)text.len, text.ptr);
        }
        if (!cay_db_end(&query, err))
            return false;
        if (!key[0])
            return true;
        if (!settle(host, key, err))
            return false;
    }
}

struct dropped {
    char (*names)[CAY_STORE_NAME_SIZE];
    size_t count;
};

static void load_one(struct cay_host *host, struct cay_db_query *query, struct dropped *dropped)
{
    char name[CAY_STORE_NAME_SIZE];
    char found[CAY_STORE_NAME_SIZE];
    struct cay_error ignored = {};
    struct cay_str text = cay_db_text(query, 0);
    snprintf(name, sizeof(name), "%.*s", (int)text.len, text.len ? text.ptr : "");
    bool is_there =
        cay_store_base_resolve(host->store, name, found, &ignored) && strcmp(name, found) == 0;
    if (cay_db_int(query, 1) == CAY_BASE_NEW || !is_there) {
        dropped->names =
            cay_realloc_array(dropped->names, dropped->count + 1, sizeof(*dropped->names));
        memcpy(dropped->names[dropped->count++], name, sizeof(name));
        return;
    }
    struct cay_v1_base spec;
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, 2 * SPEC_BYTES_MAX);
    /* Whose it is cannot be told: nobody sees it. Sessions on it have its files. */
    if (cay_pb_decode(&cay_v1_base_desc, cay_db_blob(query, 2), &arena, &spec) < 0)
        cay_log(CAY_ERROR, "recovery.base_damaged", CAY_S("base", name));
    else
        cay_bases_put(host, &spec);
}

static bool drop(struct cay_host *host, const char *name, struct cay_error *err)
{
    char found[CAY_STORE_NAME_SIZE];
    struct cay_error ignored = {};
    cay_log(CAY_INFO, "recovery.unfinished_base", CAY_S("base", name));
    if (cay_store_base_resolve(host->store, name, found, &ignored) && strcmp(name, found) == 0 &&
        !cay_store_base_remove(host->store, name, err))
        return false;
    return cay_base_record_delete(host->db, name, err);
}

bool cay_bases_recover(struct cay_host *host, struct cay_error *err)
{
    struct cay_db_query query;
    struct dropped dropped = {};
    if (!settle_all(host, err))
        return false;
    cay_db_begin(&query, host->db, "SELECT name, state, spec FROM bases");
    while (cay_db_row(&query))
        load_one(host, &query, &dropped);
    bool is_good = cay_db_end(&query, err);
    for (size_t i = 0; is_good && i < dropped.count; i++)
        is_good = drop(host, dropped.names[i], err);
    free(dropped.names);
    return is_good;
}
