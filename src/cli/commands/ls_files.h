/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* `cay ls SESSION:PATH`: the files of a session, now or in a snapshot. */

#include "cli/command.h"

[[nodiscard]] bool cay_ls_files(struct cay_cli *cli, const char *word, struct cay_error *err);
