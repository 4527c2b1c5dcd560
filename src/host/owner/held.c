/* SPDX-License-Identifier: Apache-2.0 */
#include "host/owner/held.h"

#include "host/session/quota.h"
#include "host/session/session.h"

void cay_held_add(struct cay_held *held, struct cay_session *session, int fd,
                  void (*let_go)(struct cay_held *held))
{
    held->session = session;
    held->fd = fd;
    held->let_go = let_go;
    cay_list_push_back(&session->held, &held->in_session);
}

void cay_held_remove(struct cay_held *held)
{
    if (!cay_list_linked(&held->in_session))
        return;
    cay_list_remove(&held->in_session);
    cay_quota_touch(held->session); /* what it has may be less from now on */
}

void cay_held_end_all(struct cay_session *session)
{
    struct cay_list_node *node;
    while ((node = cay_list_pop_front(&session->held))) {
        struct cay_held *held = CAY_CONTAINER_OF(node, struct cay_held, in_session);
        held->let_go(held);
    }
}

struct stat *cay_held_look(const struct cay_session *session, size_t *out_count)
{
    struct stat *found = NULL;
    size_t count = 0;
    size_t room = 0;
    cay_list_for_each (const struct cay_held, held, &session->held, in_session) {
        if (count == room) {
            room = room ? 2 * room : 8;
            found = cay_realloc_array(found, room, sizeof(*found));
        }
        count += fstat(held->fd, &found[count]) == 0;
    }
    *out_count = count;
    return found;
}

static void init(struct cay_session *session)
{
    cay_list_init(&session->held);
}

static void forget_all(struct cay_session *session)
{
    while (cay_list_pop_front(&session->held))
        ; /* only when the daemon ends; their calls end by themselves */
}

const struct cay_session_part cay_held_part = {.init = init, .free = forget_all};
