/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The other way for a filtered network, where BPF is not to be had: in the namespace that the
 * thread visits, everything is led to our sockets by packet filter tables. 0 or -errno. */

#include "base/base.h"

[[nodiscard]] int cay_redirect_put(void);
/* Also where there is none. */
[[nodiscard]] int cay_redirect_remove(void);
