/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A small root file system of static busybox, with natural ids, in a directory of its own. */

#include "base/base.h"

enum { ROOT_PATH_BYTES = 256 };

struct root {
    char path[ROOT_PATH_BYTES];
};

/* Why there cannot be one, or NULL. */
const char *root_missing(void);
/* `probe` is copied to /bin/probe when not NULL. */
bool root_make(struct root *root, const char *probe);
void root_remove(struct root *root);

/* An overlay over it with all layers id-mapped, as the store makes them: a detached mount, or
 * -errno. `scratch` holds upper and work. */
int root_overlay(const struct root *root, const struct root *scratch, int userns_fd,
                 uint32_t uid_base);
