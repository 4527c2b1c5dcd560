/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A shared library that is opened when it is first needed: most programs that could need it never
 * do, and start without it.
 *
 *     #define FUNCTIONS(X) X(inflate) X(inflateEnd)
 *     CAY_LIBRARY(lib, "libz.so.1", FUNCTIONS);
 *
 *     if (cay_library_load(&lib_library))
 *         lib.inflate(…);
 *
 * The table is written once and stays; threads may ask at the same time.
 */

#include <stdatomic.h>

#include "base/base.h"

struct cay_library {
    const char *soname;
    const char *const *names;
    size_t count;
    void *table; /* pointers to the functions, in the order of the names */
    atomic_bool is_there;
};

/* False when it is not there, or has not all the functions; it is looked for again the next time.
 */
[[nodiscard]] bool cay_library_load(struct cay_library *library);

#define CAY_LIBRARY_POINTER(name) typeof(name) *name;
#define CAY_LIBRARY_NAME(name)    #name,

/* Both `lib`, with a pointer for each function, and `lib_library`. */
#define CAY_LIBRARY(lib, soname, FUNCTIONS)                                                       \
    static struct {                                                                               \
        FUNCTIONS(CAY_LIBRARY_POINTER)                                                            \
    } lib;                                                                                        \
    static const char *const lib##_names[] = {FUNCTIONS(CAY_LIBRARY_NAME)};                       \
    static_assert(sizeof(lib) == sizeof(lib##_names), "one pointer for each");                    \
    static struct cay_library lib##_library = {soname, lib##_names, CAY_COUNT(lib##_names), &lib, \
                                               false}
