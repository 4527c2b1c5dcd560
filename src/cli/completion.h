/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Completion for all shells by one rule: the script of a shell asks `cay complete -- WORDS…` what
 * may stand at the last word, and gets a line per candidate, its help after a tab.
 */

#include "base/base.h"

struct cay_cli;
struct cay_command;

struct cay_completion {
    struct cay_cli *cli;
    const struct cay_command *command; /* NULL while its name is being typed */
    const char *const *words;          /* arguments before the one being typed */
    size_t word_count;
    const char *prefix; /* what is typed of it */
};

/* A candidate; kept when it starts with the prefix. `help` may be NULL. */
void cay_completion_offer(struct cay_completion *completion, const char *name, const char *help);

/* Offers the next word of the commands that start with the words before. */
void cay_completion_commands(struct cay_completion *completion);
