/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_API_H
#define CAY_API_H

/*
 * What all headers of libcay share.
 *
 * - Functions that can fail return true when done. On false, *err (which may be NULL) says why, and
 *   outputs are untouched.
 * - Text given to a function is borrowed until it returns. What a function gives back belongs to
 * the caller, who releases it with the function named beside it; everything inside of it lives as
 * long.
 * - Structs that the caller fills begin with `size`, set by the macro of the same name: a program
 *   built with an older header goes on working with a newer library, and one built with a newer
 *   header with an older library as long as it sets nothing that this does not know. Structs that
 *   the library gives may grow at their end, which is why they are always reached by pointer.
 * - The library never exits, aborts, prints, handles signals, or changes the process it lives in.
 * When memory runs out, that is an error with the reason `out_of_memory`.
 * - Objects may be used by several threads at once, unless their header says otherwise.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CAY_API __attribute__((visibility("default")))
#else
#define CAY_API
#endif

#ifdef __cplusplus
#define CAY_API_BEGIN extern "C" {
#define CAY_API_END   }
#else
#define CAY_API_BEGIN
#define CAY_API_END
#endif

/* What a struct with `size` is initialized with: CAY_ENV_CONFIG and its kin. */
#ifdef __cplusplus
template <typename T> static inline T cay_init()
{
    T filled = T();
    filled.size = sizeof(T);
    return filled;
}
#define CAY_INIT(type) cay_init<struct type>()
#else
#define CAY_INIT(type)              \
    {                               \
        .size = sizeof(struct type) \
    }
#endif

CAY_API_BEGIN

/* A name and its value, as in labels and environments. */
struct cay_pair {
    const char *name;
    const char *value;
};

/* The version of the library that is there, such as "0.2.0". */
CAY_API const char *cay_version(void);

CAY_API_END

#endif
