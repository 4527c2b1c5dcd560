/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Help, made from the command table. */

#include "base/error.h"

struct cay_cli;

/* Of one command, of all commands that start with a word, or of everything (NULL). */
[[nodiscard]] bool cay_help_show(struct cay_cli *cli, const char *name, struct cay_error *err);
[[nodiscard]] bool cay_help_version(struct cay_cli *cli, struct cay_error *err);
