/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Files that have no name any more, or never had one (O_TMPFILE), and take up space as long as some
 * process has them open or mapped. No walk of a tree finds them; the processes' descriptors and
 * mappings tell.
 */

#include <sys/stat.h>

#include "base/base.h"

struct cay_hidden_files {
    uint64_t bytes;
    uint64_t count;
    /* Descriptors in messages that nobody has received yet (SCM_RIGHTS): what they hold is not to
     * be seen from outside. */
    uint64_t in_flight;
};

/* Of all processes in a control group and the groups below it, on the device `dev`. The descriptor
 * is that of the group's directory; -1: there are none. What ends meanwhile is passed over. `held`
 * are files that somebody outside has open, on whatever device; with a name, they do not count.
 * -errno. */
[[nodiscard]] int cay_hidden_files_look(int group_fd, dev_t dev, const struct stat *held,
                                        size_t held_count, struct cay_hidden_files *out);

/* Time that the processes of a version 2 group have had a processor for; false when it is not
 * known.
 */
[[nodiscard]] bool cay_hidden_files_cpu(int group_fd, uint64_t *out_usec);
