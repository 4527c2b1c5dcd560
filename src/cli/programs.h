/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Programs that come with this one: where they are. */

#include "base/arena.h"

enum cay_program {
    CAY_PROGRAM_DAEMON, /* cayd */
    CAY_PROGRAM_PROBE,  /* cay-probe */
};

/* In the arena. Beside this program or where it is installed; NULL when it is nowhere. */
[[nodiscard]] const char *cay_program_find(struct cay_arena *arena, enum cay_program program);
