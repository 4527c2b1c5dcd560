/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * System calls without a C library under them: the result is the kernel's (negative errno), no
 * thread-local is touched. Needed between clone and exec in a child that shares its parent's
 * memory, where writing errno would write the parent's.
 */

#include <stdint.h>
#include <sys/syscall.h>

#if defined(__x86_64__)

[[gnu::always_inline]] static inline long cay_raw6(long nr, long a, long b, long c, long d, long e,
                                                   long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

#elif defined(__aarch64__)

[[gnu::always_inline]] static inline long cay_raw6(long nr, long a, long b, long c, long d, long e,
                                                   long f)
{
    register long x8 __asm__("x8") = nr;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}

#else
#error "this processor has no raw system call here yet"
#endif

#define CAY_RAW_ARG(value) ((long)(intptr_t)(value))
#define cay_raw0(nr)       cay_raw6((nr), 0, 0, 0, 0, 0, 0)
#define cay_raw1(nr, a)    cay_raw6((nr), CAY_RAW_ARG(a), 0, 0, 0, 0, 0)
#define cay_raw2(nr, a, b) cay_raw6((nr), CAY_RAW_ARG(a), CAY_RAW_ARG(b), 0, 0, 0, 0)
#define cay_raw3(nr, a, b, c) \
    cay_raw6((nr), CAY_RAW_ARG(a), CAY_RAW_ARG(b), CAY_RAW_ARG(c), 0, 0, 0)
#define cay_raw4(nr, a, b, c, d) \
    cay_raw6((nr), CAY_RAW_ARG(a), CAY_RAW_ARG(b), CAY_RAW_ARG(c), CAY_RAW_ARG(d), 0, 0)
#define cay_raw5(nr, a, b, c, d, e)                                                                \
    cay_raw6((nr), CAY_RAW_ARG(a), CAY_RAW_ARG(b), CAY_RAW_ARG(c), CAY_RAW_ARG(d), CAY_RAW_ARG(e), \
             0)
