/* SPDX-License-Identifier: Apache-2.0 */
#include "host/live/watchdog.h"

#include "base/log.h"
#include "host/runtime/runtime.h"
#include "host/session/host.h"
#include "host/session/session.h"

enum {
    FIRST_LOOK_MS = 500, /* most commands are over by then */
    LOOK_MS = 500,
    PATIENCE_MS = 1000, /* for an answer, before somebody is looked for who keeps it */
    LOST_MS = 60'000,
};

/* Frozen, it cannot answer: that is nobody's fault. */
static bool may_be_frozen(const struct cay_session *session)
{
    return session->state == CAY_SESSION_PAUSED || session->pausing ||
           (session->gate.inside && session->gate.is_alone);
}

static void ask(struct cay_watchdog *dog, uint64_t now_ms)
{
    struct cay_error ignored = {};
    dog->is_asked_again = false;
    dog->is_waiting = cay_link_ping(dog->link, ++dog->question, &ignored);
    dog->asked_ms = now_ms;
    dog->ops->asked(dog->session);
}

static void look(struct cay_timer *timer)
{
    struct cay_watchdog *dog = CAY_CONTAINER_OF(timer, struct cay_watchdog, timer);
    struct cay_session *session = dog->session;
    uint64_t now_ms = cay_loop_now_ms(session->host->loop);
    if (dog->is_waiting && cay_link_answered(dog->link) == dog->question) {
        dog->is_waiting = false;
        if (!dog->is_asked_again) {
            dog->is_awake = false;
            cay_timer_stop(&dog->timer);
            return;
        }
    }
    if (!dog->is_waiting || may_be_frozen(session)) {
        if (dog->is_waiting)
            dog->asked_ms = now_ms;
        else
            ask(dog, now_ms);
        return;
    }
    int64_t waited_ms = (int64_t)(now_ms - dog->asked_ms);
    if (waited_ms >= LOST_MS) {
        struct cay_error err = {};
        cay_fail(&err, CAY_R_UNAVAILABLE, "its first process has not answered for %d s",
                 LOST_MS / 1000);
        dog->ops->lost(session, &err);
    } else if (waited_ms >= PATIENCE_MS && cay_sandbox_end_start(session->sandbox, waited_ms)) {
        cay_log(CAY_WARN, "sandbox.start_ended", CAY_S("session", session->id),
                CAY_I("waited_ms", waited_ms));
    }
}

void cay_watchdog_open(struct cay_watchdog *dog, struct cay_session *session, struct cay_link *link,
                       const struct cay_watchdog_ops *ops)
{
    *dog = (struct cay_watchdog){.ops = ops, .session = session, .link = link};
    cay_timer_open(&dog->timer, session->host->loop, look);
}

void cay_watchdog_close(struct cay_watchdog *dog)
{
    cay_timer_close(&dog->timer);
}

void cay_watchdog_expect(struct cay_watchdog *dog)
{
    dog->is_asked_again = true;
    if (dog->is_awake)
        return;
    dog->is_awake = true;
    cay_timer_start(&dog->timer, FIRST_LOOK_MS, LOOK_MS);
}
