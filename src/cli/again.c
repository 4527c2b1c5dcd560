/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/again.h"

#include <errno.h>
#include <time.h>

#include "base/clock.h"

enum { GIVE_UP_S = 60, PAUSE_MS = 50 };

void cay_again_began(struct cay_again *again)
{
    *again = (struct cay_again){.has_begun = true};
}

bool cay_again_waited(struct cay_again *again, const struct cay_error *err,
                      const volatile sig_atomic_t *stop)
{
    const struct timespec pause = {.tv_nsec = PAUSE_MS * CAY_NS_PER_MS};
    bool is_cut = err->reason == CAY_R_DAEMON_RESTARTING ||
                  (err->reason == CAY_R_UNAVAILABLE && again->has_begun);
    if (!is_cut || (stop && *stop))
        return false;
    int64_t now_ns = cay_clock_ns();
    if (!again->cut_ns)
        again->cut_ns = now_ns;
    if (now_ns - again->cut_ns > GIVE_UP_S * (int64_t)CAY_NS_PER_SEC)
        return false;
    (void)nanosleep(&pause, NULL);
    return !stop || !*stop;
}

bool cay_again_is_unsent(const struct cay_error *err)
{
    return err->reason == CAY_R_UNAVAILABLE &&
           (err->sys_errno == ECONNREFUSED || err->sys_errno == ENOENT);
}
