/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The newest sessions that are gone, and why: whoever asks for one that was there a while ago is
 * told more than that it is not found. When there are too many, the oldest is forgotten of the
 * owner who has the most. In memory only; a daemon forgets them with its end.
 */

#include "api/call.h"
#include "base/map.h"

enum { CAY_GONE_MAX = 1024 };

struct cay_gone {
    char *id;
    struct cay_gone_owner *owner;
    bool is_public;  /* that it was there was nobody's secret */
    int64_t at_ns;   /* wall clock */
    const char *why; /* a word that stays: "requested", "expired", "idle" … */
};

struct cay_gone_table {
    struct cay_gone *items; /* CAY_GONE_MAX; NULL until the first */
    size_t count;
    struct cay_map owners; /* of those that are there */
};

void cay_gone_add(struct cay_gone_table *table, const char *id, const char *owner, bool is_public,
                  const char *why);
void cay_gone_finish(struct cay_gone_table *table);

/* Fills the error for a session that is not there, as this caller may know it. Returns false. */
bool cay_gone_fail(const struct cay_gone_table *table, const struct cay_caller *caller,
                   struct cay_str id, struct cay_error *err);
