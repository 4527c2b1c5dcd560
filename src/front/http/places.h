/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whose the connections are, so that nobody takes them all. A connection is of its peer (an
 * address, or a user of this machine) until it is known which owner calls on it, and then of that
 * owner.
 *
 * Whoever has three times as many as are free gets no more. So one alone may have three quarters of
 * them; the more there are who want many, the less each gets; and somebody who has few always finds
 * some. The last ones are held back for administrators at the Unix socket: somebody must be able to
 * look, and to revoke a key. Loop thread only.
 */

#include "base/error.h"
#include "base/list.h"
#include "base/map.h"

enum {
    CAY_PLACES_TIMES_FREE = 3,
    CAY_PLACES_HELD_BACK_PART = 16, /* of all, */
    CAY_PLACES_HELD_BACK_MAX = 64,  /* and never more */
};

struct cay_places {
    size_t most;  /* connections of all; and calls under way of one owner */
    size_t taken; /* connections */
    struct cay_map parties;
};

/* A peer or an owner who has some. */
struct cay_party {
    char name[160];
    size_t connections;
    size_t calls;
    struct cay_list
        strangers; /* the server's: connections on which no owner has called, oldest first */
};

void cay_places_init(struct cay_places *places, size_t most);
void cay_places_finish(struct cay_places *places);

/* One more connection for whoever has that name. With `is_admin` it may be one that is held back.
 * NULL when there is none for it; *out_is_full says whether there is none for anybody. */
[[nodiscard]] struct cay_party *cay_places_take(struct cay_places *places, const char *name,
                                                bool is_admin, bool *out_is_full);
/* The same for one that is there already, or comes for another that went. */
[[nodiscard]] struct cay_party *cay_places_grant(struct cay_places *places, const char *name);
/* NULL: it has none. */
[[nodiscard]] struct cay_party *cay_places_find(const struct cay_places *places, const char *name);
void cay_places_leave(struct cay_places *places, struct cay_party *party);

/* A call of an owner begins. Its connection (`*connection`) becomes the owner's, and `*call` says
 * whose the call is. RESOURCE_EXHAUSTED, and nothing has changed. */
[[nodiscard]] bool cay_places_begin_call(struct cay_places *places, const char *owner,
                                         bool is_admin, struct cay_party **connection,
                                         struct cay_party **call, struct cay_error *err);
/* NULL does nothing. */
void cay_places_end_call(struct cay_places *places, struct cay_party *call);
