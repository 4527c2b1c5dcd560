/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/search/pcre.h"

#include "base/library.h"

const struct cay_pcre *cay_pcre(void)
{
    static const char *const names[] = {
#define CAY_PCRE_NAME(name) "pcre2_" #name "_8",
        CAY_PCRE_FUNCTIONS(CAY_PCRE_NAME)
#undef CAY_PCRE_NAME
    };
    static struct cay_pcre table;
    static struct cay_library library = {"libpcre2-8.so.0", names, CAY_COUNT(names), &table, false};
    static_assert(sizeof(table) == sizeof(names), "pointers, in order");
    return cay_library_load(&library) ? &table : NULL;
}
