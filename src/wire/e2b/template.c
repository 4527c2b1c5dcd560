/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/e2b/template.h"

#include "base/id.h"

static bool is_word(struct cay_str text, bool may_have_dots)
{
    if (!text.len || text.len > CAY_E2B_TEMPLATE_BYTES_MAX)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool is_inner = c == '-' || c == '_' || (may_have_dots && c == '.');
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && !(is_inner && i > 0))
            return false;
    }
    return true;
}

static struct cay_str lower(struct cay_str text, struct cay_arena *arena)
{
    char *copy = cay_arena_copy(arena, text);
    for (size_t i = 0; copy && i < text.len; i++) {
        if (copy[i] >= 'A' && copy[i] <= 'Z')
            copy[i] += 'a' - 'A';
    }
    return (struct cay_str){copy, copy ? text.len : 0};
}

bool cay_e2b_tag_parse(struct cay_str text, struct cay_arena *arena, struct cay_str *out_tag)
{
    *out_tag = lower(text, arena);
    return is_word(*out_tag, true);
}

bool cay_e2b_ref_parse(struct cay_str text, struct cay_arena *arena, struct cay_e2b_ref *out_ref)
{
    struct cay_str first;
    *out_ref = (struct cay_e2b_ref){};
    if (cay_str_split(&text, '/', &first) && text.ptr) {
        if (!cay_id_valid(first))
            return false;
        out_ref->space = first;
    } else {
        text = first;
    }
    (void)cay_str_split(&text, ':', &first);
    out_ref->name = lower(first, arena);
    if (text.ptr && !cay_e2b_tag_parse(text, arena, &out_ref->tag))
        return false;
    return is_word(out_ref->name, false);
}

struct image {
    struct cay_str name;
    struct cay_str tag; /* empty: not said, or by digest */
};

static struct cay_str without(struct cay_str text, const char *beginning)
{
    size_t len = strlen(beginning);
    return cay_str_starts(text, beginning) ? (struct cay_str){text.ptr + len, text.len - len}
                                           : text;
}

static struct image image_of(struct cay_str text)
{
    struct image image = {.name = without(without(text, "docker.io/"), "library/")};
    for (size_t i = 0; i < image.name.len; i++) {
        if (image.name.ptr[i] == '@') {
            image.name.len = i;
            break;
        }
    }
    /* A colon before a slash is that of a port. */
    for (size_t i = image.name.len; i-- > 0 && image.name.ptr[i] != '/';) {
        if (image.name.ptr[i] == ':') {
            image.tag = (struct cay_str){image.name.ptr + i + 1, image.name.len - i - 1};
            image.name.len = i;
            break;
        }
    }
    return image;
}

bool cay_e2b_image_line_valid(struct cay_str line)
{
    struct cay_str image;
    return cay_str_split(&line, '=', &image) && image_of(image).name.len && line.len &&
           !memchr(line.ptr, '=', line.len);
}

struct cay_str cay_e2b_image_base(const char *const *lines, size_t count, struct cay_str image)
{
    enum { NONE, ANY, NAME, TAG } best = NONE;
    struct image wanted = image_of(image);
    struct cay_str base = {};
    if (!wanted.tag.len)
        wanted.tag = CAY_STR("latest");
    for (size_t i = 0; i < count; i++) {
        struct cay_str rest = cay_str(lines[i]);
        struct cay_str left;
        (void)cay_str_split(&rest, '=', &left);
        struct image known = image_of(left);
        bool is_same = cay_str_equal(known.name, wanted.name);
        int fit = is_same && cay_str_equal(known.tag, wanted.tag) ? TAG
                  : is_same && !known.tag.len                     ? NAME
                  : cay_str_is(left, "*")                         ? ANY
                                                                  : NONE;
        if (fit > (int)best) {
            best = fit;
            base = rest;
        }
    }
    return base;
}
