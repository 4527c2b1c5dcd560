/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The functions of PCRE2, from its library, which is loaded when the first expression needs it:
 * whoever links us without searching does not have to have it.
 */

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define CAY_PCRE_PACKAGE "libpcre2-8-0"

/* clang-format off */
#define CAY_PCRE_FUNCTIONS(X)                                                           \
    X(code_free) X(compile) X(compile_context_create) X(compile_context_free)           \
    X(get_error_message) X(get_ovector_pointer) X(jit_compile) X(jit_match)             \
    X(jit_stack_assign) X(jit_stack_create) X(jit_stack_free) X(match)                  \
    X(match_context_create) X(match_context_free) X(match_data_create)                  \
    X(match_data_free) X(set_bsr) X(set_callout) X(set_depth_limit) X(set_heap_limit)   \
    X(set_match_limit) X(set_max_pattern_length) X(set_newline) X(set_offset_limit)     \
    X(set_parens_nest_limit)
/* clang-format on */

struct cay_pcre {
#define CAY_PCRE_MEMBER(name) typeof(&pcre2_##name##_8) name;
    CAY_PCRE_FUNCTIONS(CAY_PCRE_MEMBER)
#undef CAY_PCRE_MEMBER
};

/* NULL when the library is not there, which is looked for again the next time. The table is written
 * once and stays; threads may ask at the same time. */
const struct cay_pcre *cay_pcre(void);
