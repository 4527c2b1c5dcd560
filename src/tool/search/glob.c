/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/search/glob.h"

#include "base/utf8.h"

/* ---- one name ---- */

static uint32_t character(struct cay_str text, size_t at, size_t *out_len)
{
    int step = cay_utf8_step(text.ptr + at, text.len - at);
    unsigned char first = (unsigned char)text.ptr[at];
    *out_len = step > 0 ? (size_t)step : 1;
    if (step <= 1)
        return step == 1 ? first : 0x110000u + first; /* a stray byte equals only itself */
    uint32_t code = first & (0xFFu >> (step + 1));
    for (int i = 1; i < step; i++)
        code = (code << 6) | ((unsigned char)text.ptr[at + (size_t)i] & 0x3F);
    return code;
}

/* One character of a class, which a backslash may stand before. */
static uint32_t class_member(struct cay_str pattern, size_t *at)
{
    size_t len = 0;
    if (pattern.ptr[*at] == '\\' && *at + 1 < pattern.len)
        ++*at;
    uint32_t code = character(pattern, *at, &len);
    *at += len;
    return code;
}

/* `at` is behind the '['; returns the place behind the ']', 0 when there is none. */
static size_t match_class(struct cay_str pattern, size_t at, uint32_t code, bool *out_matches)
{
    bool negated = at < pattern.len && (pattern.ptr[at] == '!' || pattern.ptr[at] == '^');
    bool found = false;
    at += negated;
    for (bool first = true; at < pattern.len; first = false) {
        if (pattern.ptr[at] == ']' && !first) {
            *out_matches = found != negated;
            return at + 1;
        }
        uint32_t low = class_member(pattern, &at);
        uint32_t high = low;
        if (at + 1 < pattern.len && pattern.ptr[at] == '-' && pattern.ptr[at + 1] != ']') {
            at++;
            high = class_member(pattern, &at);
        }
        found = found || (code >= low && code <= high);
    }
    return 0;
}

/* Matches one element of the pattern, not a star, against one character. */
static bool match_one(struct cay_str pattern, size_t *p, struct cay_str name, size_t *n)
{
    size_t name_len = 0;
    size_t len = 0;
    uint32_t code = character(name, *n, &name_len);
    bool matches = true;
    switch (pattern.ptr[*p]) {
    case '?': ++*p; break;
    case '[': *p = match_class(pattern, *p + 1, code, &matches); break;
    case '\\':
        if (*p + 1 < pattern.len)
            ++*p;
        [[fallthrough]];
    default: matches = character(pattern, *p, &len) == code; *p += len;
    }
    *n += name_len;
    return matches;
}

/* Only the last star needs to be tried again: what stood before it matched as early as possible. */
static bool match_name(struct cay_str pattern, struct cay_str name)
{
    size_t p = 0;
    size_t n = 0;
    size_t star_p = SIZE_MAX;
    size_t star_n = 0;
    while (n < name.len) {
        if (p < pattern.len && pattern.ptr[p] == '*') {
            star_p = ++p;
            star_n = n;
            continue;
        }
        if (p < pattern.len && match_one(pattern, &p, name, &n))
            continue;
        if (star_p == SIZE_MAX)
            return false;
        size_t len = 0;
        (void)character(name, star_n, &len);
        star_n += len;
        p = star_p;
        n = star_n;
    }
    while (p < pattern.len && pattern.ptr[p] == '*')
        p++;
    return p == pattern.len;
}

/* ---- names between slashes: the same again, with `**` as the star ---- */

static bool is_any_depth(struct cay_str part)
{
    return cay_str_is(part, "**");
}

static struct cay_str next_name(struct cay_str path, size_t at, size_t *out_next)
{
    const char *slash = memchr(path.ptr + at, '/', path.len - at);
    size_t end = slash ? (size_t)(slash - path.ptr) : path.len;
    *out_next = slash ? end + 1 : end;
    return (struct cay_str){path.ptr + at, end - at};
}

static bool match_parts(const struct cay_glob_alternative *glob, struct cay_str path)
{
    size_t part = 0;
    size_t at = 0;
    size_t star_part = SIZE_MAX;
    size_t star_at = 0;
    while (at < path.len) {
        size_t next = 0;
        if (part < glob->count && is_any_depth(glob->parts[part])) {
            if (part + 1 == glob->count)
                return true;
            star_part = ++part;
            star_at = at;
            continue;
        }
        if (part < glob->count && match_name(glob->parts[part], next_name(path, at, &next))) {
            part++;
            at = next;
            continue;
        }
        if (star_part == SIZE_MAX)
            return false;
        (void)next_name(path, star_at, &star_at);
        part = star_part;
        at = star_at;
    }
    return part == glob->count;
}

bool cay_glob_match(const struct cay_glob *glob, struct cay_str path)
{
    for (size_t i = 0; i < glob->count; i++)
        if (match_parts(&glob->alternatives[i], path))
            return true;
    return false;
}

/* ---- writing braces out ---- */

struct expansion {
    struct cay_arena *arena;
    struct cay_str *texts;
    size_t count;
    const char *problem;
};

/* The end of a class that begins at `at`, or `at` itself when it has none. */
static size_t skip_class(struct cay_str text, size_t at)
{
    bool matches = false;
    size_t end = match_class(text, at + 1, 0, &matches);
    return end ? end - 1 : at;
}

/* Finds the first brace: its place, its commas (one option more than commas) and its end. False
 * when there is none; *out_end stays 0 when it is not closed. */
static bool find_brace(struct cay_str text, size_t *out_open, size_t *out_end)
{
    unsigned depth = 0;
    for (size_t at = 0; at < text.len; at++) {
        char c = text.ptr[at];
        if (c == '\\')
            at++;
        else if (c == '[')
            at = skip_class(text, at);
        else if (c == '{' && depth++ == 0)
            *out_open = at;
        else if (c == '}' && depth > 0 && --depth == 0) {
            *out_end = at;
            return true;
        }
    }
    return depth > 0;
}

/* The next option in [at, end): up to a comma that is not inside inner braces. */
static size_t option_end(struct cay_str text, size_t at, size_t end)
{
    unsigned depth = 0;
    for (; at < end; at++) {
        char c = text.ptr[at];
        if (c == '\\')
            at++;
        else if (c == '[')
            at = skip_class(text, at);
        else if (c == '{')
            depth++;
        else if (c == '}')
            depth--;
        else if (c == ',' && depth == 0)
            return at;
    }
    return end;
}

static bool add_text(struct expansion *expansion, struct cay_str a, struct cay_str b,
                     struct cay_str c)
{
    if (expansion->count == CAY_GLOB_ALTERNATIVES_MAX) {
        expansion->problem = "it has too many alternatives";
        return false;
    }
    char *text = cay_arena_alloc(expansion->arena, a.len + b.len + c.len + 1);
    if (!text)
        return false;
    struct cay_str parts[] = {a, b, c};
    size_t len = 0;
    for (size_t i = 0; i < CAY_COUNT(parts); len += parts[i++].len)
        if (parts[i].len)
            memcpy(text + len, parts[i].ptr, parts[i].len);
    expansion->texts[expansion->count++] = (struct cay_str){text, len};
    return true;
}

/* Takes texts with a brace out of the list and puts what they stand for at its end. */
static bool expand(struct expansion *expansion)
{
    for (size_t i = 0; i < expansion->count;) {
        struct cay_str text = expansion->texts[i];
        size_t open = 0;
        size_t end = 0;
        if (!find_brace(text, &open, &end)) {
            i++;
            continue;
        }
        if (!end) {
            expansion->problem = "a '{' is not closed";
            return false;
        }
        expansion->texts[i] = expansion->texts[--expansion->count];
        struct cay_str before = {text.ptr, open};
        struct cay_str after = {text.ptr + end + 1, text.len - end - 1};
        for (size_t at = open + 1; at <= end; at++) {
            size_t stop = option_end(text, at, end);
            if (!add_text(expansion, before, (struct cay_str){text.ptr + at, stop - at}, after))
                return false;
            at = stop;
        }
    }
    return true;
}

static const char *classes_problem(struct cay_str text)
{
    for (size_t at = 0; at < text.len; at++) {
        if (text.ptr[at] == '\\')
            at++;
        else if (text.ptr[at] == '[') {
            size_t end = skip_class(text, at);
            if (end == at)
                return "a '[' is not closed";
            at = end;
        }
    }
    return NULL;
}

static bool split(struct cay_arena *arena, struct cay_str text, struct cay_glob *glob,
                  struct cay_glob_alternative *out, const char **out_problem)
{
    struct cay_str parts[CAY_GLOB_PARTS_MAX];
    size_t count = 0;
    struct cay_str rest = text;
    struct cay_str part;
    bool any_depth = false;
    while (cay_str_split(&rest, '/', &part)) {
        *out_problem = classes_problem(part);
        if (*out_problem)
            return false;
        bool star = is_any_depth(part);
        any_depth = any_depth || star;
        if (!part.len || cay_str_is(part, ".") || (star && count && is_any_depth(parts[count - 1])))
            continue;
        if (count == CAY_GLOB_PARTS_MAX) {
            *out_problem = "it has too many parts";
            return false;
        }
        parts[count++] = part;
    }
    out->parts = cay_arena_array(arena, CAY_MAX(count, (size_t)1), sizeof(parts[0]));
    if (!out->parts)
        return false;
    memcpy(out->parts, parts, count * sizeof(parts[0]));
    out->count = count;
    glob->any_depth = glob->any_depth || any_depth;
    glob->depth_max = CAY_MAX(glob->depth_max, (unsigned)count);
    return true;
}

bool cay_glob_compile(struct cay_str pattern, struct cay_arena *arena, struct cay_glob *out_glob,
                      const char **out_problem)
{
    struct cay_glob glob = {};
    struct cay_str texts[CAY_GLOB_ALTERNATIVES_MAX];
    struct expansion expansion = {.arena = arena, .texts = texts};
    *out_problem = !pattern.len                          ? "it is empty"
                   : pattern.len > CAY_GLOB_BYTES_MAX    ? "it is too long"
                   : memchr(pattern.ptr, 0, pattern.len) ? "it has a NUL byte"
                                                         : NULL;
    if (*out_problem)
        return false;
    bool expanded =
        add_text(&expansion, pattern, (struct cay_str){}, (struct cay_str){}) && expand(&expansion);
    if (!expanded) {
        *out_problem = expansion.problem;
        return false;
    }
    glob.has_slash = memchr(pattern.ptr, '/', pattern.len) != NULL;
    glob.alternatives = cay_arena_array(arena, expansion.count, sizeof(glob.alternatives[0]));
    if (!glob.alternatives)
        return false;
    for (; glob.count < expansion.count; glob.count++) {
        if (!split(arena, texts[glob.count], &glob, &glob.alternatives[glob.count], out_problem))
            return false;
    }
    *out_glob = glob;
    return true;
}
