/* SPDX-License-Identifier: Apache-2.0 */
#include "host/past/point.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "host/live/live.h"
#include "host/live/watching.h"
#include "host/past/snapshot.h"
#include "host/session/host.h"
#include "host/session/tidy.h"

enum {
    FREEZE_TIMEOUT_MS = 5000,
    IDLE_TIMEOUT_MS = 2000, /* for the last of a command that was killed */
};

/* In a paused sandbox nobody can be asked, and nothing is switched. */
static bool is_busy(const struct cay_session *session)
{
    if (session->state == CAY_SESSION_PAUSED)
        return session->sandbox != NULL;
    return session->live && !cay_live_is_quiet(session->live);
}

/* A root that cannot be changed under its sandbox must stay, whoever runs there. */
static bool keeps_root(const struct cay_session *session)
{
    const struct cay_host *host = session->host;
    return is_busy(session) ||
           (session->sandbox && cay_store_caps(host->store) & CAY_STORE_SWITCHES &&
            !cay_runtime_can(session->runtime, CAY_RUNTIME_SWITCHES));
}

void cay_pointing_init(struct cay_pointing *pointing, const struct cay_session *session)
{
    *pointing = (struct cay_pointing){
        .owner = {.id_base = cay_session_uid_base(session),
                  .id_count = CAY_SESSION_ID_COUNT,
                  .userns_fd = -1},
        .activity = keeps_root(session) ? CAY_STORE_FROZEN : CAY_STORE_QUIET,
        .needs_freeze = is_busy(session) && session->state != CAY_SESSION_PAUSED,
        .is_mounted = session->root_fd >= 0,
        .sandbox = session->sandbox,
        .point.root_fd = -1,
        .old_fd = -1,
        .watches = cay_watching_borrow(session),
    };
    memcpy(pointing->store_id, session->store_id, sizeof(pointing->store_id));
    const struct cay_snapshot *head = cay_session_snapshot(session, cay_str(session->head));
    if (head)
        memcpy(pointing->head_store_id, head->store_id, sizeof(pointing->head_store_id));
}

/* That no command runs does not mean that nobody lives: what was killed with one may still be
 * dying, and somebody may have got away. Under them the root cannot be changed: who does not go
 * stands still. */
static void look_for_others(struct cay_pointing *pointing)
{
    if (!pointing->sandbox || pointing->activity != CAY_STORE_QUIET ||
        cay_sandbox_wait_idle(pointing->sandbox, IDLE_TIMEOUT_MS))
        return;
    pointing->activity = CAY_STORE_FROZEN;
    pointing->needs_freeze = true;
}

void cay_pointing_wait_idle(const struct cay_pointing *pointing)
{
    if (pointing->sandbox)
        (void)cay_sandbox_wait_idle(pointing->sandbox, IDLE_TIMEOUT_MS);
}

bool cay_pointing_freeze(struct cay_pointing *pointing, struct cay_error *err)
{
    look_for_others(pointing);
    if (!pointing->needs_freeze)
        return true;
    pointing->frozen_ns = cay_clock_ns();
    if (cay_sandbox_freeze(pointing->sandbox, FREEZE_TIMEOUT_MS, err))
        return true;
    cay_pointing_thaw(pointing);
    return false;
}

void cay_pointing_thaw(struct cay_pointing *pointing)
{
    struct cay_error err = {};
    if (!pointing->needs_freeze)
        return;
    if (!cay_sandbox_thaw(pointing->sandbox, &err))
        cay_log(CAY_ERROR, "sandbox.thaw_failed", CAY_S("sandbox", pointing->store_id),
                CAY_ERR(&err));
    pointing->frozen_ns = cay_clock_ns() - pointing->frozen_ns;
}

/* Nothing happens in the tree now: who watches misses nothing. */
static void move_watches(struct cay_pointing *pointing)
{
    int living_fd = pointing->sandbox ? cay_sandbox_root(pointing->sandbox) : -1;
    if (pointing->watches)
        cay_watches_move(pointing->watches, living_fd >= 0 ? living_fd : pointing->point.root_fd,
                         living_fd >= 0, pointing->is_other_tree);
}

bool cay_pointing_switch(struct cay_pointing *pointing, struct cay_error *err)
{
    if (pointing->point.root_fd < 0)
        return true;
    bool is_switched =
        !pointing->sandbox ||
        cay_sandbox_switch_root(pointing->sandbox, pointing->point.root_fd, &pointing->old_fd, err);
    if (!is_switched)
        cay_pointing_abandon(pointing);
    move_watches(pointing);
    return is_switched;
}

void cay_pointing_abandon(struct cay_pointing *pointing)
{
    struct cay_error err = {};
    if (pointing->sandbox && !cay_sandbox_kill(pointing->sandbox, &err))
        cay_log(CAY_ERROR, "sandbox.kill_failed", CAY_S("sandbox", pointing->store_id),
                CAY_ERR(&err));
}

void cay_pointing_install(struct cay_pointing *pointing, struct cay_session *session)
{
    session->generation = pointing->point.generation;
    if (pointing->point.root_fd < 0)
        return;
    /* The last descriptor takes the old overlay apart, which takes longer than all that is left to
     * do before the answer. */
    cay_host_close_later(session->host, cay_take_fd(pointing->old_fd));
    cay_host_close_later(session->host, cay_take_fd(session->root_fd));
    session->root_fd = cay_take_fd(pointing->point.root_fd);
    cay_watching_poke(session);
}

void cay_pointing_settle(struct cay_pointing *pointing, struct cay_session *session)
{
    if (pointing->store_id[0] && pointing->point.root_fd >= 0)
        cay_pointing_install(pointing, session);
}
