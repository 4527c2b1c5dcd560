/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Room for the records on a disk that sandboxes have filled: whoever cannot write down that a
 * session is gone cannot remove it. The database and its log own blocks beyond their ends, and a
 * file `-spare` beside them is given up when the daemon could not start otherwise.
 */

#include "base/base.h"

/* Before SQLite has the database open: see open_file. */
void cay_db_reserve_file(int fd);
/* When the database at `path` is open. Returns a descriptor, or -1, to be closed after it: to close
 * it earlier is to lose SQLite's locks. */
[[nodiscard]] int cay_db_reserve_log(const char *path);
/* True when there is more room now than before. */
[[nodiscard]] bool cay_db_reserve_spend(const char *path);
