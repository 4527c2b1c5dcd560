/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/rules/rules.h"

enum { LABEL_BYTES_MAX = 63 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f');
}

static bool is_of_a_name(char c)
{
    return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '_';
}

/* "1", "0x7f", "0x": where a name ends so, some programs read an address ("127.1") and others a
 * name. */
static bool is_number(struct cay_str label)
{
    bool is_sixteen = label.len >= 2 && label.ptr[0] == '0' && label.ptr[1] == 'x';
    for (size_t i = is_sixteen ? 2 : 0; i < label.len; i++) {
        if (is_sixteen ? !is_hex(label.ptr[i]) : !is_digit(label.ptr[i]))
            return false;
    }
    return true;
}

/* Of labels that are good so far; NULL when nothing is wrong. */
static const char *wrong_label(struct cay_str label)
{
    if (label.len == 0)
        return "nothing stands between two dots, or before the first";
    if (label.len > LABEL_BYTES_MAX)
        return "a part between two dots has more than 63 characters";
    for (size_t i = 0; i < label.len; i++) {
        if (!is_of_a_name(label.ptr[i]))
            return "letters, digits, '-' and '_' are in names, and dots between them";
    }
    return NULL;
}

static const char *wrong_name(struct cay_str name)
{
    struct cay_str rest = name;
    struct cay_str label = {};
    while (cay_str_split(&rest, '.', &label)) {
        const char *wrong = wrong_label(label);
        if (wrong)
            return wrong;
    }
    return is_number(label)
               ? "it ends with a number, as no name does; write an address in full, like 192.0.2.1"
               : NULL;
}

bool cay_name_normalise(struct cay_str text, char out_name[static CAY_NAME_SIZE],
                        const char **out_why)
{
    size_t len = text.len && text.ptr[text.len - 1] == '.' ? text.len - 1 : text.len;
    *out_why = NULL;
    if (len == 0)
        *out_why = "a name is missing";
    else if (len >= CAY_NAME_SIZE)
        *out_why = "a name has at most 253 characters";
    for (size_t i = 0; i < len && !*out_why; i++) {
        char c = text.ptr[i];
        if (c & 0x80)
            *out_why = "write a name with other letters as DNS has it, with xn--";
        out_name[i] = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    }
    if (!*out_why)
        *out_why = wrong_name((struct cay_str){out_name, len});
    if (*out_why)
        return false;
    out_name[len] = '\0';
    return true;
}
