/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "host/store/overlay/overlay_internal.h"

void ov_session_name(const struct ov_session *session, char out[static CAY_RECORD_SIZE])
{
    snprintf(out, CAY_RECORD_SIZE,
             "%016" PRIx64 ",%016" PRIx64 ",%016" PRIx64 ",%" PRIu64 ",%" PRId64, session->node.id,
             session->upper->node.id, session->copy ? session->copy->node.id : 0,
             session->generation, session->created_ms);
}

void ov_snapshot_name(const struct ov_snapshot *snapshot, char out[static CAY_RECORD_SIZE])
{
    snprintf(out, CAY_RECORD_SIZE, "%016" PRIx64 ",%016" PRIx64 ",%" PRId64 ",%d",
             snapshot->node.id, snapshot->top->node.id, snapshot->created_ms, snapshot->changed);
}

int ov_session_change(struct ov_store *ov, const struct ov_session *before,
                      const struct ov_session *after)
{
    char old_name[CAY_RECORD_SIZE];
    char new_name[CAY_RECORD_SIZE];
    ov_session_name(before, old_name);
    ov_session_name(after, new_name);
    return renameat(ov->sessions_fd, old_name, ov->sessions_fd, new_name) < 0 ? -errno : 0;
}

bool ov_write_down(struct ov_store *ov, int dir_fd, const char *name, struct ov_node *node,
                   struct ov_layer *layer, struct cay_error *err)
{
    int rc = cay_record_link(ov->root_fd, dir_fd, name);
    if (rc == 0)
        return true;
    free(node);
    ov_drop(ov, layer);
    return cay_store_fail(err, rc, "write down the record");
}
