/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What `cay` prints. For people: aligned tables and fields, in colour when standard output is a
 * terminal and NO_COLOR is not set. For programs: JSON. Text from outside never reaches the
 * terminal raw: control characters and those that turn the direction of writing are shown as
 * escapes.
 */

#include <stdio.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "wire/pb/pb.h"

struct google_protobuf_timestamp;

enum cay_style {
    CAY_STYLE_PLAIN = 0,
    CAY_STYLE_BOLD,
    CAY_STYLE_DIM,
    CAY_STYLE_GOOD,
    CAY_STYLE_WARN,
    CAY_STYLE_BAD,
};

struct cay_output {
    FILE *file;
    bool is_terminal;
    bool has_colour;
    bool is_json;
};

/* On standard output. */
void cay_output_init(struct cay_output *out);

/* Appends `text` as it may be shown: printable, on one line. */
void cay_output_clean(struct cay_buf *buf, struct cay_str text);

/* The columns that clean text takes on a terminal. */
[[nodiscard]] size_t cay_output_width(struct cay_str clean);

/* Prints text from outside, cleaned. */
void cay_output_text(struct cay_output *out, enum cay_style style, struct cay_str text);

/* The same for a text of several lines: line ends and tabs stay. What does not go to a terminal is
 * not altered at all. */
void cay_output_lines(struct cay_output *out, enum cay_style style, struct cay_str text);

/* Our own words. */
CAY_PRINTF(2, 3) void cay_output_printf(struct cay_output *out, const char *fmt, ...);

/* "  name      text": one line of a block. */
void cay_output_field(struct cay_output *out, const char *name, enum cay_style style,
                      struct cay_str text);

/* "what a, b, c": one line, or nothing when there are no names. */
void cay_output_names(struct cay_output *out, const char *what, struct cay_pb_strs names);

/* The message as one line of JSON, flushed: somebody may be waiting for it. */
[[nodiscard]] bool cay_output_message(struct cay_output *out, const struct cay_pb_message *desc,
                                      const void *message, struct cay_error *err);
/* One line that is JSON already. */
void cay_output_json(struct cay_output *out, struct cay_str json);

/* "cay: …" for people; with --json also {"error":{…}} on standard output. */
void cay_output_error(struct cay_output *out, const struct cay_error *err);

/* "5m ago", "in 29d"; "never" for NULL. */
enum { CAY_WHEN_BYTES = 32 };
void cay_output_when(const struct google_protobuf_timestamp *time, int64_t now_ns,
                     char text[CAY_WHEN_BYTES]);

/*
 * A table with a head line. Cells are given row by row; the last column is not padded.
 *
 *     cay_table_init(&table, titles, count);
 *     cay_table_cell(&table, CAY_STYLE_PLAIN, text); …
 *     cay_table_print(&table, out);
 *     cay_table_finish(&table);
 */
struct cay_table_cell;

struct cay_table {
    const char *const *titles;
    size_t column_count;
    struct cay_table_cell *cells;
    size_t cell_count;
    size_t cell_cap;
    struct cay_buf text; /* of all cells */
};

void cay_table_init(struct cay_table *table, const char *const *titles, size_t column_count);
void cay_table_cell(struct cay_table *table, enum cay_style style, struct cay_str text);
void cay_table_print(const struct cay_table *table, struct cay_output *out);
void cay_table_finish(struct cay_table *table);
