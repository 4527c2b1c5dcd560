/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/search/pattern.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/stop.h"
#include "tool/search/pattern_internal.h"
#include "tool/search/pcre.h"

enum { STACK_BYTES_FIRST = 32 * 1024 };

static pcre2_code *compile_with(const struct cay_pcre *pcre, struct cay_str text, uint32_t flags,
                                int *out_error, PCRE2_SIZE *out_error_at)
{
    pcre2_compile_context *context = pcre->compile_context_create(NULL);
    if (!context) {
        *out_error = PCRE2_ERROR_HEAP_FAILED;
        return NULL;
    }
    pcre->set_newline(context, PCRE2_NEWLINE_LF);
    pcre->set_bsr(context, PCRE2_BSR_ANYCRLF);
    pcre->set_max_pattern_length(context, CAY_PATTERN_BYTES_MAX);
    /* Nesting takes stack while compiling. */
    pcre->set_parens_nest_limit(context, 100);
    pcre2_code *code = pcre->compile((PCRE2_SPTR)(text.len ? text.ptr : ""), text.len, flags,
                                     out_error, out_error_at, context);
    pcre->compile_context_free(context);
    return code;
}

static int compile_code(struct cay_pattern *pattern, struct cay_str text, uint32_t flags,
                        char *out_problem, size_t problem_size)
{
    const struct cay_pcre *pcre = cay_pcre();
    int error = 0;
    PCRE2_SIZE error_at = 0;
    if (!pcre)
        return -ELIBACC;
    flags |= PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_USE_OFFSET_LIMIT;
    pcre2_code *code = compile_with(pcre, text, flags, &error, &error_at);
    if (!code && error == PCRE2_ERROR_HEAP_FAILED)
        return -ENOMEM;
    if (!code) {
        PCRE2_UCHAR message[160];
        pcre->get_error_message(error, message, sizeof(message));
        snprintf(out_problem, problem_size, "%s (at byte %zu)", (const char *)message, error_at);
        return -EINVAL;
    }
    pattern->pcre = pcre;
    pattern->text = text;
    pattern->flags = flags;
    pattern->code = code;
    return 0;
}

static int compile_literal(struct cay_pattern *pattern, struct cay_str text, bool ignore_case,
                           char *out_problem, size_t problem_size)
{
    if (!text.len || text.len > CAY_PATTERN_BYTES_MAX || memchr(text.ptr, '\n', text.len)) {
        snprintf(out_problem, problem_size, "a literal has 1 to %d bytes and no newline",
                 CAY_PATTERN_BYTES_MAX);
        return -EINVAL;
    }
    struct cay_str part = ignore_case ? cay_pattern_caseless_part(text) : text;
    part.len = CAY_MIN(part.len, (size_t)CAY_LITERAL_BYTES_MAX);
    if (part.len)
        cay_literal_init(&pattern->literal, part, ignore_case);
    pattern->kind = part.len == text.len ? CAY_PATTERN_EXACT
                    : part.len           ? CAY_PATTERN_LITERAL
                                         : CAY_PATTERN_BUFFER;
    if (pattern->kind == CAY_PATTERN_EXACT)
        return 0;
    uint32_t flags = PCRE2_LITERAL | (ignore_case ? PCRE2_CASELESS : 0);
    int result = compile_code(pattern, text, flags, out_problem, problem_size);
    if (result == -EINVAL)
        snprintf(out_problem, problem_size, "the literal is not valid UTF-8");
    if (result == 0)
        pattern->jit = pattern->pcre->jit_compile(pattern->code, PCRE2_JIT_COMPLETE) == 0;
    return result;
}

int cay_pattern_compile(struct cay_pattern *out_pattern, struct cay_str text,
                        const struct cay_pattern_options *options, char *out_problem,
                        size_t problem_size)
{
    struct cay_pattern pattern = {};
    int result = 0;
    if (options->literal) {
        result = compile_literal(&pattern, text, options->ignore_case, out_problem, problem_size);
        if (result == 0)
            *out_pattern = pattern;
        return result;
    }
    struct cay_pattern_facts facts;
    cay_pattern_read(text, options->ignore_case, &facts);
    /* Also what will not be used is compiled: it says what is wrong with an expression. */
    uint32_t flags =
        PCRE2_NEVER_BACKSLASH_C | PCRE2_MULTILINE | (options->ignore_case ? PCRE2_CASELESS : 0);
    result = compile_code(&pattern, text, flags, out_problem, problem_size);
    if (result < 0)
        return result;
    pattern.kind = !facts.known         ? CAY_PATTERN_LINES
                   : facts.exact        ? CAY_PATTERN_EXACT
                   : facts.required_len ? CAY_PATTERN_LITERAL
                   : facts.one_line     ? CAY_PATTERN_BUFFER
                                        : CAY_PATTERN_LINES;
    if (facts.known && facts.required_len)
        cay_literal_init(&pattern.literal, (struct cay_str){facts.required, facts.required_len},
                         facts.caseless);
    if (pattern.kind != CAY_PATTERN_EXACT)
        pattern.jit = pattern.pcre->jit_compile(pattern.code, PCRE2_JIT_COMPLETE) == 0;
    *out_pattern = pattern;
    return 0;
}

void cay_pattern_finish(struct cay_pattern *pattern)
{
    if (pattern->code)
        pattern->pcre->code_free(pattern->code);
    *pattern = (struct cay_pattern){};
}

bool cay_matcher_init(struct cay_matcher *matcher, const struct cay_pattern *pattern,
                      int64_t deadline_ms)
{
    const struct cay_pcre *pcre = pattern->pcre;
    *matcher = (struct cay_matcher){.pattern = pattern, .deadline_ms = deadline_ms};
    if (!pattern->code)
        return true;
    matcher->data = pcre->match_data_create(1, NULL);
    matcher->context = pcre->match_context_create(NULL);
    if (!matcher->data || !matcher->context)
        return false;
    matcher->steps = CAY_PATTERN_STEPS_FIRST;
    pcre->set_depth_limit(matcher->context, CAY_PATTERN_MATCH_LIMIT);
    pcre->set_heap_limit(matcher->context, CAY_PATTERN_HEAP_KIB);
    matcher->stack = pcre->jit_stack_create(STACK_BYTES_FIRST, CAY_PATTERN_STACK_BYTES_MAX, NULL);
    if (matcher->stack)
        pcre->jit_stack_assign(matcher->context, NULL, matcher->stack);
    return true;
}

void cay_matcher_finish(struct cay_matcher *matcher)
{
    const struct cay_pcre *pcre = matcher->pattern ? matcher->pattern->pcre : NULL;
    if (pcre) {
        pcre->match_data_free(matcher->data);
        pcre->match_context_free(matcher->context);
        pcre->jit_stack_free(matcher->stack);
        pcre->code_free(matcher->careful);
    }
    *matcher = (struct cay_matcher){};
}

static bool look_at_clock(struct cay_matcher *matcher)
{
    matcher->calls = 0;
    if (!matcher->late)
        matcher->late = cay_stop_asked() || cay_clock_ms() > matcher->deadline_ms;
    return matcher->late;
}

static bool is_late(struct cay_matcher *matcher)
{
    enum { CALLS = 32 }; /* between two looks at the clock: most lines are short */
    if (!matcher->late && (++matcher->calls >= CALLS || cay_stop_asked()))
        look_at_clock(matcher);
    return matcher->late;
}

static size_t line_start(struct cay_str text, size_t from, size_t at)
{
    const char *newline = memrchr(text.ptr + from, '\n', at - from);
    return newline ? (size_t)(newline - text.ptr) + 1 : from;
}

static size_t line_end(struct cay_str text, size_t at)
{
    const char *newline = memchr(text.ptr + at, '\n', text.len - at);
    return newline ? (size_t)(newline - text.ptr) : text.len;
}

/* At every step of careful code, each of which is at most a look through the line. */
static int on_step(pcre2_callout_block *block, void *data)
{
    enum { BYTES = 4 * 1024 * 1024 }; /* looked through between two looks at the flag */
    struct cay_matcher *matcher = data;
    matcher->bytes_looked += block->subject_length;
    if (matcher->bytes_looked < BYTES)
        return 0;
    matcher->bytes_looked = 0;
    return look_at_clock(matcher) ? PCRE2_ERROR_CALLOUT : 0;
}

static int match_with(struct cay_matcher *matcher, const pcre2_code *code, bool jit,
                      struct cay_str text, size_t from)
{
    const struct cay_pcre *pcre = matcher->pattern->pcre;
    PCRE2_SPTR subject = (PCRE2_SPTR)text.ptr;
    return jit ? pcre->jit_match(code, subject, text.len, from, 0, matcher->data, matcher->context)
               : pcre->match(code, subject, text.len, from, 0, matcher->data, matcher->context);
}

/* With as many steps as there may be at all. */
static int match_carefully(struct cay_matcher *matcher, struct cay_str text, size_t from)
{
    const struct cay_pattern *pattern = matcher->pattern;
    if (!matcher->careful) {
        int error = 0;
        PCRE2_SIZE error_at = 0;
        matcher->careful = compile_with(pattern->pcre, pattern->text,
                                        pattern->flags | PCRE2_AUTO_CALLOUT, &error, &error_at);
        /* Callouts make code longer: what just fitted may not fit any more. */
        if (!matcher->careful)
            return PCRE2_ERROR_MATCHLIMIT;
        matcher->careful_jit =
            pattern->jit && pattern->pcre->jit_compile(matcher->careful, PCRE2_JIT_COMPLETE) == 0;
        pattern->pcre->set_callout(matcher->context, on_step, matcher);
    }
    pattern->pcre->set_match_limit(matcher->context, CAY_PATTERN_MATCH_LIMIT);
    int result = match_with(matcher, matcher->careful, matcher->careful_jit, text, from);
    look_at_clock(matcher);
    return result == PCRE2_ERROR_CALLOUT ? PCRE2_ERROR_NOMATCH : result;
}

/* Whether a line that begins between `from` and `to` may be longer than LINE_BYTES. */
static bool has_long_line(struct cay_str text, size_t from, size_t to)
{
    enum { WINDOW = CAY_PATTERN_LINE_BYTES / 2 }; /* each has a newline */
    for (size_t at = from; at < to && text.len - at >= WINDOW; at += WINDOW) {
        if (!memchr(text.ptr + at, '\n', WINDOW))
            return true;
    }
    return false;
}

/* How many places from `from` on may be tried with the steps of now; 0: not even one. */
static size_t places(const struct cay_matcher *matcher, struct cay_str text, size_t from,
                     size_t *in_out_line_end)
{
    size_t work = matcher->pattern->jit ? CAY_PATTERN_WORK : CAY_PATTERN_WORK / 8;
    size_t count =
        CAY_MIN(work / matcher->steps / CAY_PATTERN_LINE_BYTES, (size_t)CAY_PATTERN_STARTS);
    if (!has_long_line(text, from, from + count + CAY_PATTERN_LINE_BYTES))
        return count;
    /* Found once for all the tries on a line. */
    if (*in_out_line_end <= from)
        *in_out_line_end =
            from + line_end((struct cay_str){text.ptr + from, text.len - from}, 0) + 1;
    size_t len = CAY_MAX(*in_out_line_end - from, (size_t)CAY_PATTERN_LINE_BYTES);
    return CAY_MIN(work / matcher->steps / len, *in_out_line_end - from);
}

static bool is_limit(int result)
{
    return result == PCRE2_ERROR_MATCHLIMIT || result == PCRE2_ERROR_DEPTHLIMIT;
}

/* 0 or more: matches from there; PCRE2_ERROR_NOMATCH; or too much work. The limit of the work is
 * for each place where a match may begin. A long text has many: they are tried in parts. */
static int match(struct cay_matcher *matcher, const char *bytes, size_t len, size_t from)
{
    enum { SMOOTH = 64 };
    const struct cay_pattern *pattern = matcher->pattern;
    struct cay_str text = {bytes, len};
    size_t long_end = 0;
    int result = PCRE2_ERROR_NOMATCH;
    while (result == PCRE2_ERROR_NOMATCH && from <= len && !is_late(matcher)) {
        size_t count = places(matcher, text, from, &long_end);
        size_t next = from + CAY_MAX(count, (size_t)1);
        while (next < len && (bytes[next] & 0xC0) == 0x80)
            next++; /* the next part begins with a character */
        pattern->pcre->set_offset_limit(matcher->context, next - 1);
        if (count) {
            pattern->pcre->set_match_limit(matcher->context, matcher->steps);
            result = match_with(matcher, pattern->code, pattern->jit, text, from);
            if (next < len)
                matcher->calls += 8; /* that may have been a long one */
        }
        if (count && is_limit(result) && matcher->steps < CAY_PATTERN_MATCH_LIMIT) {
            matcher->steps = CAY_MIN(matcher->steps * 4, (uint32_t)CAY_PATTERN_MATCH_LIMIT);
            matcher->smooth = 0;
            result = PCRE2_ERROR_NOMATCH;
            continue;
        }
        if (!count)
            result = match_carefully(matcher, text, from);
        if (++matcher->smooth % SMOOTH == 0)
            matcher->steps = CAY_MAX(matcher->steps / 4, (uint32_t)CAY_PATTERN_STEPS_FIRST);
        from = next;
    }
    return result;
}

static bool line_matches(struct cay_matcher *matcher, const char *line, size_t len)
{
    int result = match(matcher, line, len, 0);
    if (result < 0 && result != PCRE2_ERROR_NOMATCH)
        matcher->gave_up++;
    return result >= 0;
}

static bool next_by_literal(struct cay_matcher *matcher, struct cay_str text, size_t from,
                            size_t *out_start, size_t *out_end)
{
    const struct cay_pattern *pattern = matcher->pattern;
    while (from < text.len) {
        const char *hit = cay_literal_find(&pattern->literal, text.ptr + from, text.len - from);
        if (!hit)
            return false;
        size_t at = (size_t)(hit - text.ptr);
        *out_start = line_start(text, from, at);
        *out_end = line_end(text, at);
        if (pattern->kind == CAY_PATTERN_EXACT ||
            line_matches(matcher, text.ptr + *out_start, *out_end - *out_start))
            return true;
        from = *out_end + 1;
        if (matcher->late)
            break;
    }
    return false;
}

static bool next_by_line(struct cay_matcher *matcher, struct cay_str text, size_t from,
                         size_t *out_start, size_t *out_end)
{
    for (; from < text.len && !matcher->late; from = *out_end + 1) {
        *out_start = from;
        *out_end = line_end(text, from);
        if (line_matches(matcher, text.ptr + from, *out_end - from))
            return true;
    }
    return false;
}

static bool next_in_buffer(struct cay_matcher *matcher, struct cay_str text, size_t from,
                           size_t *out_start, size_t *out_end)
{
    if (from >= text.len)
        return false;
    int result = match(matcher, text.ptr, text.len, from);
    if (result == PCRE2_ERROR_NOMATCH)
        return false;
    if (result < 0) /* too much work for a block may still be little for a line */
        return next_by_line(matcher, text, from, out_start, out_end);
    size_t at = matcher->pattern->pcre->get_ovector_pointer(matcher->data)[0];
    if (at >= text.len && text.ptr[text.len - 1] == '\n')
        return false; /* behind the last line */
    *out_start = line_start(text, from, at);
    *out_end = line_end(text, at);
    return true;
}

bool cay_matcher_next(struct cay_matcher *matcher, struct cay_str text, size_t from,
                      size_t *out_start, size_t *out_end)
{
    switch (matcher->pattern->kind) {
    case CAY_PATTERN_EXACT:
    case CAY_PATTERN_LITERAL: return next_by_literal(matcher, text, from, out_start, out_end);
    case CAY_PATTERN_BUFFER: return next_in_buffer(matcher, text, from, out_start, out_end);
    case CAY_PATTERN_LINES: return next_by_line(matcher, text, from, out_start, out_end);
    case CAY_PATTERN_NONE: break;
    }
    assert(!"a pattern that was not compiled");
    return false;
}
