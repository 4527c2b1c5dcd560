/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One line of the log while it is being made, for log.c only. All text is escaped on the way in;
 * what does not fit is left out and the line says so (`cut`). A tail is kept free so that quotes,
 * braces and that mark always fit.
 */

#include "base/log.h"

enum cay_log_style {
    CAY_LOG_STYLE_PLAIN = 0,
    CAY_LOG_STYLE_COLOUR,
    CAY_LOG_STYLE_JSON,
};

struct cay_log_line {
    enum cay_log_style style;
    bool cut;  /* something was left out */
    bool full; /* nothing more fits */
    size_t len;
    char data[CAY_LOG_LINE_BYTES_MAX];
};

/* Order: begin -> field* -> end. `prefix` is written as it is ("<6>" for the journal); a NULL
 * `time` is left out. */
void cay_log_line_begin(struct cay_log_line *line, enum cay_log_style style, const char *prefix,
                        const char *time, enum cay_log_level level, const char *event);
void cay_log_line_field(struct cay_log_line *line, const struct cay_log_field *field);
void cay_log_line_end(struct cay_log_line *line);
