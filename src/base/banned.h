/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Included before everything else by the build (gcc only): functions without a bound, with hidden
 * state, or whose errors cannot be told from values. The libc headers come first so that their own
 * declarations are not hit.
 */
#ifndef __cplusplus
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#pragma GCC poison strcpy strcat strncpy strncat stpcpy sprintf vsprintf gets strtok
#pragma GCC poison gmtime localtime asctime atoi atol atoll atof
#pragma GCC poison mktemp tmpnam tempnam system popen
/* A field of structs in kernel headers has the name, so only the call is hit: it does not link. */
#define ctime(...) cay_banned_ctime(__VA_ARGS__)
#endif
