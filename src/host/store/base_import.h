/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One import under way, for the files of this room that share it. */

#include "host/store/base.h"
#include "host/store/unpack.h"

struct cay_image_files;

struct cay_base_import {
    const struct cay_base_options *options;
    struct cay_base_info *info;
    struct cay_unpack unpack;
    bool is_image;
};

/* Unpacks a root, or takes the files of an image apart: import->is_image tells. */
[[nodiscard]] bool cay_base_read_tar(struct cay_base_import *import, int fd,
                                     struct cay_image_files *files, struct cay_error *err);
