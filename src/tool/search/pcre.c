/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/search/pcre.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/base.h"

static bool find_all(void *library, struct cay_pcre *out_table)
{
    static const char *const names[] = {
#define CAY_PCRE_NAME(name) "pcre2_" #name "_8",
        CAY_PCRE_FUNCTIONS(CAY_PCRE_NAME)
#undef CAY_PCRE_NAME
    };
    static_assert(sizeof(*out_table) == CAY_COUNT(names) * sizeof(void *), "pointers, in order");
    void *found[CAY_COUNT(names)];
    for (size_t i = 0; i < CAY_COUNT(names); i++) {
        found[i] = dlsym(library, names[i]);
        if (!found[i])
            return false;
    }
    /* As POSIX has it for dlsym: an object pointer holds a function's. */
    memcpy(out_table, found, sizeof(found));
    return true;
}

/* Whoever comes second gives its own away again: the library is counted, and stays. */
const struct cay_pcre *cay_pcre(void)
{
    static _Atomic(struct cay_pcre *) known;
    struct cay_pcre *table = atomic_load_explicit(&known, memory_order_acquire);
    if (table)
        return table;
    void *library = dlopen("libpcre2-8.so.0", RTLD_NOW | RTLD_LOCAL);
    table = library ? malloc(sizeof(*table)) : NULL;
    if (!table || !find_all(library, table)) {
        free(table);
        if (library)
            dlclose(library);
        return NULL;
    }
    struct cay_pcre *before = NULL;
    if (atomic_compare_exchange_strong(&known, &before, table))
        return table;
    free(table);
    dlclose(library);
    return before;
}
