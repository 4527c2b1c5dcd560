/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What cmocka.h wants included before it, in one place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
