/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Making a session of a stream that export.h wrote, or that somebody else did: everything in it is
 * hostile. The stream is all there, in a file without a name, before anything is made of it.
 *
 * A worker reads the head (inspect); the loop thread says what it becomes (plan); a worker writes
 * all of that down as not yet done and then does it (apply): point by point, each in a tree of its
 * own on the point it is put onto. Undone, or found by the next daemon, nothing is left of it.
 */

#include "host/session/quota.h"
#include "host/session/record.h"
#include "host/session/session.h"
#include "host/store/archive_in.h"
#include "host/store/unpack.h"
#include "host/transfer/manifest.h"

enum { CAY_IMPORT_IDS = 65537 };

struct cay_import {
    int fd; /* the stream */
    struct cay_archive_in in;
    struct cay_arena arena;
    struct cay_manifest manifest;

    /* The plan. */
    struct cay_host *host;
    struct cay_session_record session;     /* as it will be */
    struct cay_snapshot_record *snapshots; /* one per point */
    size_t snapshot_count;
    bool is_existing;                       /* the session is there and goes on */
    char since_store_id[CAY_STORE_ID_SIZE]; /* with is_existing */
    struct cay_store_owner owner;           /* with is_existing: of its tree */
    struct cay_snapshot_record live;        /* with is_existing: a point that goes again */
    bool has_live;                          /* there is such a point */
    char base[CAY_STORE_NAME_SIZE];         /* to put it on, as the store calls it */
    bool makes_base;                        /* from what is in the stream */
    bool is_base_recorded;
    bool is_base_made;
    struct cay_v1_base base_spec;
    struct cay_quota_taker taker; /* of the session; its base does not count */
    int64_t disk_bytes;           /* the limit that the store is to keep; 0: none */
};

void cay_import_init(struct cay_import *self, struct cay_host *host, int fd);
void cay_import_finish(struct cay_import *self);

/* On a worker. INVALID_ARGUMENT. */
[[nodiscard]] bool cay_import_inspect(struct cay_import *self, struct cay_error *err);

/* On the loop thread: what the new session is to be like, and on which base. */
[[nodiscard]] bool cay_import_plan_spec(struct cay_import *self, struct cay_call *call,
                                        const struct cay_v1_import_options *options,
                                        struct cay_v1_session *out_spec, struct cay_error *err);
/* The records of what there will be; `session` is new, or (is_existing) goes on. */
[[nodiscard]] bool cay_import_plan_records(struct cay_import *self, struct cay_session *session,
                                           const struct cay_call *call, struct cay_error *err);

/* On a worker: all or nothing. Ends early when asked to (base/stop.h), and looks no longer then. */
[[nodiscard]] bool cay_import_apply(struct cay_import *self, struct cay_error *err);

/* import_existing.c, on the worker: the live files of an existing session must be those of the
 * snapshot it is to go on from; at the end they are those of the stream. */
[[nodiscard]] bool cay_import_check_existing(struct cay_import *self, struct cay_error *err);
[[nodiscard]] bool cay_import_continue(struct cay_import *self, struct cay_error *err);
/* import.c: the records of all points. */
[[nodiscard]] bool cay_import_put_snapshots(struct cay_import *self, bool is_pending,
                                            struct cay_error *err);

/* On the loop thread: the session has what was imported. */
void cay_import_install(struct cay_import *self, struct cay_session *session);
