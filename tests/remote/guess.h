/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Before a service that cannot say who holds a secret: this one knows a single key, as echod does,
 * and never answers at once. */

#include "api/service.h"
#include "io/loop.h"

/* Replaces the service's own ways; `key` may be NULL: nobody has one. */
void guess_init(struct cay_service *service, struct cay_loop *loop, const char *key);
