/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The host's own state, for its rooms. What is of one room only stands there, behind a pointer. */

#include <stdatomic.h>

#include "api/cay_v1.h"
#include "api/limits.h"
#include "api/service.h"
#include "base/clock.h"
#include "host/db/db.h"
#include "host/keys/keys.h"
#include "host/keys/tokens.h"
#include "host/net/gateway.h"
#include "host/net/net.h"
#include "host/pool/pool.h"
#include "host/runtime/runtimes.h"
#include "host/secrets/vault.h"
#include "host/session/gone.h"
#include "host/session/settings.h"
#include "host/store/store.h"
#include "io/loop.h"

enum { CAY_SESSION_ID_COUNT = 65537 }; /* ids of a sandbox and, last, its init's */

enum { CAY_HOST_STORES_MAX = 8 };

/* A store that this host could use, or why not. Found out at the start. */
struct cay_host_store {
    const char *name;
    bool is_available;
    char reason[160];
};

/* One verb of a room. The last row of a table has none. */
struct cay_verb_row {
    size_t method; /* of the contract: its facts are there (proto/cay/meta) */
    cay_verb *verb;
    bool is_piece; /* of something longer: not worth a line of the log */
};

struct cay_audit;
struct cay_build_files;
struct cay_builds;
struct cay_authority;
struct cay_egress_totals;
struct cay_filtering;
struct cay_host_base;
struct cay_journal;
struct cay_measuring;
struct cay_network_guard;
struct cay_reserve;
struct cay_sampling;
struct cay_session_part;
struct cay_space_watch;

enum {
    /* Host uids of session n: from (CAY_UID_SLOT_FIRST + n) * CAY_UID_SLOT_SIZE on. High enough to
     * stay clear of what distributions, directory services and other container tools hand out. */
    CAY_UID_SLOT_SIZE = 131072,
    CAY_UID_SLOT_FIRST = 4096,
    CAY_UID_SLOT_COUNT = 16384,
};

/* The table of sessions: session.h. */
struct cay_sessions {
    struct cay_list list;
    struct cay_map by_id;
    uint64_t slot_used[CAY_UID_SLOT_COUNT / 64];
};

struct cay_host {
    struct cay_service service; /* first */
    struct cay_loop *loop;
    struct cay_db *db;
    struct cay_keys keys;
    struct cay_tokens tokens;
    struct cay_vault vault;                   /* secrets of owners */
    struct cay_timer flush_keys;              /* writes times of last use */
    struct cay_timer keys_lapse;              /* ends what is open by keys that are good no more */
    bool is_lapse_due;                        /* it runs */
    struct cay_list tokens_lapsed;            /* struct cay_whois: of revoked tokens, to be told */
    const struct cay_host_settings *settings; /* whoever made the host keeps them */
    struct cay_pool pool;
    struct cay_space_watch *space;   /* how full the pool is */
    struct cay_measuring *measuring; /* what sessions have on disk */
    struct cay_sampling *sampling;   /* what sandboxes use */
    bool is_moving;                  /* into a new pool; see cay_host_is_still */
    unsigned base_calls;             /* at work on bases in the store that is, beside builds */
    struct cay_store *store;
    struct cay_store *old_store; /* left behind for a pool: jobs may still use them; open until */
    struct cay_pool old_pool;    /* the end */
    struct cay_host_store stores[CAY_HOST_STORES_MAX];
    size_t store_count;
    struct cay_runtimes runtimes;
    struct cay_journal *journal; /* what happened */
    struct cay_audit *audit;
    struct cay_net net; /* for exposed ports */
    struct cay_gateway gateway;
    struct cay_network_guard *network_guard;
    struct cay_filtering *filtering;          /* networks that are filtered */
    struct cay_egress_totals *network_totals; /* of all of them since the start; NULL: none */
    struct cay_authority *authority; /* vouches for what they look into; NULL: it is damaged */
    struct cay_map accounts;         /* struct cay_account, by owner */
    struct cay_sessions sessions;
    const struct cay_session_part *const *parts; /* of each: session.h. NULL ends them */
    struct cay_gone_table gone;
    struct cay_reserve *reserve; /* sandboxes made ahead; NULL: none are */
    struct cay_map bases;        /* struct cay_base_entry, by name */
    struct cay_builds *builds;
    struct cay_build_files *build_files;
    struct cay_v1_resource_limits default_limits; /* as set, as far as this machine has it */
    int64_t session_memory_bytes_max;             /* the same; 0: no limit */
    char *interpreter; /* the code interpreter's text; NULL: it is not installed */
    bool serves_e2b;
    struct cay_host_base *host_base;
    struct cay_list endless;    /* calls; see endless.h */
    struct cay_timer cut;       /* ends them */
    struct cay_timer spares;    /* see cay_host_spares_soon */
    struct cay_timer aftermath; /* of snapshots: aftermath.h */
    bool is_aftermath_due;
    uint64_t spares_wanted_ms; /* since when; 0: not */
    bool is_ending; /* set by cay_stop_ask when the daemon is told to stop; workers may watch it */
    atomic_bool is_stopping;
    bool is_preparing;
    bool is_collecting;
    bool is_collect_wanted;
    void (*on_tidy)(struct cay_host *host); /* nothing is left to collect now */
    struct cay_list freeing;      /* struct cay_freeing: those that wait for what is being freed */
    struct cay_list freeing_next; /* and those that came later */
    uint64_t freeing_mark;        /* what it is: see cay_store_is_freed */
    struct cay_timer freeing_look;
    bool is_freeing_over; /* set by cay_stop_ask: those who wait have been sent away */
    bool keeps_sessions;  /* at its end, whatever is set */
    int64_t started_ns;
    int data_fd; /* the data directory, for files without names */
    int lock_fd; /* one daemon per data directory */
};

static inline struct cay_host *cay_host_of(struct cay_service *service)
{
    return CAY_CONTAINER_OF(service, struct cay_host, service);
}

/* Whether the store must map owners for what runs here. */
bool cay_host_needs_owner_map(const struct cay_host *host);

/* False while it moves: what is made now would be in a store that is left. Asked by whatever makes
 * or changes sessions and bases; a move begins when none of that is under way. */
[[nodiscard]] bool cay_host_is_still(const struct cay_host *host, struct cay_error *err);
