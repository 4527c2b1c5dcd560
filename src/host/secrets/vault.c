/* SPDX-License-Identifier: Apache-2.0 */
#include "host/secrets/vault.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

enum { SEALED_BYTES_MAX = CAY_VAULT_VALUE_BYTES_MAX + CAY_SEAL_EXTRA_BYTES };

/* --- entries --- */

static struct cay_vault_entry *new_entry(struct cay_str owner, struct cay_str name)
{
    struct cay_vault_entry *entry = cay_new(struct cay_vault_entry);
    snprintf(entry->owner, sizeof(entry->owner), "%.*s", (int)owner.len, owner.ptr);
    snprintf(entry->name, sizeof(entry->name), "%.*s", (int)name.len, name.ptr);
    snprintf(entry->key, sizeof(entry->key), "%s/%s", entry->owner, entry->name);
    cay_buf_init(&entry->sealed, SEALED_BYTES_MAX);
    return entry;
}

void cay_vault_entry_free(struct cay_vault_entry *entry)
{
    if (!entry)
        return;
    cay_buf_finish(&entry->sealed);
    free(entry);
}

struct cay_vault_entry *cay_vault_add(struct cay_vault *vault, struct cay_vault_entry *entry)
{
    struct cay_vault_entry *old = cay_map_put(&vault->by_key, cay_str(entry->key), entry);
    struct cay_list_node *place = NULL;
    if (old) {
        entry->last_used_ns = CAY_MAX(entry->last_used_ns, old->last_used_ns);
        entry->is_dirty = old->is_dirty;
        cay_list_remove(&old->in_vault);
        cay_vault_entry_free(old);
    }
    cay_list_for_each (struct cay_vault_entry, other, &vault->list, in_vault) {
        if (strcmp(other->key, entry->key) > 0)
            break;
        place = &other->in_vault;
    }
    if (place)
        cay_list_insert_after(place, &entry->in_vault);
    else
        cay_list_push_front(&vault->list, &entry->in_vault);
    return entry;
}

static bool load(struct cay_vault *vault, struct cay_db *db, struct cay_error *err)
{
    struct cay_db_query query;
    cay_db_begin(&query, db,
                 "SELECT owner, name, sealed, created_ns, changed_ns, last_used_ns FROM secrets");
    while (cay_db_row(&query)) {
        struct cay_str owner = cay_db_text(&query, 0);
        struct cay_str name = cay_db_text(&query, 1);
        struct cay_str sealed = cay_db_blob(&query, 2);
        if (!cay_id_valid(owner) || !cay_id_valid(name) || sealed.len > SEALED_BYTES_MAX)
            continue; /* damaged: nobody's, and harmless as a row */
        struct cay_vault_entry *entry = new_entry(owner, name);
        cay_buf_append_str(&entry->sealed, sealed);
        entry->created_ns = cay_db_int(&query, 3);
        entry->changed_ns = cay_db_int(&query, 4);
        entry->last_used_ns = cay_db_int(&query, 5);
        cay_vault_add(vault, entry);
    }
    return cay_db_end(&query, err) || cay_wrap(err, "read the secrets");
}

bool cay_vault_init(struct cay_vault *vault, struct cay_db *db, int data_fd, const char *key_path,
                    struct cay_error *err)
{
    cay_list_init(&vault->list);
    cay_map_init(&vault->by_key);
    vault->share = (struct cay_share){.threads_max = 1};
    vault->lane = (struct cay_lane){.share = &vault->share};
    if (!cay_seal_open(&vault->seal, data_fd, key_path, err))
        return false;
    if (load(vault, db, err))
        return true;
    cay_vault_finish(vault);
    return false;
}

void cay_vault_finish(struct cay_vault *vault)
{
    if (!vault->list.head.next)
        return;
    cay_list_for_each (struct cay_vault_entry, entry, &vault->list, in_vault)
        cay_vault_entry_free(entry);
    cay_list_init(&vault->list);
    cay_map_finish(&vault->by_key);
    cay_seal_finish(&vault->seal);
}

/* --- values --- */

static struct cay_str about(const struct cay_vault_entry *entry)
{
    return cay_str(entry->key); /* neither of the two has a slash */
}

/* What may stand in a header as it is, and comes out of it the same. */
static bool is_value(struct cay_str value)
{
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        bool is_blank = c == ' ' || c == '\t';
        if ((c < 0x20 && c != '\t') || c == 0x7F)
            return false;
        if (is_blank && (i == 0 || i == value.len - 1))
            return false;
    }
    return value.len && value.len <= CAY_VAULT_VALUE_BYTES_MAX;
}

bool cay_vault_entry_make(struct cay_vault *vault, const char *owner, const char *name,
                          struct cay_str value, struct cay_vault_entry **out_entry,
                          struct cay_error *err)
{
    if (!is_value(value))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "value: 1 to %d bytes, no control characters, and no blank at either end",
                        CAY_VAULT_VALUE_BYTES_MAX);
    if (!cay_seal_need(&vault->seal, err))
        return false;
    struct cay_vault_entry *entry = new_entry(cay_str(owner), cay_str(name));
    entry->created_ns = entry->changed_ns = cay_clock_wall_ns();
    if (!cay_seal_wrap(&vault->seal, about(entry), value, &entry->sealed, err)) {
        cay_vault_entry_free(entry);
        return false;
    }
    *out_entry = entry;
    return true;
}

bool cay_vault_take(const struct cay_vault *vault, const struct cay_vault_entry *entry,
                    struct cay_secret *out_value, struct cay_error *err)
{
    return cay_seal_unwrap(&vault->seal, about(entry), cay_buf_str(&entry->sealed), out_value,
                           err) ||
           cay_wrap(err, "secret '%s' cannot be read and has to be set again", entry->name);
}

void cay_vault_used(struct cay_vault_entry *entry)
{
    int64_t now_ns = cay_clock_wall_ns();
    /* To the minute: exact times would cost a write per request. */
    if (now_ns - entry->last_used_ns <= 60 * CAY_NS_PER_SEC)
        return;
    entry->last_used_ns = now_ns;
    entry->is_dirty = true;
}

/* --- which there are --- */

struct cay_vault_entry *cay_vault_find(const struct cay_vault *vault, const char *owner,
                                       struct cay_str name)
{
    char key[CAY_VAULT_ENTRY_KEY_BYTES];
    if (!cay_id_valid(name))
        return NULL;
    snprintf(key, sizeof(key), "%s/%.*s", owner, (int)name.len, name.ptr);
    return cay_map_get(&vault->by_key, cay_str(key));
}

struct cay_vault_entry *cay_vault_next(const struct cay_vault *vault, const char *owner,
                                       const struct cay_vault_entry *at)
{
    struct cay_list_node *node =
        at ? cay_list_next(&vault->list, &at->in_vault) : cay_list_first(&vault->list);
    for (; node; node = cay_list_next(&vault->list, node)) {
        struct cay_vault_entry *entry = CAY_CONTAINER_OF(node, struct cay_vault_entry, in_vault);
        if (strcmp(entry->owner, owner) == 0)
            return entry;
    }
    return NULL;
}

void cay_vault_remove(struct cay_vault *vault, const char *owner, const char *name)
{
    struct cay_vault_entry *entry = cay_vault_find(vault, owner, cay_str(name));
    if (!entry)
        return;
    cay_map_remove(&vault->by_key, cay_str(entry->key));
    cay_list_remove(&entry->in_vault);
    cay_vault_entry_free(entry);
}

/* --- the database --- */

/* How many others the owner has, and since when this one. */
static bool look(struct cay_vault_entry *entry, struct cay_db *db, int64_t *out_others,
                 struct cay_error *err)
{
    struct cay_db_query query;
    cay_db_begin(&query, db, "SELECT name = ?, created_ns FROM secrets WHERE owner = ?");
    cay_db_bind_text(&query, cay_str(entry->name));
    cay_db_bind_text(&query, cay_str(entry->owner));
    *out_others = 0;
    while (cay_db_row(&query)) {
        if (cay_db_int(&query, 0))
            entry->created_ns = cay_db_int(&query, 1);
        else
            ++*out_others;
    }
    return cay_db_end(&query, err);
}

static bool upsert(struct cay_vault_entry *entry, struct cay_db *db, struct cay_error *err)
{
    struct cay_db_query query;
    int64_t others = 0;
    if (!look(entry, db, &others, err))
        return false;
    if (others >= CAY_VAULT_OWNER_MAX)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "owner '%s' has %d secrets, which is the most; remove one ('cay secret "
                        "rm')",
                        entry->owner, CAY_VAULT_OWNER_MAX);
    cay_db_begin(&query, db,
                 "INSERT INTO secrets (owner, name, sealed, created_ns, changed_ns, last_used_ns)"
                 " VALUES (?, ?, ?, ?, ?, 0) ON CONFLICT (owner, name) DO UPDATE"
                 " SET sealed = excluded.sealed, changed_ns = excluded.changed_ns");
    cay_db_bind_text(&query, cay_str(entry->owner));
    cay_db_bind_text(&query, cay_str(entry->name));
    cay_db_bind_blob(&query, cay_buf_str(&entry->sealed));
    cay_db_bind_int(&query, entry->created_ns);
    cay_db_bind_int(&query, entry->changed_ns);
    return cay_db_end(&query, err);
}

bool cay_vault_put(struct cay_vault_entry *entry, struct cay_db *db, struct cay_error *err)
{
    return cay_db_transaction_begin_durable(db, err) &&
           cay_db_transaction_end(db, upsert(entry, db, err), err);
}

static bool unrecord(const char *owner, const char *name, struct cay_db *db, struct cay_error *err)
{
    struct cay_db_query query;
    cay_db_begin(&query, db, "DELETE FROM secrets WHERE owner = ? AND name = ?");
    cay_db_bind_text(&query, cay_str(owner));
    cay_db_bind_text(&query, cay_str(name));
    return cay_db_end(&query, err);
}

bool cay_vault_delete(const char *owner, const char *name, struct cay_db *db, struct cay_error *err)
{
    return (cay_db_transaction_begin_durable(db, err) &&
            cay_db_transaction_end(db, unrecord(owner, name, db, err), err)) ||
           cay_wrap(err, "remove the secret");
}

bool cay_vault_write_use(const char *owner, const char *name, int64_t last_used_ns,
                         struct cay_db *db, struct cay_error *err)
{
    struct cay_db_query query;
    cay_db_begin(&query, db,
                 "UPDATE secrets SET last_used_ns = max(last_used_ns, ?)"
                 " WHERE owner = ? AND name = ?");
    cay_db_bind_int(&query, last_used_ns);
    cay_db_bind_text(&query, cay_str(owner));
    cay_db_bind_text(&query, cay_str(name));
    return cay_db_end(&query, err) || cay_wrap(err, "record the use of a secret");
}
