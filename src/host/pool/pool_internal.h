/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "host/pool/pool.h"

/* In the data directory. */
#define CAY_POOL_RECORD   "pool"
#define CAY_POOL_FILE     "pool.img"
#define CAY_POOL_FILE_NEW "pool.img.new"

/* Opens what is there. */
[[nodiscard]] bool cay_pool_open_at(const char *data_dir, enum cay_pool_kind kind,
                                    const char *filesystem, const char *path,
                                    struct cay_pool *out_pool, struct cay_error *err);
