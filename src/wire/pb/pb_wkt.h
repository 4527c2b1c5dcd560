/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The texts of the well-known types that are a string in JSON. All return 0, -EINVAL for what is
 * malformed and -ERANGE for what is outside the range the types are documented to have.
 */

#include "base/buf.h"
#include "wire/pb/google_protobuf.h"

enum { CAY_PB_TIME_TEXT_MAX = 48 };

/* RFC 3339, as in 2024-01-31T23:59:59.5Z; any offset when reading, Z when writing; years 1 to
 * 9999. */
[[nodiscard]] int cay_pb_timestamp_parse(struct cay_str text,
                                         struct google_protobuf_timestamp *out_time);
[[nodiscard]] int cay_pb_timestamp_format(const struct google_protobuf_timestamp *time,
                                          char out[CAY_PB_TIME_TEXT_MAX]);

/* Seconds with an s, as in -1.5s; ten thousand years either way. */
[[nodiscard]] int cay_pb_duration_parse(struct cay_str text,
                                        struct google_protobuf_duration *out_duration);
[[nodiscard]] int cay_pb_duration_format(const struct google_protobuf_duration *duration,
                                         char out[CAY_PB_TIME_TEXT_MAX]);

/* Paths in lowerCamelCase with commas between them; also -ENOMEM. */
[[nodiscard]] int cay_pb_field_mask_parse(struct cay_str text, struct cay_arena *arena,
                                          struct google_protobuf_field_mask *out_mask);
[[nodiscard]] int cay_pb_field_mask_format(const struct google_protobuf_field_mask *mask,
                                           struct cay_buf *buf);
