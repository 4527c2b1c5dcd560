/* SPDX-License-Identifier: Apache-2.0 */
#include "host/file/verbs.h"

/* clang-format off */
const struct cay_verb_row cay_file_verbs[] = {
    {CAY_V1_FILE_SERVICE_STAT_FILE,    cay_host_stat_file},
    {CAY_V1_FILE_SERVICE_LIST_DIR,     cay_host_list_dir},
    {CAY_V1_FILE_SERVICE_MAKE_DIR,     cay_host_make_dir},
    {CAY_V1_FILE_SERVICE_MAKE_SYMLINK, cay_host_make_symlink},
    {CAY_V1_FILE_SERVICE_MOVE_FILE,    cay_host_move_file},
    {CAY_V1_FILE_SERVICE_REMOVE_FILE,  cay_host_remove_file},
    {CAY_V1_FILE_SERVICE_READ_FILE,    cay_host_read_file},
    {CAY_V1_FILE_SERVICE_WRITE_FILE,   cay_host_write_file},
    {CAY_V1_FILE_SERVICE_WATCH_DIR,    cay_host_watch_dir},
    {},
};
/* clang-format on */
