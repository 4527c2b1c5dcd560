/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The program of cay-init in memory, sealed: nobody can change it, and every sandbox runs the same
 * pages. 0 / descriptor / -errno.
 */

#include "base/base.h"

[[nodiscard]] int cay_image_open(const char *path);
