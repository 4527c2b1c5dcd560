/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Tokens of sandboxes, and what is signed with them. */

#include "base/base.h"

/* In a time that does not depend on where they differ. An empty token equals nothing. */
[[nodiscard]] bool cay_e2b_token_is(struct cay_str sent, struct cay_str token);
