/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is known of bases besides their trees: where they came from, what sessions start with,
 * labels. The store says which bases there are; a base without a record (the host's own) is a base
 * all the same. The table belongs to the loop thread; the functions of the database run on workers.
 */

#include "api/call.h"
#include "api/cay_v1.h"
#include "base/map.h"
#include "host/db/db.h"
#include "host/store/store.h"

struct cay_host;

enum cay_base_record_state {
    CAY_BASE_KEPT = 0,
    CAY_BASE_NEW,       /* not acknowledged: after a crash it never was */
    CAY_BASE_REPLACING, /* the same for one that takes another's place */
};

struct cay_base_entry {
    char name[CAY_STORE_NAME_SIZE];
    struct cay_arena arena;
    struct cay_v1_base *spec; /* in the arena */
};

/* What the store calls a name or alias: aliases may have the form namespace/name:tag. False for
 * what cannot be one. */
[[nodiscard]] bool cay_base_key(struct cay_str name, char out_key[static CAY_STORE_NAME_SIZE]);
/* The way back, for people. */
[[nodiscard]] struct cay_str cay_base_shown(const char *key, struct cay_arena *arena);
/* OWNER/NAME: what is meant by a name of the owner's own. False for what cannot be one. */
[[nodiscard]] bool cay_base_key_of_owner(const char *owner, struct cay_str name,
                                         char out_key[static CAY_STORE_NAME_SIZE]);

/* What clients see as the name of a base, by the store's name for it. Those that have an owner have
 * it in front, also when they were made before names were the owner's own. */
enum { CAY_BASE_FULL_NAME_SIZE = CAY_ID_SIZE + CAY_STORE_NAME_SIZE };
void cay_base_full_name(const struct cay_host *host, const char *key,
                        char out[static CAY_BASE_FULL_NAME_SIZE]);

/* By name or alias as records of sessions have it, for what is no caller's question; NULL when
 * there is no record. */
const struct cay_v1_base *cay_bases_find(const struct cay_host *host, struct cay_str name);
/* By the store's name for it. */
const struct cay_v1_base *cay_bases_record(const struct cay_host *host, const char *key);
/* Bytes on disk that its owner has by it: what it adds to a base of everybody's. */
[[nodiscard]] int64_t cay_base_own_bytes(const struct cay_v1_base *spec);
/* Bytes on disk of all of them. */
[[nodiscard]] int64_t cay_bases_bytes(const struct cay_host *host);

/* What a name or alias stands for. */
struct cay_base_found {
    char key[CAY_STORE_NAME_SIZE];    /* the name or alias that was meant, as the store calls it */
    char name[CAY_STORE_NAME_SIZE];   /* the base's own; "host" while it is not made yet */
    const struct cay_v1_base *record; /* NULL: there is none; good until the loop goes on */
};
/* The way from a caller's words to a base of the store: the only one. A name is the owner's own
 * before it is everybody's; for admins it is everybody's first, and never another owner's: theirs
 * are called OWNER/NAME. BASE_NOT_FOUND, in the same words, when there is none and when the caller
 * may not know of it. */
[[nodiscard]] bool cay_bases_look_up(const struct cay_host *host, const struct cay_caller *caller,
                                     struct cay_str name, struct cay_base_found *out_found,
                                     struct cay_error *err);
/* A copy goes into the table, in the place of an older one. */
void cay_bases_put(struct cay_host *host, const struct cay_v1_base *spec);
void cay_bases_remove(struct cay_host *host, const char *name);
void cay_bases_finish(struct cay_map *bases);
/* Removes, in the background, those that go with their aliases and have none left. After every
 * change of aliases. */
void cay_bases_sweep(struct cay_host *host);
/* The same at the start, before anything is served. */
void cay_bases_sweep_now(struct cay_host *host);
/* As clients see it, by the store's name for it; in the call's arena. NULL: err says why. */
[[nodiscard]] struct cay_v1_base *cay_base_noun(const struct cay_host *host, struct cay_call *call,
                                                const char *key, struct cay_error *err);

/* On a worker. A new base: its record takes the name, before the store gives it. Order: add,
 * cay_store_base_commit, keep; or take_back. BASE_EXISTS when another has the name, or is at it. */
[[nodiscard]] bool cay_base_record_add(struct cay_db *db, const struct cay_v1_base *spec,
                                       struct cay_error *err);
[[nodiscard]] bool cay_base_record_keep(struct cay_db *db, const struct cay_v1_base *spec,
                                        struct cay_error *err);
[[nodiscard]] bool cay_base_record_take_back(struct cay_db *db, const char *name,
                                             struct cay_error *err);

/* For a base that may take another's place: its record stands beside the other's, under the id of
 * its draft, until the store has switched; which of the two is there after a crash, the store
 * knows. Order: begin, cay_store_base_replace, end. */
[[nodiscard]] bool cay_base_record_begin_replace(struct cay_db *db, const char *draft_id,
                                                 const struct cay_v1_base *spec,
                                                 struct cay_error *err);
[[nodiscard]] bool cay_base_record_end_replace(struct cay_db *db, const char *draft_id,
                                               const struct cay_v1_base *spec,
                                               struct cay_error *err);
/* When the store did not. */
[[nodiscard]] bool cay_base_record_abort_replace(struct cay_db *db, const char *draft_id,
                                                 const char *name, struct cay_error *err);
[[nodiscard]] bool cay_base_record_delete(struct cay_db *db, const char *name,
                                          struct cay_error *err);

/* For recovery: reads the records and takes back what was not acknowledged. */
[[nodiscard]] bool cay_bases_recover(struct cay_host *host, struct cay_error *err);
