/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The JSON codec's state, shared by its files. */

#include "base/json.h"
#include "wire/pb/pb.h"
#include "wire/pb/pb_internal.h"

/* Where the reader is, from the inside out; for error texts only. Exactly one of name and key is
 * set, or neither for an item of an array. */
struct cay_pb_step {
    const struct cay_pb_step *up;
    const char *name;
    struct cay_str key;
    size_t index;
};

struct cay_pb_reader {
    struct cay_json_reader json;
    const struct cay_pb_json_options *options;
    struct cay_arena *arena;
    const struct cay_pb_step *path;
    unsigned depth;
    char *error;
    size_t error_size;
};

/* Fills the error with the path and the text; returns -EBADMSG, so that one line fails. */
[[nodiscard]] CAY_PRINTF(2, 3) int cay_pb_reader_fail(struct cay_pb_reader *reader, const char *fmt,
                                                      ...);
/* "expected %s, found a string", or what the tokenizer said. */
[[nodiscard]] int cay_pb_reader_expected(struct cay_pb_reader *reader, const char *what);
[[nodiscard]] int cay_pb_reader_no_memory(struct cay_pb_reader *reader);

/* All readers start with the first token of the value already taken. */
[[nodiscard]] int cay_pb_read_message(struct cay_pb_reader *reader,
                                      const struct cay_pb_message *desc, void *message);
/* The members of an object whose brace has been taken; `any` ignores "@type". */
[[nodiscard]] int cay_pb_read_members(struct cay_pb_reader *reader,
                                      const struct cay_pb_message *desc, void *message, bool any);
/* One value of a field's type, messages included, into an item or a singular field's slot. */
[[nodiscard]] int cay_pb_read_scalar(struct cay_pb_reader *reader, const struct cay_pb_field *field,
                                     void *slot);
/* The messages whose JSON is not an object of their fields. */
[[nodiscard]] int cay_pb_read_form(struct cay_pb_reader *reader, const struct cay_pb_message *desc,
                                   void *message);
[[nodiscard]] int cay_pb_read_any(struct cay_pb_reader *reader, void *message);

struct cay_pb_writer {
    struct cay_json_writer json;
    const struct cay_pb_json_options *options;
    struct cay_arena arena; /* of what Any holds, decoded; one ceiling for all of them */
    unsigned depth;
};

[[nodiscard]] int cay_pb_write_message(struct cay_pb_writer *writer,
                                       const struct cay_pb_message *desc, const void *message);
[[nodiscard]] int cay_pb_write_members(struct cay_pb_writer *writer,
                                       const struct cay_pb_message *desc, const void *message);
void cay_pb_write_scalar(struct cay_pb_writer *writer, const struct cay_pb_field *field,
                         const void *slot);
[[nodiscard]] int cay_pb_write_form(struct cay_pb_writer *writer, const struct cay_pb_message *desc,
                                    const void *message);
[[nodiscard]] int cay_pb_write_any(struct cay_pb_writer *writer, const void *message);
