/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What every fuzzer defines. Linked with replay.c it becomes a program that runs the files it is
 * given; with -Dfuzz=true and clang, a libFuzzer target.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An oracle: says what broke, then stops where the debugger sees it. */
#define FUZZ_CHECK(condition)                                                         \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                  \
        }                                                                             \
    } while (0)
