/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * API keys. All of them are in memory, because every request looks one up; the database is what
 * survives. A secret is shown once, when it is made; only its SHA-256 is kept.
 *
 * Everything here runs on the loop thread, except the two cay_key_* functions for workers.
 */

#include "api/service.h"
#include "base/id.h"
#include "base/list.h"
#include "base/map.h"
#include "host/db/db.h"

enum {
    CAY_KEY_DIGEST_BYTES = 32,
    CAY_KEY_SECRET_BYTES = sizeof("cay_") + 40, /* with the NUL; 160 random bits as hex */
    CAY_KEY_PREFIX_BYTES = sizeof("cay_3f9a"),
};

struct cay_key {
    struct cay_list_node in_keys; /* newest first */
    char id[40];
    unsigned char digest[CAY_KEY_DIGEST_BYTES];
    char prefix[CAY_KEY_PREFIX_BYTES];
    char owner[CAY_ID_SIZE];
    char name[CAY_ID_SIZE];
    enum cay_role role;
    bool e2b;
    bool may_vouch;     /* for callers of its own */
    int64_t created_ns; /* wall clock; 0 in the others means never */
    int64_t expires_ns;
    int64_t last_used_ns;
    int64_t revoked_ns;
    bool is_dirty; /* last_used_ns is newer than the database's */
    /* In the table only: who calls by it just now, to be told when it opens nothing any more. */
    struct cay_list holders; /* struct cay_whois */
    struct cay_list_node in_use;
};

struct evp_md_st;
struct evp_md_ctx_st;

struct cay_keys {
    struct cay_list list;
    struct cay_map by_digest;
    struct cay_map by_id;
    struct cay_list in_use;   /* those that have, or had, holders */
    struct cay_list lapsed;   /* struct cay_whois: of keys that open nothing any more, to be told */
    struct evp_md_st *sha256; /* looked up once */
    struct evp_md_ctx_st *digest_context;
};

/* Reads them all from the database. */
[[nodiscard]] bool cay_keys_init(struct cay_keys *keys, struct cay_db *db, struct cay_error *err);
void cay_keys_finish(struct cay_keys *keys);

/* A new key and its secret, in memory only; not usable before cay_keys_add. It may not vouch unless
 * that is set. */
struct cay_key *cay_key_make(const char *owner, enum cay_role role, const char *name, bool e2b,
                             int64_t expires_ns, char out_secret[CAY_KEY_SECRET_BYTES]);

/* For workers: writes what was made, or the times of use and revocation. */
[[nodiscard]] bool cay_key_insert(const struct cay_key *key, struct cay_db *db,
                                  struct cay_error *err);
[[nodiscard]] bool cay_key_update(const struct cay_key *key, struct cay_db *db,
                                  struct cay_error *err);

/* The table takes the key over. */
void cay_keys_add(struct cay_keys *keys, struct cay_key *key);

/* NULL when there is none. */
struct cay_key *cay_keys_find(const struct cay_keys *keys, struct cay_str id);

/* Neither revoked nor expired. */
[[nodiscard]] bool cay_key_is_good(const struct cay_key *key);

/* Whoever asks calls by this key from now on. */
void cay_keys_hold(struct cay_keys *keys, struct cay_key *key, struct cay_service *service,
                   struct cay_whois *whois);
/* Tells all who call by a key that is not good any more; as cay_whois_lapse_all. Returns in how
 * many milliseconds one that is in use expires; INT64_MAX: none does. */
[[nodiscard]] int64_t cay_keys_lapse(struct cay_keys *keys);

/* Who holds this secret? UNAUTHENTICATED for unknown, revoked and expired ones alike. */
[[nodiscard]] bool cay_keys_authenticate(struct cay_keys *keys, struct cay_str secret,
                                         struct cay_caller *out_caller, struct cay_error *err);
