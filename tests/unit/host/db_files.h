/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>
#include <unistd.h>

#include "base/base.h"

/* The database and what SQLite and we keep beside it. */
static inline void remove_database(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-spare"};
    for (size_t i = 0; i < CAY_COUNT(suffixes); i++) {
        char one[160];
        snprintf(one, sizeof(one), "%s%s", path, suffixes[i]);
        unlink(one);
    }
}
