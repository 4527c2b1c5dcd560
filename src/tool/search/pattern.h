/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What grep looks for: a regular expression (PCRE2, compiled to machine code) or a fixed string,
 * matched against one line at a time. Most expressions hold a string that every match must contain;
 * it is found first and the expression is then tried on that line only.
 *
 * A pattern is read-only once compiled and shared by threads; each thread has a matcher of its own.
 * The work at one place of a line is limited, and a matcher has a deadline, so that no expression
 * can run away. Nothing can end a match from outside, so the first try is for so few places and
 * steps that even the worst expression is through within a tenth of a second: a step is at most a
 * look through the line. Where that is not enough, places are given for steps, and in the end the
 * expression is tried by code that calls back at every step, which is much slower.
 */

#include "base/base.h"
#include "tool/search/literal.h"

enum {
    CAY_PATTERN_BYTES_MAX = 64 * 1024,
    CAY_PATTERN_MATCH_LIMIT = 500'000, /* as PCRE2 counts, for one place a match may begin at */
    CAY_PATTERN_STARTS = 8 * 1024,     /* places of one try, at most */
    CAY_PATTERN_STEPS_FIRST = 8,       /* at each of them, as PCRE2 counts */
    CAY_PATTERN_LINE_BYTES = 2048,     /* a shorter line counts as one of these */
    CAY_PATTERN_WORK = 200'000'000,    /* of one try: places by steps by bytes of the line */
    CAY_PATTERN_HEAP_KIB = 16 * 1024,
    CAY_PATTERN_STACK_BYTES_MAX = 512 * 1024,
};

enum cay_pattern_kind {
    CAY_PATTERN_NONE = 0,
    CAY_PATTERN_EXACT,   /* the literal is all there is */
    CAY_PATTERN_LITERAL, /* lines with the literal are tried */
    CAY_PATTERN_BUFFER,  /* nothing in it can match a newline: whole blocks are searched */
    CAY_PATTERN_LINES,   /* every line is tried */
};

struct cay_pcre;

struct cay_pattern {
    enum cay_pattern_kind kind;
    struct cay_literal literal;
    const struct cay_pcre *pcre; /* pcre.h; NULL: it is not needed */
    void *code;                  /* pcre2_code; NULL: the same */
    bool jit;
    struct cay_str text; /* for careful code, which few need; stays the caller's */
    uint32_t flags;
};

struct cay_pattern_options {
    bool literal;
    bool ignore_case;
};

/* 0; -EINVAL with a sentence in out_problem for what is not a regular expression; -ENOMEM; -ELIBACC
 * when PCRE2 is needed and not there. `text` must outlive the pattern. */
[[nodiscard]] int cay_pattern_compile(struct cay_pattern *out_pattern, struct cay_str text,
                                      const struct cay_pattern_options *options, char *out_problem,
                                      size_t problem_size);
void cay_pattern_finish(struct cay_pattern *pattern);

struct cay_matcher {
    const struct cay_pattern *pattern;
    void *data;    /* pcre2_match_data */
    void *context; /* pcre2_match_context */
    void *stack;   /* pcre2_jit_stack */
    void *careful; /* pcre2_code that calls back; NULL: not needed yet */
    bool careful_jit;
    size_t bytes_looked; /* through by it, at most */
    int64_t gave_up;     /* lines that were too much work */
    int64_t deadline_ms; /* of the monotonic clock */
    unsigned calls;
    uint32_t steps;  /* of the next try */
    unsigned smooth; /* tries since the last one that needed more */
    bool late;       /* it came; nothing is found any more */
};

/* False when there is no memory; finish is called all the same. */
[[nodiscard]] bool cay_matcher_init(struct cay_matcher *matcher, const struct cay_pattern *pattern,
                                    int64_t deadline_ms);
void cay_matcher_finish(struct cay_matcher *matcher);

/* The first line from `from` on that matches; `text` begins at the start of a line and ends at the
 * end of one. False when there is none. The line is [*out_start, *out_end), without its newline. */
[[nodiscard]] bool cay_matcher_next(struct cay_matcher *matcher, struct cay_str text, size_t from,
                                    size_t *out_start, size_t *out_end);
