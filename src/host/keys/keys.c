/* SPDX-License-Identifier: Apache-2.0 */
#include "host/keys/keys.h"

#include <assert.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/id.h"

static_assert(CAY_KEY_DIGEST_BYTES == SHA256_DIGEST_LENGTH, "the digest is a SHA-256");

static struct cay_str digest_of(const struct cay_key *key)
{
    return (struct cay_str){(const char *)key->digest, sizeof(key->digest)};
}

void cay_keys_add(struct cay_keys *keys, struct cay_key *key)
{
    cay_list_init(&key->holders);
    cay_list_push_front(&keys->list, &key->in_keys);
    cay_map_put(&keys->by_digest, digest_of(key), key);
    cay_map_put(&keys->by_id, cay_str(key->id), key);
}

static void copy_text(char *out, size_t size, struct cay_str text)
{
    snprintf(out, size, "%.*s", (int)text.len, text.ptr);
}

static bool load(struct cay_keys *keys, struct cay_db *db, struct cay_error *err)
{
    struct cay_db_query query;
    cay_db_begin(&query, db,
                 "SELECT id, digest, prefix, owner, role, name, e2b, created_ns, expires_ns,"
                 " last_used_ns, revoked_ns, may_vouch FROM keys ORDER BY created_ns, id");
    while (cay_db_row(&query)) {
        struct cay_str digest = cay_db_blob(&query, 1);
        if (digest.len != CAY_KEY_DIGEST_BYTES)
            continue; /* damaged: useless as a key, harmless as a row */
        struct cay_key *key = cay_new(struct cay_key);
        copy_text(key->id, sizeof(key->id), cay_db_text(&query, 0));
        memcpy(key->digest, digest.ptr, digest.len);
        copy_text(key->prefix, sizeof(key->prefix), cay_db_text(&query, 2));
        copy_text(key->owner, sizeof(key->owner), cay_db_text(&query, 3));
        key->role = cay_db_int(&query, 4) == CAY_ROLE_ADMIN ? CAY_ROLE_ADMIN : CAY_ROLE_USER;
        copy_text(key->name, sizeof(key->name), cay_db_text(&query, 5));
        key->e2b = cay_db_int(&query, 6) != 0;
        key->created_ns = cay_db_int(&query, 7);
        key->expires_ns = cay_db_int(&query, 8);
        key->last_used_ns = cay_db_int(&query, 9);
        key->revoked_ns = cay_db_int(&query, 10);
        key->may_vouch = cay_db_int(&query, 11) == 1;
        cay_keys_add(keys, key);
    }
    return cay_db_end(&query, err);
}

/* OpenSSL looks its algorithms up by name, which takes longer than the digest of a key does: every
 * request would pay for it. */
static void digest_init(struct cay_keys *keys)
{
    keys->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    keys->digest_context = EVP_MD_CTX_new();
    assert(keys->sha256 && keys->digest_context);
}

bool cay_keys_init(struct cay_keys *keys, struct cay_db *db, struct cay_error *err)
{
    digest_init(keys);
    cay_list_init(&keys->list);
    cay_list_init(&keys->in_use);
    cay_list_init(&keys->lapsed);
    cay_map_init(&keys->by_digest);
    cay_map_init(&keys->by_id);
    if (load(keys, db, err))
        return true;
    cay_keys_finish(keys);
    return cay_wrap(err, "read the API keys");
}

void cay_keys_finish(struct cay_keys *keys)
{
    if (!keys->list.head.next)
        return;
    cay_list_for_each (struct cay_key, key, &keys->list, in_keys)
        free(key);
    cay_list_init(&keys->list);
    cay_map_finish(&keys->by_digest);
    cay_map_finish(&keys->by_id);
    EVP_MD_CTX_free(cay_take_ptr(keys->digest_context));
    EVP_MD_free(cay_take_ptr(keys->sha256));
}

struct cay_key *cay_key_make(const char *owner, enum cay_role role, const char *name, bool e2b,
                             int64_t expires_ns, char out_secret[CAY_KEY_SECRET_BYTES])
{
    unsigned char random[20];
    cay_random_bytes(random, sizeof(random));
    snprintf(out_secret, CAY_KEY_SECRET_BYTES, "%s", e2b ? "e2b_" : "cay_");
    cay_hex_encode(random, sizeof(random), out_secret + 4, CAY_KEY_SECRET_BYTES - 4);
    cay_wipe(random, sizeof(random));

    struct cay_key *key = cay_new(struct cay_key);
    cay_id_make(key->id, sizeof(key->id), "key-");
    SHA256((const unsigned char *)out_secret, strlen(out_secret), key->digest);
    snprintf(key->prefix, sizeof(key->prefix), "%.8s", out_secret);
    snprintf(key->owner, sizeof(key->owner), "%s", owner);
    snprintf(key->name, sizeof(key->name), "%s", name);
    key->role = role;
    key->e2b = e2b;
    key->created_ns = cay_clock_wall_ns();
    key->expires_ns = expires_ns;
    return key;
}

bool cay_key_insert(const struct cay_key *key, struct cay_db *db, struct cay_error *err)
{
    struct cay_db_query query;
    cay_db_begin(&query, db, "INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    cay_db_bind_text(&query, cay_str(key->id));
    cay_db_bind_blob(&query, digest_of(key));
    cay_db_bind_text(&query, cay_str(key->prefix));
    cay_db_bind_text(&query, cay_str(key->owner));
    cay_db_bind_int(&query, (int64_t)key->role);
    cay_db_bind_text(&query, cay_str(key->name));
    cay_db_bind_int(&query, key->e2b);
    cay_db_bind_int(&query, key->created_ns);
    cay_db_bind_int(&query, key->expires_ns);
    cay_db_bind_int(&query, key->last_used_ns);
    cay_db_bind_int(&query, key->revoked_ns);
    cay_db_bind_int(&query, key->may_vouch);
    return cay_db_end(&query, err) || cay_wrap(err, "record the key");
}

bool cay_key_update(const struct cay_key *key, struct cay_db *db, struct cay_error *err)
{
    struct cay_db_query query;
    /* Workers write in any order: an older state of the key must not undo a newer one. */
    cay_db_begin(&query, db,
                 "UPDATE keys SET last_used_ns = max(last_used_ns, ?),"
                 " revoked_ns = max(revoked_ns, ?) WHERE id = ?");
    cay_db_bind_int(&query, key->last_used_ns);
    cay_db_bind_int(&query, key->revoked_ns);
    cay_db_bind_text(&query, cay_str(key->id));
    return cay_db_end(&query, err) || cay_wrap(err, "update the key");
}

struct cay_key *cay_keys_find(const struct cay_keys *keys, struct cay_str id)
{
    return cay_map_get(&keys->by_id, id);
}

bool cay_key_is_good(const struct cay_key *key)
{
    return !key->revoked_ns && (!key->expires_ns || key->expires_ns > cay_clock_wall_ns());
}

static void digest_secret(struct cay_keys *keys, struct cay_str secret,
                          unsigned char out[CAY_KEY_DIGEST_BYTES])
{
    bool is_done = EVP_DigestInit_ex2(keys->digest_context, keys->sha256, NULL) &&
                   EVP_DigestUpdate(keys->digest_context, secret.ptr, secret.len) &&
                   EVP_DigestFinal_ex(keys->digest_context, out, NULL);
    assert(is_done); /* SHA-256 in memory cannot fail */
    (void)is_done;
}

bool cay_keys_authenticate(struct cay_keys *keys, struct cay_str secret,
                           struct cay_caller *out_caller, struct cay_error *err)
{
    unsigned char digest[CAY_KEY_DIGEST_BYTES];
    digest_secret(keys, secret, digest);
    struct cay_str wanted = {(const char *)digest, sizeof(digest)};
    struct cay_key *key = cay_map_get(&keys->by_digest, wanted);
    int64_t now_ns = cay_clock_wall_ns();
    /* The map compares as any map does, but what it compares is a digest: its timing tells nothing
     * of the secret. The last word is in constant time all the same. */
    bool is_valid =
        key && cay_equal_constant_time(key->digest, sizeof(key->digest), digest, sizeof(digest)) &&
        cay_key_is_good(key);
    if (!is_valid)
        return cay_fail(err, CAY_R_UNAUTHENTICATED,
                        "the API key is unknown, revoked or expired; 'cay key create' makes one");
    /* To the minute: exact times would cost a write per request. */
    if (now_ns - key->last_used_ns > 60 * CAY_NS_PER_SEC) {
        key->last_used_ns = now_ns;
        key->is_dirty = true;
    }
    *out_caller = (struct cay_caller){.role = key->role, .may_vouch = key->may_vouch};
    memcpy(out_caller->owner, key->owner, sizeof(key->owner));
    memcpy(out_caller->key_id, key->id, sizeof(key->id));
    return true;
}

void cay_keys_hold(struct cay_keys *keys, struct cay_key *key, struct cay_service *service,
                   struct cay_whois *whois)
{
    cay_whois_keep(service, &key->holders, whois);
    if (!cay_list_linked(&key->in_use) && !cay_list_empty(&key->holders))
        cay_list_push_back(&keys->in_use, &key->in_use);
}

int64_t cay_keys_lapse(struct cay_keys *keys)
{
    int64_t soonest_ns = INT64_MAX;
    /* First all of them, then their holders: what these do may bring new ones. */
    cay_list_for_each (struct cay_key, key, &keys->in_use, in_use) {
        struct cay_list_node *holder;
        while (!cay_key_is_good(key) && (holder = cay_list_pop_front(&key->holders)))
            cay_list_push_back(&keys->lapsed, holder);
        if (cay_list_empty(&key->holders))
            cay_list_remove(&key->in_use);
        else if (key->expires_ns)
            soonest_ns = CAY_MIN(soonest_ns, key->expires_ns);
    }
    struct cay_error err = {};
    cay_fail(&err, CAY_R_UNAUTHENTICATED,
             "the API key of this call was revoked or has expired; 'cay key create' makes one");
    cay_whois_lapse_all(&keys->lapsed, &err);
    if (soonest_ns == INT64_MAX)
        return INT64_MAX;
    return CAY_MAX((soonest_ns - cay_clock_wall_ns()) / CAY_NS_PER_MS + 1, 1);
}
