/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The secrets of owners. Which there are is in memory, sealed as in the database; a value is in the
 * clear only while somebody has taken it out.
 *
 * Everything here runs on the loop thread, but for what is for workers.
 */

#include "base/id.h"
#include "base/list.h"
#include "base/map.h"
#include "host/db/db.h"
#include "host/secrets/seal.h"
#include "io/loop.h"
#include "io/share.h"

enum {
    CAY_VAULT_ENTRY_KEY_BYTES = 2 * CAY_ID_SIZE,
    CAY_VAULT_OWNER_MAX = 256, /* secrets of one owner */
    CAY_VAULT_VALUE_BYTES_MAX = 4096,
};

struct cay_vault_entry {
    struct cay_list_node in_vault;       /* by owner and name */
    char key[CAY_VAULT_ENTRY_KEY_BYTES]; /* OWNER/NAME */
    char owner[CAY_ID_SIZE];
    char name[CAY_ID_SIZE];
    int64_t created_ns; /* wall clock */
    int64_t changed_ns;
    int64_t last_used_ns; /* 0: never */
    bool is_dirty;        /* last_used_ns is newer than the database's */
    struct cay_buf sealed;
};

struct cay_vault {
    struct cay_seal seal;
    struct cay_list list;
    struct cay_map by_key;
    /* Changes reach the database one after the other, in the order in which they were asked for. */
    struct cay_share share;
    struct cay_lane lane;
};

/* Reads them all from the database, and their key: seal.h. */
[[nodiscard]] bool cay_vault_init(struct cay_vault *vault, struct cay_db *db, int data_fd,
                                  const char *key_path, struct cay_error *err);
void cay_vault_finish(struct cay_vault *vault);

/* A sealed value, in memory only. Makes the host's key if there is none yet. Reasons:
 * INVALID_ARGUMENT, INTERNAL. */
[[nodiscard]] bool cay_vault_entry_make(struct cay_vault *vault, const char *owner,
                                        const char *name, struct cay_str value,
                                        struct cay_vault_entry **out_entry, struct cay_error *err);
void cay_vault_entry_free(struct cay_vault_entry *entry);

/* For workers: the value becomes that of its name, and *created_ns what it is then. Reasons:
 * RESOURCE_EXHAUSTED: the owner has too many, and what the database says. */
[[nodiscard]] bool cay_vault_put(struct cay_vault_entry *entry, struct cay_db *db,
                                 struct cay_error *err);
[[nodiscard]] bool cay_vault_delete(const char *owner, const char *name, struct cay_db *db,
                                    struct cay_error *err);
[[nodiscard]] bool cay_vault_write_use(const char *owner, const char *name, int64_t last_used_ns,
                                       struct cay_db *db, struct cay_error *err);

/* What a worker has written. Takes the entry over, in place of one of that name. */
struct cay_vault_entry *cay_vault_add(struct cay_vault *vault, struct cay_vault_entry *entry);
void cay_vault_remove(struct cay_vault *vault, const char *owner, const char *name);

/* NULL when there is none. */
[[nodiscard]] struct cay_vault_entry *cay_vault_find(const struct cay_vault *vault,
                                                     const char *owner, struct cay_str name);
/* The owner's first one after `at` (NULL: of all), by name; NULL after the last. */
[[nodiscard]] struct cay_vault_entry *
cay_vault_next(const struct cay_vault *vault, const char *owner, const struct cay_vault_entry *at);

/* The value, in the clear. The caller wipes it. Reason: DATA_LOSS. */
[[nodiscard]] bool cay_vault_take(const struct cay_vault *vault,
                                  const struct cay_vault_entry *entry, struct cay_secret *out_value,
                                  struct cay_error *err);
/* It was put into a request just now. */
void cay_vault_used(struct cay_vault_entry *entry);
