/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The directory that a store lives in: one daemon's at a time, of one format, nobody else's to look
 * at. For implementers. */

#include "base/error.h"

/* Opens a directory, which is made when it is not there. */
[[nodiscard]] bool cay_store_open_dir(int at_fd, const char *name, int *out_fd,
                                      struct cay_error *err);

/* Closes the store's directory to others and locks it as long as the lock is open (UNAVAILABLE when
 * another daemon has it). A new one gets the format; NOT_SUPPORTED for one with another, so that no
 * other store, and no later form of this one, is taken for it. */
[[nodiscard]] bool cay_store_claim(int root_fd, const char *directory, const char *format,
                                   int *out_lock_fd, struct cay_error *err);
