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

/* By name or alias; NULL when there is no record. */
const struct cay_v1_base *cay_bases_find(const struct cay_host *host, struct cay_str name);
/* Whether the caller may know of it; a name that there is no record of is nobody's secret. */
[[nodiscard]] bool cay_bases_shown_to(const struct cay_host *host, const struct cay_caller *caller,
                                      struct cay_str name);
/* A copy goes into the table, in the place of an older one. */
void cay_bases_put(struct cay_host *host, const struct cay_v1_base *spec);
void cay_bases_remove(struct cay_host *host, const char *name);
void cay_bases_finish(struct cay_map *bases);

/* On a worker. */
[[nodiscard]] bool cay_base_record_put(struct cay_db *db, enum cay_base_record_state state,
                                       const struct cay_v1_base *spec, struct cay_error *err);

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
