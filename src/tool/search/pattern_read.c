/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/search/pattern_internal.h"

/*
 * Reads an expression without understanding all of it: runs of plain characters that stand in every
 * match are collected and the rarest is kept. Whatever is not recognised makes the answer "not
 * known", and the expression is then tried on every line; so a gap here costs time, never a match.
 */

enum { GROUPS_MAX = 32 };

struct reading {
    struct cay_str text;
    size_t at;
    bool caseless;
    bool one_line;
    bool plain; /* only plain characters so far */
    unsigned depth;
    char run[CAY_LITERAL_BYTES_MAX];
    size_t run_len;
    char best[CAY_LITERAL_BYTES_MAX];
    size_t best_len;
    unsigned best_rarity;
};

/* In UTF mode these letters have a third case outside ASCII (U+017F, U+212A). */
static bool folds_beyond_ascii(char c)
{
    return c == 'k' || c == 'K' || c == 's' || c == 'S';
}

static void end_run(struct reading *r)
{
    unsigned rarity = cay_literal_rarity((struct cay_str){r->run, r->run_len});
    if (r->run_len && rarity > r->best_rarity) {
        memcpy(r->best, r->run, r->run_len);
        r->best_len = r->run_len;
        r->best_rarity = rarity;
    }
    r->run_len = 0;
}

static char peek(const struct reading *r)
{
    return r->at < r->text.len ? r->text.ptr[r->at] : '\0';
}

static bool starts(const struct reading *r, const char *word)
{
    return cay_str_starts((struct cay_str){r->text.ptr + r->at, r->text.len - r->at}, word);
}

/* Reads the number of times that stands behind an atom. False for what is not understood. */
static bool read_repeat(struct reading *r, bool *out_repeated, bool *out_optional)
{
    *out_repeated = *out_optional = false;
    char c = peek(r);
    if (c == '{') {
        /* `{` that begins no number of times is a plain character. */
        size_t at = r->at + 1;
        unsigned least = 0;
        unsigned digits = 0;
        for (; at < r->text.len && r->text.ptr[at] >= '0' && r->text.ptr[at] <= '9'; at++, digits++)
            least = CAY_MIN(least * 10 + (unsigned)(r->text.ptr[at] - '0'), 100'000u);
        while (at < r->text.len &&
               (r->text.ptr[at] == ',' || (r->text.ptr[at] >= '0' && r->text.ptr[at] <= '9')))
            at++;
        if (!digits || at >= r->text.len || r->text.ptr[at] != '}')
            return false;
        r->at = at + 1;
        *out_optional = least == 0;
    } else if (c == '*' || c == '?' || c == '+') {
        r->at++;
        *out_optional = c != '+';
    } else {
        return true;
    }
    *out_repeated = true;
    if (peek(r) == '?')
        r->at++;
    else if (peek(r) == '+')
        return false; /* possessive */
    return true;
}

/* A plain character; `len` bytes of it are at `bytes`. */
static bool plain_character(struct reading *r, const char *bytes, size_t len)
{
    bool repeated = false;
    bool optional = false;
    if (*bytes == '\n')
        r->one_line = r->plain = false;
    if (!read_repeat(r, &repeated, &optional))
        return false;
    bool usable = !(r->caseless && (folds_beyond_ascii(*bytes) || (unsigned char)*bytes >= 0x80));
    if (optional || !usable) {
        end_run(r);
        r->plain = false;
        return true;
    }
    if (r->run_len + len > sizeof(r->run)) {
        end_run(r);
        r->plain = false;
    }
    memcpy(r->run + r->run_len, bytes, len);
    r->run_len += len;
    if (repeated) {
        end_run(r);
        r->plain = false;
    }
    return true;
}

/* Something that matches characters which are not known here. */
static bool other_atom(struct reading *r, bool may_be_newline)
{
    bool repeated = false;
    bool optional = false;
    end_run(r);
    r->plain = false;
    if (may_be_newline)
        r->one_line = false;
    return read_repeat(r, &repeated, &optional);
}

static bool read_escape(struct reading *r)
{
    if (r->at + 1 >= r->text.len)
        return false;
    char c = r->text.ptr[r->at + 1];
    r->at += 2;
    switch (c) {
    case 'd':
    case 'w':
    case 'h': return other_atom(r, false);
    case 'D':
    case 'W':
    case 's':
    case 'S': return other_atom(r, c != 'S');
    case 't': return plain_character(r, "\t", 1);
    case 'b':
    case 'B':
        end_run(r);
        r->plain = false;
        return true;
    default: {
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        return !word && (unsigned char)c < 0x80 && plain_character(r, &c, 1);
    }
    }
}

static bool read_class(struct reading *r)
{
    size_t at = r->at + 1;
    bool may_be_newline = at < r->text.len && r->text.ptr[at] == '^';
    at += may_be_newline;
    for (bool first = true; at < r->text.len; first = false) {
        char c = r->text.ptr[at];
        if (c == ']' && !first) {
            r->at = at + 1;
            return other_atom(r, may_be_newline);
        }
        if (c == '[' && at + 1 < r->text.len && strchr(":.=", r->text.ptr[at + 1]))
            return false;
        if (c == '\\') {
            if (at + 1 >= r->text.len || r->text.ptr[at + 1] == 'Q')
                return false;
            /* \d, \w and punctuation are clear; everything else might be a newline. */
            char escaped = r->text.ptr[++at];
            may_be_newline = may_be_newline || ((unsigned char)escaped < 0x80 &&
                                                !strchr("dwht.-]\\/[()*+?{}|$_\"'", escaped));
        } else if (c == '\n' || c == '-') {
            /* A range may reach over the newline: only letters and digits are sure not to. */
            char before = r->text.ptr[at - 1];
            bool sure =
                c == '-' && ((before >= '0' && before <= '9') || before == '[' ||
                             (before >= 'A' && before <= 'Z') || (before >= 'a' && before <= 'z'));
            sure = sure || (c == '-' && at + 1 < r->text.len && r->text.ptr[at + 1] == ']');
            may_be_newline = may_be_newline || !sure;
        }
        at++;
    }
    return false;
}

static bool read_branches(struct reading *r);

/* A group: its inside counts when it stands there exactly once or more and has one branch. */
static bool read_group(struct reading *r)
{
    r->at++;
    if (starts(r, "?:"))
        r->at += 2;
    else if (peek(r) == '?' || peek(r) == '*')
        return false;
    if (++r->depth > GROUPS_MAX)
        return false;
    end_run(r);
    r->plain = false;
    /* Whether it may be left out is known only behind it: read it with the best so far put by. */
    struct reading before = *r;
    bool read = read_branches(r) && peek(r) == ')';
    r->at++;
    bool repeated = false;
    bool optional = false;
    if (!read || !read_repeat(r, &repeated, &optional))
        return false;
    r->depth--;
    if (optional) {
        memcpy(r->best, before.best, before.best_len);
        r->best_len = before.best_len;
        r->best_rarity = before.best_rarity;
    }
    return true;
}

static bool read_atom(struct reading *r)
{
    char c = peek(r);
    switch (c) {
    case '(': return read_group(r);
    case '[': return read_class(r);
    case '\\': return read_escape(r);
    case '.': r->at++; return other_atom(r, false);
    case '^':
    case '$':
        r->at++;
        end_run(r);
        r->plain = false;
        return true;
    case '*':
    case '+':
    case '?': return false;
    default: {
        const char *bytes = r->text.ptr + r->at;
        size_t len = 1;
        while (((unsigned char)c & 0x80) && r->at + len < r->text.len &&
               ((unsigned char)bytes[len] & 0xC0) == 0x80)
            len++;
        r->at += len;
        return plain_character(r, bytes, len);
    }
    }
}

/* Up to the end or the bracket that closes the group. */
static bool read_branches(struct reading *r)
{
    struct reading before = *r;
    bool several = false;
    while (r->at < r->text.len && peek(r) != ')') {
        if (peek(r) == '|') {
            end_run(r);
            several = true;
            r->at++;
        } else if (!read_atom(r)) {
            return false;
        }
    }
    if (r->depth > 0 || several)
        end_run(r);
    if (several) {
        r->plain = false;
        memcpy(r->best, before.best, before.best_len);
        r->best_len = before.best_len;
        r->best_rarity = before.best_rarity;
    }
    return true;
}

void cay_pattern_read(struct cay_str text, bool ignore_case, struct cay_pattern_facts *out_facts)
{
    struct reading r = {.text = text, .caseless = ignore_case, .one_line = true, .plain = true};
    *out_facts = (struct cay_pattern_facts){};
    if (starts(&r, "(?i)")) {
        r.caseless = true;
        r.at = 4;
    }
    if (!read_branches(&r) || r.at < text.len)
        return;
    out_facts->exact = r.plain && r.run_len > 0;
    end_run(&r);
    out_facts->known = true;
    out_facts->one_line = r.one_line;
    out_facts->caseless = r.caseless;
    out_facts->required_len = r.best_len;
    memcpy(out_facts->required, r.best, r.best_len);
}

struct cay_str cay_pattern_caseless_part(struct cay_str text)
{
    struct cay_str best = {};
    size_t start = 0;
    for (size_t at = 0; at <= text.len; at++) {
        if (at < text.len && !folds_beyond_ascii(text.ptr[at]) &&
            (unsigned char)text.ptr[at] < 0x80 && at - start < CAY_LITERAL_BYTES_MAX)
            continue;
        struct cay_str part = {text.ptr + start, at - start};
        if (cay_literal_rarity(part) > cay_literal_rarity(best))
            best = part;
        start = at + 1;
    }
    return best;
}
