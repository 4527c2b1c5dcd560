/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The last part of making a base, whatever it was made of: a filled draft gets its name in the
 * store and its record. On a worker, in this order:
 *
 *     run -> confirm            what nobody was told of is taken back by the next start
 *         -> take_back          when something else went wrong after `run`
 *
 * Then, on the loop thread, cay_bases_put; also for what has replaced another and went wrong after.
 */

#include "api/call.h"
#include "api/cay_v1.h"
#include "host/store/store.h"

struct cay_host;
struct cay_base_info;

enum { CAY_BASE_ALIASES_MAX = 100 };

struct cay_base_keeping {
    struct cay_host *host;
    struct cay_arena *arena; /* the worker's, of what is added to spec */
    char name[CAY_STORE_NAME_SIZE];
    char (*aliases)[CAY_STORE_NAME_SIZE];
    size_t alias_count;
    bool replaces;
    bool skips_digest;
    /* Given: origin, source, settings, labels, owner, architecture. The rest is filled in. */
    struct cay_v1_base spec;
    char draft_id[CAY_STORE_ID_SIZE];
    bool is_recorded;
    bool is_named;
    bool is_switched; /* taken back, and yet it stays: it has replaced another */
};

/* A name that clients may give to a base: key and name are the same. */
[[nodiscard]] bool cay_base_check_name(struct cay_str name, const char *field,
                                       char out_key[static CAY_STORE_NAME_SIZE],
                                       struct cay_error *err);
/* The same, or a name of the form namespace/name:tag. */
[[nodiscard]] bool cay_base_check_alias(struct cay_str alias, const char *field,
                                        char out_key[static CAY_STORE_NAME_SIZE],
                                        struct cay_error *err);
/* Aliases of a caller who is no admin are in the namespace of the owner. */
[[nodiscard]] bool cay_base_check_owns_alias(const struct cay_caller *caller, struct cay_str alias,
                                             struct cay_error *err);
/* NULL is fine. */
[[nodiscard]] bool cay_base_check_settings(const struct cay_host *host,
                                           const struct cay_v1_base_settings *settings,
                                           struct cay_error *err);
/* Keys of aliases, in the arena. */
[[nodiscard]] bool cay_base_check_aliases(struct cay_pb_strs aliases, struct cay_arena *arena,
                                          char (**out_keys)[CAY_STORE_NAME_SIZE],
                                          struct cay_error *err);
/* BASE_EXISTS when a base or an alias is called that. */
[[nodiscard]] bool cay_base_check_free(struct cay_store *store, const char *key,
                                       struct cay_error *err);

/* Consumes the draft in any case. */
[[nodiscard]] bool cay_base_keeping_run(struct cay_base_keeping *self,
                                        struct cay_store_base_draft *draft, struct cay_error *err);
[[nodiscard]] bool cay_base_keeping_confirm(struct cay_base_keeping *self, struct cay_error *err);
void cay_base_keeping_take_back(struct cay_base_keeping *self);
