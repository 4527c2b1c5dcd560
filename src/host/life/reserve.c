/* SPDX-License-Identifier: Apache-2.0 */
#include "host/life/reserve.h"

#include <assert.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/crash.h"
#include "base/log.h"
#include "host/life/demand.h"
#include "host/session/host.h"
#include "sys/descriptors.h"
#include "sys/self.h"
#include "sys/userns.h"

enum {
    QUIET_MS = 20,        /* after somebody asked: more may come, and they go first */
    PAUSE_MS = 2,         /* between two that are made */
    BUSY_MS = 100,        /* when others have work to do */
    RETRY_MS = 30 * 1000, /* after one could not be made */
    LOOK_MS = 60 * 1000,  /* how often demand is forgotten a little */
};

/* Those of one runtime. */
struct shelf {
    struct cay_runtime *runtime;
    struct cay_demand demand;
    struct cay_list waiting; /* struct cay_waiting, the one that waits longest first */
    size_t count;
};

struct cay_reserve {
    struct cay_host *host;
    struct shelf shelves[CAY_RUNTIMES_MAX];
    size_t shelf_count;
    size_t size_max; /* of each shelf */
    size_t cpus;
    struct cay_timer refill;
    struct cay_timer look;
    bool is_filling;
    bool is_over;
    uint64_t not_before_ms; /* one could not be made: when to try again */
    uint64_t handed_out;
    uint64_t cold;
};

/* --- how many --- */

/* The first runtime is the one of most: its shelf is never bare. */
static size_t wanted(const struct cay_reserve *reserve, const struct shelf *shelf)
{
    return cay_demand_wanted(&shelf->demand, shelf == reserve->shelves, reserve->size_max);
}

static struct shelf *shelf_of(struct cay_reserve *reserve, const struct cay_runtime *runtime)
{
    for (size_t i = 0; i < reserve->shelf_count; i++) {
        if (reserve->shelves[i].runtime == runtime)
            return &reserve->shelves[i];
    }
    return NULL;
}

static bool is_affordable(void)
{
    uint64_t available_bytes = 0;
    uint64_t total_bytes = 0;
    cay_memory_read(&available_bytes, &total_bytes);
    return cay_demand_is_affordable(available_bytes, total_bytes);
}

/* Who asked for something goes first, and somebody may ask any moment. */
static bool is_host_idle(const struct cay_reserve *reserve)
{
    size_t at_work = 0;
    size_t queued = 0;
    cay_loop_count_jobs(reserve->host->loop, &at_work, &queued);
    return queued == 0 && 2 * at_work <= reserve->cpus;
}

/* --- one comes --- */

struct fill_job {
    struct cay_job job;
    struct cay_reserve *reserve;
    struct shelf *shelf;
    struct cay_waiting *waiting;
    uint32_t uid_base;
    bool is_short; /* of memory, or of files that may be open */
    struct cay_error err;
};

static bool start_one(struct fill_job *self)
{
    struct cay_waiting *waiting = self->waiting;
    if (self->uid_base)
        waiting->userns_fd = cay_userns_open(self->uid_base, CAY_SESSION_ID_COUNT);
    if (self->uid_base && waiting->userns_fd < 0)
        return cay_fail_errno(&self->err, CAY_R_RUNTIME_FAILED, waiting->userns_fd,
                              "make the user namespace");
    const struct cay_sandbox_spec spec = {.id = waiting->id,
                                          .uid_base = self->uid_base,
                                          .userns_fd = waiting->userns_fd,
                                          .hostname = "waiting"};
    if (!cay_runtime_start_waiting(waiting->runtime, &spec, &waiting->sandbox, &self->err))
        return false;
    struct cay_sandbox_stats stats;
    cay_sandbox_stats(waiting->sandbox, &stats);
    waiting->memory_bytes = stats.usage.memory_bytes;
    return true;
}

static void fill_work(struct cay_job *job)
{
    struct fill_job *self = CAY_CONTAINER_OF(job, struct fill_job, job);
    self->is_short = !is_affordable() || cay_descriptors_check() < 0;
    if (!self->is_short)
        (void)start_one(self);
    CAY_CRASH_POINT("reserve.started");
}

static void free_waiting(struct cay_waiting *waiting)
{
    assert(!waiting->sandbox);
    cay_cleanup_close(&waiting->userns_fd);
    free(waiting);
}

static void refill_in(struct cay_reserve *reserve, uint64_t delay_ms)
{
    if (!reserve->is_over && !reserve->is_filling)
        cay_timer_start(&reserve->refill, delay_ms, 0);
}

static void empty(struct cay_reserve *reserve);
static void watch(struct cay_reserve *reserve, struct cay_waiting *waiting);

static void fill_done(struct cay_job *job)
{
    struct fill_job *self = CAY_CONTAINER_OF(job, struct fill_job, job);
    struct cay_reserve *reserve = self->reserve;
    struct cay_waiting *waiting = self->waiting;
    reserve->is_filling = false;
    if (waiting->sandbox) {
        cay_list_push_back(&self->shelf->waiting, &waiting->in_reserve);
        self->shelf->count++;
        watch(reserve, waiting);
        refill_in(reserve, PAUSE_MS);
    } else {
        if (self->err.reason)
            cay_log(CAY_WARN, "reserve.fill_failed", CAY_ERR(&self->err));
        cay_sessions_free_slot(&reserve->host->sessions, waiting->slot);
        free_waiting(waiting);
        if (self->is_short)
            empty(reserve);
        reserve->not_before_ms = cay_loop_now_ms(reserve->host->loop) + RETRY_MS;
        refill_in(reserve, RETRY_MS);
    }
    free(self);
}

static void fill(struct cay_reserve *reserve, struct shelf *shelf)
{
    uint32_t slot = 0;
    if (!cay_sessions_take_slot(&reserve->host->sessions, &slot))
        return;
    struct fill_job *self = cay_new(struct fill_job);
    self->reserve = reserve;
    self->shelf = shelf;
    self->uid_base = cay_uid_base_of(shelf->runtime, slot);
    self->waiting = cay_new(struct cay_waiting);
    *self->waiting = (struct cay_waiting){
        .host = reserve->host, .runtime = shelf->runtime, .slot = slot, .userns_fd = -1};
    cay_store_new_id(self->waiting->id);
    self->job.work = fill_work;
    self->job.done = fill_done;
    reserve->is_filling = cay_loop_try_submit(reserve->host->loop, &self->job);
    if (!reserve->is_filling) { /* the daemon ends */
        cay_sessions_free_slot(&reserve->host->sessions, slot);
        free_waiting(self->waiting);
        free(self);
    }
}

static void on_refill(struct cay_timer *timer)
{
    struct cay_reserve *reserve = CAY_CONTAINER_OF(timer, struct cay_reserve, refill);
    uint64_t now_ms = cay_loop_now_ms(reserve->host->loop);
    if (now_ms < reserve->not_before_ms) {
        refill_in(reserve, reserve->not_before_ms - now_ms);
        return;
    }
    for (size_t i = 0; i < reserve->shelf_count; i++) {
        struct shelf *shelf = &reserve->shelves[i];
        if (shelf->count >= wanted(reserve, shelf)) {
            cay_demand_met(&shelf->demand);
            continue;
        }
        if (is_host_idle(reserve))
            fill(reserve, shelf);
        else
            refill_in(reserve, BUSY_MS);
        return;
    }
}

/* --- one goes --- */

struct drop_job {
    struct cay_job job;
    struct cay_host *host;
    struct cay_waiting *waiting;
    bool frees_slot;
};

static void destroy_waiting(struct cay_waiting *waiting)
{
    struct cay_error err = {};
    if (waiting->sandbox && !cay_sandbox_destroy(cay_take_ptr(waiting->sandbox), &err))
        cay_log(CAY_WARN, "reserve.drop_failed", CAY_ERR(&err));
}

static void drop_work(struct cay_job *job)
{
    destroy_waiting(CAY_CONTAINER_OF(job, struct drop_job, job)->waiting);
}

static void drop_done(struct cay_job *job)
{
    struct drop_job *self = CAY_CONTAINER_OF(job, struct drop_job, job);
    if (self->frees_slot)
        cay_sessions_free_slot(&self->host->sessions, self->waiting->slot);
    free_waiting(self->waiting);
    free(self);
}

static void drop(struct cay_host *host, struct cay_waiting *waiting, bool frees_slot)
{
    struct drop_job *self = cay_new(struct drop_job);
    *self = (struct drop_job){.job = {.work = drop_work, .done = drop_done},
                              .host = host,
                              .waiting = waiting,
                              .frees_slot = frees_slot};
    if (cay_loop_try_submit(host->loop, &self->job))
        return;
    drop_work(&self->job);
    drop_done(&self->job);
}

void cay_waiting_drop(struct cay_host *host, struct cay_waiting *waiting)
{
    if (waiting && waiting->sandbox)
        drop(host, waiting, false);
    else if (waiting)
        free_waiting(waiting);
}

static struct cay_waiting *pop(struct shelf *shelf)
{
    struct cay_list_node *node = cay_list_pop_front(&shelf->waiting);
    if (!node)
        return NULL;
    struct cay_waiting *waiting = CAY_CONTAINER_OF(node, struct cay_waiting, in_reserve);
    shelf->count--;
    cay_watch_close(&waiting->death);
    return waiting;
}

static void on_death(struct cay_watch *watch, unsigned)
{
    struct cay_waiting *waiting = CAY_CONTAINER_OF(watch, struct cay_waiting, death);
    struct cay_reserve *reserve = waiting->host->reserve;
    struct shelf *shelf = shelf_of(reserve, waiting->runtime);
    assert(shelf);
    cay_list_remove(&waiting->in_reserve);
    shelf->count--;
    cay_watch_close(watch);
    drop(reserve->host, waiting, true);
    refill_in(reserve, RETRY_MS);
}

/* Somebody may kill it. */
static void watch(struct cay_reserve *reserve, struct cay_waiting *waiting)
{
    int pidfd = cay_sandbox_pidfd(waiting->sandbox);
    if (pidfd >= 0 && cay_watch_open(&waiting->death, reserve->host->loop, pidfd, on_death) == 0)
        cay_watch_set(&waiting->death, CAY_READY_READ);
}

static void shrink(struct cay_reserve *reserve, struct shelf *shelf, size_t count)
{
    while (shelf->count > count)
        drop(reserve->host, pop(shelf), true);
}

static void empty(struct cay_reserve *reserve)
{
    for (size_t i = 0; i < reserve->shelf_count; i++)
        shrink(reserve, &reserve->shelves[i], 0);
}

static void on_look(struct cay_timer *timer)
{
    struct cay_reserve *reserve = CAY_CONTAINER_OF(timer, struct cay_reserve, look);
    for (size_t i = 0; i < reserve->shelf_count; i++) {
        cay_demand_look(&reserve->shelves[i].demand);
        shrink(reserve, &reserve->shelves[i], wanted(reserve, &reserve->shelves[i]));
    }
    if (!is_affordable() || cay_descriptors_check() < 0)
        empty(reserve);
}

/* As far as it is known: who watches it may not have been told yet. */
static bool is_alive(const struct cay_waiting *waiting)
{
    struct pollfd entry = {.fd = cay_sandbox_pidfd(waiting->sandbox), .events = POLLIN};
    return entry.fd < 0 || poll(&entry, 1, 0) == 0;
}

void cay_reserve_take(struct cay_session *session)
{
    struct cay_host *host = session->host;
    struct cay_reserve *reserve = host->reserve;
    struct shelf *shelf = reserve ? shelf_of(reserve, session->runtime) : NULL;
    assert(!session->store_id[0] && session->uid_slot == CAY_UID_SLOT_COUNT);
    if (!shelf || reserve->is_over)
        return;
    struct cay_waiting *waiting = pop(shelf);
    while (waiting && !is_alive(waiting)) {
        drop(host, waiting, true);
        waiting = pop(shelf);
    }
    cay_demand_ask(&shelf->demand);
    refill_in(reserve, QUIET_MS);
    if (!waiting)
        return;
    memcpy(session->store_id, waiting->id, sizeof(session->store_id));
    session->uid_slot = waiting->slot;
    session->waiting = waiting;
}

void cay_reserve_count(struct cay_host *host, bool was_waiting)
{
    if (host->reserve && was_waiting)
        host->reserve->handed_out++;
    else if (host->reserve)
        host->reserve->cold++;
}

/* --- the whole --- */

void cay_reserve_start(struct cay_host *host)
{
    const struct cay_runtimes *runtimes = &host->runtimes;
    cpu_set_t cpus;
    if (host->settings->reserve <= 0)
        return;
    struct cay_reserve *reserve = cay_new(struct cay_reserve);
    reserve->host = host;
    reserve->size_max = (size_t)host->settings->reserve;
    reserve->cpus = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? (size_t)CPU_COUNT(&cpus) : 1;
    for (size_t i = 0; i < runtimes->offered_count; i++) {
        struct shelf *shelf = &reserve->shelves[reserve->shelf_count];
        if (!cay_runtime_can(runtimes->open[i], CAY_RUNTIME_WAITS))
            continue;
        shelf->runtime = runtimes->open[i];
        cay_list_init(&shelf->waiting);
        reserve->shelf_count++;
    }
    cay_timer_open(&reserve->refill, host->loop, on_refill);
    cay_timer_open(&reserve->look, host->loop, on_look);
    cay_timer_start(&reserve->look, LOOK_MS, LOOK_MS);
    host->reserve = reserve;
    refill_in(reserve, QUIET_MS);
}

void cay_reserve_stop(struct cay_host *host)
{
    if (!host->reserve)
        return;
    host->reserve->is_over = true;
    cay_timer_close(&host->reserve->refill);
    cay_timer_close(&host->reserve->look);
}

void cay_reserve_destroy(struct cay_host *host)
{
    struct cay_reserve *reserve = cay_take_ptr(host->reserve);
    if (!reserve)
        return;
    for (size_t i = 0; i < reserve->shelf_count; i++) {
        for (struct cay_waiting *waiting; (waiting = pop(&reserve->shelves[i])) != NULL;) {
            destroy_waiting(waiting);
            free_waiting(waiting);
        }
    }
    free(reserve);
}

struct cay_reserve_figures cay_reserve_figures(const struct cay_host *host)
{
    const struct cay_reserve *reserve = host->reserve;
    struct cay_reserve_figures figures = {};
    if (!reserve)
        return figures;
    figures.size_max = reserve->size_max;
    figures.handed_out = reserve->handed_out;
    figures.cold = reserve->cold;
    for (size_t i = 0; i < reserve->shelf_count; i++) {
        cay_list_for_each (struct cay_waiting, waiting, &reserve->shelves[i].waiting, in_reserve) {
            figures.waiting++;
            figures.memory_bytes += waiting->memory_bytes;
        }
    }
    return figures;
}

/* Of a session that was not born. */
static void leave(struct cay_session *session)
{
    cay_waiting_drop(session->host, cay_take_ptr(session->waiting));
}

const struct cay_session_part cay_reserve_part = {.free = leave};
