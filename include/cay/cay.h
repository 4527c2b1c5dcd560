/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAY_H
#define CAY_CAY_H

/* All of libcay. */

#include "cay/client.h"
#include "cay/control.h"
#include "cay/env.h"
#include "cay/error.h"
#include "cay/stream.h"

#endif
