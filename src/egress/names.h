/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names and the addresses that were made up for them. They are kept in a file that the daemon
 * gave, so that the next helper, and those of forks, know whom a program inside means by an address
 * that it has had for long. When all are given out, the one that was not needed for longest is
 * given to another name.
 */

#include "base/base.h"
#include "wire/egress/egress.h"

struct egress_names {
    int fd; /* borrowed; -1: they are not kept */
    char **texts;
    uint16_t *next; /* of the same hash; 0: no more. Places are counted from 1 */
    uint32_t *used_s;
    uint16_t *heads;
    size_t count; /* slots that were ever used */
};

/* A file that was damaged is taken as far as it is good. 0 or -errno. */
[[nodiscard]] int egress_names_init(struct egress_names *names, int fd);
void egress_names_finish(struct egress_names *names);

/* The slot of a name, which is a good one in its one spelling; one is given if need be. -ENOSPC
 * when all are in use, -errno when it cannot be kept. */
[[nodiscard]] int egress_names_give(struct egress_names *names, const char *name, uint32_t now_s);
/* The name of a slot, NULL when it has none. Good until the next is given. */
[[nodiscard]] const char *egress_names_of(struct egress_names *names, uint32_t slot,
                                          uint32_t now_s);

/* The totals are in the file as well, so that no end of a helper or of the daemon loses them. */
void egress_names_read_totals(const struct egress_names *names, struct cay_egress_totals *out);
void egress_names_keep_totals(const struct egress_names *names,
                              const struct cay_egress_totals *totals);
