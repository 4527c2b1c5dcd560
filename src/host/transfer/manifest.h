/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What stands at the head of an exported session: cay-export.json. The stream is a tar archive:
 *
 *     cay-export.json              this
 *     base/tree/…                  the base's files, when they are included
 *     points/000001/words.json     what clients said of the first point: message and metadata
 *     points/000001/deleted/…      what it takes away, as empty files
 *     points/000001/tree/…         and what it brings, against the point it is put onto
 *     …
 *     live/deleted/…, live/tree/…  the same for the live files, when they are included
 *     cay-export.end               all is there
 *
 * A session may have said more than anybody wants in memory: words stand with their point. In
 * version 1 they are in the head; that is read, too.
 *
 * A manifest from outside is hostile: reading checks every name, number and order.
 */

#include "api/cay_v1.h"
#include "base/arena.h"
#include "base/error.h"

enum {
    CAY_EXPORT_VERSION = 2,
    CAY_EXPORT_MANIFEST_BYTES_MAX = 16 << 20,
    CAY_EXPORT_WORDS_BYTES_MAX = 1 << 20, /* a byte of metadata has six in JSON at most */
    CAY_EXPORT_POINTS_MAX = 10'000,
};

#define CAY_EXPORT_MANIFEST "cay-export.json"
#define CAY_EXPORT_END      "cay-export.end"
#define CAY_EXPORT_WORDS    "words.json"

struct cay_export_point {
    struct cay_str onto; /* name of the point it is put onto; empty: the base */
    struct cay_v1_snapshot *snapshot;
};

struct cay_manifest {
    struct cay_str since; /* name of the snapshot it builds on; empty: it is whole */
    struct google_protobuf_timestamp *since_time; /* when that was taken: names are no proof */
    struct cay_str head;        /* name of the point the live files stand on; empty: the base */
    bool has_live;              /* else they are as the head is */
    struct cay_str base_name;   /* as the store calls it */
    struct cay_str base_digest; /* may be empty */
    bool has_base;              /* its files are included */
    struct cay_v1_base_settings *base_settings; /* may be NULL */
    struct cay_v1_session *session;
    struct cay_export_point *points; /* each behind the one it is put onto */
    size_t point_count;
};

/* False when the buffer is full. */
[[nodiscard]] bool cay_manifest_write(const struct cay_manifest *manifest, struct cay_buf *buf);

/* INVALID_ARGUMENT; what is read lives in the arena and the text. */
[[nodiscard]] bool cay_manifest_read(struct cay_str text, struct cay_arena *arena,
                                     struct cay_manifest *out_manifest, struct cay_error *err);

/* What clients said of a point; only that is written, and read. */
[[nodiscard]] bool cay_manifest_write_words(const struct cay_v1_snapshot *snapshot,
                                            struct cay_buf *buf);
[[nodiscard]] bool cay_manifest_read_words(struct cay_str text, struct cay_arena *arena,
                                           struct cay_v1_snapshot *snapshot, struct cay_error *err);
