/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The last part of making a base, whatever it was made of: a filled draft gets its name in the
 * store and its record. On a worker, in this order:
 *
 *     measure -> run -> confirm            what nobody was told of is taken back by the next start
 *                    -> take_back          when something else went wrong after `run`
 *
 * Then, on the loop thread, cay_bases_put; also for what has replaced another and went wrong after.
 */

#include "api/call.h"
#include "api/cay_v1.h"
#include "host/owner/account_disk.h"
#include "host/store/store.h"

struct cay_host;
struct cay_base_info;
struct cay_session;

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
    struct cay_disk_claim disk; /* on its owner's quota; nothing for what is everybody's */
    int64_t inherited_bytes;    /* of a base of the same owner's that it is made of */
    bool is_all_own;            /* what it was made of may be nobody's any more: all of it counts */
    bool is_recorded;
    bool is_named;
    bool is_switched; /* taken back, and yet it stays: it has replaced another */
};

/* A name that clients may give to a base. An admin's is everybody's: key and name are the same.
 * Anybody else's is the owner's own: others may have one of the same name. */
[[nodiscard]] bool cay_base_check_name(const struct cay_host *host, const struct cay_caller *caller,
                                       struct cay_str name, const char *field,
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

/* On the loop thread: it will be made of this session's files, and `makes_way_bytes` of what counts
 * for the owner go then. To be let go of when the base is in the table, or will not be. */
void cay_base_keeping_claim(struct cay_base_keeping *self, const struct cay_caller *caller,
                            const struct cay_session *from, int64_t makes_way_bytes);
void cay_base_keeping_unclaim(struct cay_base_keeping *self);

/* Whether the owner's quota has room for what the tree adds to its base. */
[[nodiscard]] bool cay_base_keeping_measure(struct cay_base_keeping *self,
                                            const struct cay_store_ref *tree,
                                            struct cay_error *err);
/* Consumes the draft in any case. */
[[nodiscard]] bool cay_base_keeping_run(struct cay_base_keeping *self,
                                        struct cay_store_base_draft *draft, struct cay_error *err);
[[nodiscard]] bool cay_base_keeping_confirm(struct cay_base_keeping *self, struct cay_error *err);
void cay_base_keeping_take_back(struct cay_base_keeping *self);
