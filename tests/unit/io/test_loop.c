/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "io/loop.h"
#include "io/share.h"
#include "io/worker.h"

struct fixture {
    struct cay_loop *loop;
    struct cay_timer guard;
};

/* A test that waits for what never comes must fail, not hang. */
static void give_up(struct cay_timer *)
{
    fail_msg("nothing happened for ten seconds");
}

static int setup(void **state)
{
    struct fixture *fixture = cay_new(struct fixture);
    assert_int_equal(cay_loop_create(&fixture->loop), 0);
    cay_timer_open(&fixture->guard, fixture->loop, give_up);
    cay_timer_start(&fixture->guard, 10000, 0);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    cay_timer_close(&fixture->guard);
    cay_loop_destroy(fixture->loop);
    free(fixture);
    return 0;
}

enum { THREADS = 4, POSTS = 2000 };

struct post {
    struct cay_task task;
    struct poster *poster;
    int number;
};

struct poster {
    struct cay_loop *loop;
    pthread_t thread;
    struct post posts[POSTS];
    int next; /* of the loop thread */
    int *left;
};

static void run_post(struct cay_task *task)
{
    struct post *post = CAY_CONTAINER_OF(task, struct post, task);
    assert_int_equal(post->number, post->poster->next++);
    if (--*post->poster->left == 0)
        cay_loop_stop(post->poster->loop);
}

static void *post_all(void *arg)
{
    struct poster *poster = arg;
    for (int i = 0; i < POSTS; i++) {
        poster->posts[i] = (struct post){{.run = run_post}, poster, i};
        cay_loop_post(poster->loop, &poster->posts[i].task);
    }
    return NULL;
}

static void tasks_from_threads_all_run_and_in_each_ones_order(void **state)
{
    struct fixture *self = *state;
    struct poster *posters = cay_alloc(THREADS * sizeof(*posters));
    int left = THREADS * POSTS;
    for (int i = 0; i < THREADS; i++) {
        posters[i].loop = self->loop;
        posters[i].left = &left;
        assert_int_equal(pthread_create(&posters[i].thread, NULL, post_all, &posters[i]), 0);
    }
    cay_loop_run(self->loop);
    assert_int_equal(left, 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(posters[i].thread, NULL);
    free(posters);
}

struct chain {
    struct cay_task task;
    struct cay_loop *loop;
    int left;
};

static void run_chain(struct cay_task *task)
{
    struct chain *chain = CAY_CONTAINER_OF(task, struct chain, task);
    struct cay_loop *loop = chain->loop;
    if (--chain->left) {
        cay_loop_post(loop, &chain->task);
        return;
    }
    free(chain); /* the task is its owner's again as soon as it runs */
    cay_loop_stop(loop);
}

static void a_task_may_post_itself_again_and_free_itself(void **state)
{
    struct fixture *self = *state;
    struct chain *chain = cay_new(struct chain);
    *chain = (struct chain){{.run = run_chain}, self->loop, 100};
    cay_loop_post(self->loop, &chain->task);
    cay_loop_run(self->loop);
}

enum { JOBS = 500 };

struct work {
    struct cay_job job;
    struct cay_loop *loop;
    pthread_t loop_thread;
    int *done;
    bool has_worked;
};

static void do_work(struct cay_job *job)
{
    struct work *work = CAY_CONTAINER_OF(job, struct work, job);
    assert_false(pthread_equal(pthread_self(), work->loop_thread));
    work->has_worked = true;
}

static void work_done(struct cay_job *job)
{
    struct work *work = CAY_CONTAINER_OF(job, struct work, job);
    assert_true(pthread_equal(pthread_self(), work->loop_thread));
    assert_true(work->has_worked);
    struct cay_loop *loop = work->loop;
    bool is_last = ++*work->done == JOBS;
    free(work);
    if (is_last)
        cay_loop_stop(loop);
}

static void submit(struct fixture *self, int *done, int count)
{
    for (int i = 0; i < count; i++) {
        struct work *work = cay_new(struct work);
        *work = (struct work){.job = {.work = do_work, .done = work_done},
                              .loop = self->loop,
                              .loop_thread = pthread_self(),
                              .done = done};
        cay_loop_submit(self->loop, &work->job);
    }
}

static void jobs_work_on_threads_and_end_on_the_loop(void **state)
{
    struct fixture *self = *state;
    int done = 0;
    submit(self, &done, JOBS);
    cay_loop_run(self->loop);
    assert_int_equal(done, JOBS);
}

static void jobs_that_were_submitted_are_finished_at_the_end(void **state)
{
    struct fixture *self = *state;
    int done = 0;
    submit(self, &done, JOBS - 1);
    cay_loop_finish_jobs(self->loop);
    assert_int_equal(done, JOBS - 1);
}

struct barrier_job {
    struct cay_job job;
    struct cay_loop *loop;
    pthread_barrier_t *barrier;
    int *left;
};

static void wait_for_others(struct cay_job *job)
{
    pthread_barrier_wait(CAY_CONTAINER_OF(job, struct barrier_job, job)->barrier);
}

static void others_came(struct cay_job *job)
{
    struct barrier_job *self = CAY_CONTAINER_OF(job, struct barrier_job, job);
    if (--*self->left == 0)
        cay_loop_stop(self->loop);
}

/* Eight jobs that wait for each other: with fewer threads they would wait for ever. */
static void the_pool_grows_to_its_size(void **state)
{
    struct fixture *self = *state;
    pthread_barrier_t barrier;
    struct barrier_job jobs[8];
    int left = CAY_COUNT(jobs);
    pthread_barrier_init(&barrier, NULL, CAY_COUNT(jobs));
    for (size_t i = 0; i < CAY_COUNT(jobs); i++) {
        jobs[i] = (struct barrier_job){
            {.work = wait_for_others, .done = others_came}, self->loop, &barrier, &left};
        cay_loop_submit(self->loop, &jobs[i].job);
    }
    cay_loop_run(self->loop);
    assert_int_equal(left, 0);
    pthread_barrier_destroy(&barrier);
}

struct ticker {
    struct cay_timer timer;
    struct cay_loop *loop;
    int ticks;
    uint64_t first_ms;
};

static void on_tick(struct cay_timer *timer)
{
    struct ticker *ticker = CAY_CONTAINER_OF(timer, struct ticker, timer);
    struct cay_loop *loop = ticker->loop;
    if (ticker->ticks++ == 0)
        ticker->first_ms = cay_loop_now_ms(loop);
    if (ticker->ticks < 3)
        return;
    assert_true(cay_loop_now_ms(loop) - ticker->first_ms >= 2);
    cay_timer_close(&ticker->timer);
    free(ticker); /* inside its own callback */
    cay_loop_stop(loop);
}

static void a_timer_repeats_until_its_owner_frees_it(void **state)
{
    struct fixture *self = *state;
    struct ticker *ticker = cay_new(struct ticker);
    ticker->loop = self->loop;
    cay_timer_open(&ticker->timer, self->loop, on_tick);
    cay_timer_start(&ticker->timer, 1, 1);
    cay_loop_run(self->loop);
}

static void stop_loop(struct cay_timer *timer)
{
    cay_loop_stop(CAY_CONTAINER_OF(timer, struct ticker, timer)->loop);
}

static void a_stopped_timer_does_not_fire(void **state)
{
    struct fixture *self = *state;
    struct ticker stopped = {.loop = self->loop};
    struct ticker later = {.loop = self->loop};
    cay_timer_open(&stopped.timer, self->loop, give_up);
    cay_timer_open(&later.timer, self->loop, stop_loop);
    cay_timer_start(&stopped.timer, 1, 0);
    cay_timer_start(&later.timer, 5, 0);
    cay_timer_stop(&stopped.timer);
    cay_loop_run(self->loop);
    cay_timer_close(&stopped.timer);
    cay_timer_close(&later.timer);
    struct cay_timer unopened = {};
    cay_timer_stop(&unopened);
    cay_timer_close(&unopened);
}

struct watcher {
    struct cay_watch watch;
    struct cay_loop *loop;
    int fd;
    unsigned seen;
    struct watcher *other;
};

static void note(struct cay_watch *watch, unsigned events)
{
    struct watcher *watcher = CAY_CONTAINER_OF(watch, struct watcher, watch);
    watcher->seen |= events;
    cay_loop_stop(watcher->loop);
}

static void watches_tell_of_what_they_are_set_to(void **state)
{
    struct fixture *self = *state;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    struct watcher watcher = {.loop = self->loop, .fd = pair[0]};
    assert_int_equal(cay_watch_open(&watcher.watch, self->loop, pair[0], note), 0);
    cay_watch_set(&watcher.watch, CAY_READY_WRITE);
    cay_loop_run(self->loop);
    assert_int_equal(watcher.seen, CAY_READY_WRITE);
    watcher.seen = 0;
    cay_watch_set(&watcher.watch, CAY_READY_READ);
    assert_int_equal(write(pair[1], "x", 1), 1);
    cay_loop_run(self->loop);
    assert_int_equal(watcher.seen, CAY_READY_READ);
    watcher.seen = 0;
    /* Level-triggered: it is still there. */
    cay_loop_run(self->loop);
    assert_int_equal(watcher.seen, CAY_READY_READ);
    watcher.seen = 0;
    cay_watch_set(&watcher.watch, CAY_READY_HANGUP);
    close(pair[1]);
    cay_loop_run(self->loop);
    assert_true(watcher.seen & CAY_READY_HANGUP);
    cay_watch_close(&watcher.watch);
    cay_watch_close(&watcher.watch);
    close(pair[0]);
}

/* Both are ready in the same turn; whichever is first frees the other. */
static void free_both(struct cay_watch *watch, unsigned)
{
    struct watcher *watcher = CAY_CONTAINER_OF(watch, struct watcher, watch);
    struct watcher *other = watcher->other;
    struct cay_loop *loop = watcher->loop;
    cay_watch_close(&watcher->watch);
    cay_watch_close(&other->watch);
    close(watcher->fd);
    close(other->fd);
    free(watcher);
    free(other);
    cay_loop_stop(loop);
}

static void a_callback_may_free_its_owner_and_others(void **state)
{
    struct fixture *self = *state;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    struct watcher *both[2];
    for (int i = 0; i < 2; i++) {
        both[i] = cay_new(struct watcher);
        *both[i] = (struct watcher){.loop = self->loop, .fd = pair[i]};
        assert_int_equal(cay_watch_open(&both[i]->watch, self->loop, pair[i], free_both), 0);
        cay_watch_set(&both[i]->watch, CAY_READY_WRITE);
    }
    both[0]->other = both[1];
    both[1]->other = both[0];
    cay_loop_run(self->loop);
}

static void a_file_cannot_be_watched(void **state)
{
    struct fixture *self = *state;
    struct cay_watch watch = {};
    assert_true(cay_watch_open(&watch, self->loop, 12345, note) < 0);
    assert_null(watch.handle);
}

struct catcher {
    struct cay_signal signal;
    struct cay_loop *loop;
    int number;
};

static void on_signal(struct cay_signal *signal, int number)
{
    struct catcher *catcher = CAY_CONTAINER_OF(signal, struct catcher, signal);
    catcher->number = number;
    cay_loop_stop(catcher->loop);
}

static void raise_in_worker(struct cay_job *)
{
    kill(getpid(), SIGUSR1);
}

static void job_nothing(struct cay_job *)
{
}

static void signals_come_to_the_loop(void **state)
{
    struct fixture *self = *state;
    struct catcher catcher = {.loop = self->loop};
    assert_int_equal(cay_signal_open(&catcher.signal, self->loop, SIGUSR1, on_signal), 0);
    struct cay_job job = {.work = raise_in_worker, .done = job_nothing};
    cay_loop_submit(self->loop, &job);
    cay_loop_run(self->loop);
    assert_int_equal(catcher.number, SIGUSR1);
    cay_signal_close(&catcher.signal);
    cay_signal_close(&catcher.signal);
    cay_loop_finish_jobs(self->loop);
}

enum { HOGS = 40, HOGS_AT_ONCE = 4 };

struct crowd {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool may_go;
    int at_work, most;
    int done;
    struct cay_loop *loop;
};

struct hog {
    struct cay_job job;
    struct crowd *crowd;
};

static void hog_work(struct cay_job *job)
{
    struct crowd *crowd = CAY_CONTAINER_OF(job, struct hog, job)->crowd;
    pthread_mutex_lock(&crowd->lock);
    crowd->at_work++;
    crowd->most = CAY_MAX(crowd->most, crowd->at_work);
    while (!crowd->may_go)
        pthread_cond_wait(&crowd->changed, &crowd->lock);
    crowd->at_work--;
    pthread_mutex_unlock(&crowd->lock);
}

static void hog_done(struct cay_job *job)
{
    CAY_CONTAINER_OF(job, struct hog, job)->crowd->done++;
}

static void neighbour_work(struct cay_job *)
{
}

static void neighbour_done(struct cay_job *job)
{
    struct crowd *crowd = CAY_CONTAINER_OF(job, struct hog, job)->crowd;
    cay_loop_stop(crowd->loop);
}

static void jobs_of_one_peer_do_not_keep_the_others(void **state)
{
    enum { PEERS = 3 }; /* together they could fill every thread */
    struct fixture *self = *state;
    struct crowd crowd = {
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .loop = self->loop};
    struct cay_lane lanes[PEERS + 1] = {};
    struct hog *hogs = cay_alloc(PEERS * HOGS * sizeof(*hogs));
    for (size_t i = 0; i < (size_t)PEERS * HOGS; i++) {
        hogs[i] =
            (struct hog){.job = {.work = hog_work, .done = hog_done, .lane = &lanes[i % PEERS]},
                         .crowd = &crowd};
        cay_loop_submit(self->loop, &hogs[i].job);
    }
    struct hog neighbour = {
        .job = {.work = neighbour_work, .done = neighbour_done, .lane = &lanes[PEERS]},
        .crowd = &crowd};
    cay_loop_submit(self->loop, &neighbour.job);
    cay_loop_run(self->loop);
    neighbour.job.lane = NULL; /* the daemon's own work does not wait either */
    cay_loop_submit(self->loop, &neighbour.job);
    cay_loop_run(self->loop);
    pthread_mutex_lock(&crowd.lock);
    assert_in_range(crowd.at_work, PEERS, PEERS * HOGS_AT_ONCE);
    crowd.may_go = true;
    pthread_cond_broadcast(&crowd.changed);
    pthread_mutex_unlock(&crowd.lock);
    cay_loop_finish_jobs(self->loop);
    assert_int_equal(crowd.done, PEERS * HOGS);
    assert_in_range(crowd.most, PEERS, PEERS * HOGS_AT_ONCE);
    free(hogs);
}

/* Whatever number of lanes an owner has, and several owners have. */
static void jobs_of_some_owners_do_not_keep_another(void **state)
{
    enum { OWNERS = 5, LANES = 30 };
    struct fixture *self = *state;
    struct crowd crowd = {
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .loop = self->loop};
    struct cay_shares *shares[OWNERS + 1];
    struct cay_lane *lanes = cay_alloc((OWNERS * LANES + 1) * sizeof(*lanes));
    struct hog *hogs = cay_alloc(OWNERS * LANES * sizeof(*hogs));
    for (size_t i = 0; i <= OWNERS; i++) {
        char name[] = {(char)('a' + i), '\0'};
        shares[i] = cay_shares_ref(self->loop, name);
    }
    struct hog neighbour = {
        .job = {.work = neighbour_work, .done = neighbour_done, .lane = &lanes[OWNERS * LANES]},
        .crowd = &crowd};
    lanes[OWNERS * LANES].share = &shares[OWNERS]->quick;
    for (size_t i = 0; i < (size_t)OWNERS * LANES; i++) {
        lanes[i].share = i % 2 ? &shares[i / LANES]->quick : &shares[i / LANES]->search;
        hogs[i] = (struct hog){.job = {.work = hog_work, .done = hog_done, .lane = &lanes[i]},
                               .crowd = &crowd};
        cay_loop_submit(self->loop, &hogs[i].job);
        if (i % LANES < LANES - 1)
            continue;
        cay_loop_submit(self->loop, &neighbour.job);
        cay_loop_run(self->loop);
        pthread_mutex_lock(&crowd.lock);
        assert_true((size_t)crowd.most <=
                    (i / LANES + 1) * (CAY_OWNER_THREADS + CAY_OWNER_SEARCH_THREADS));
        pthread_mutex_unlock(&crowd.lock);
    }
    pthread_mutex_lock(&crowd.lock);
    crowd.may_go = true;
    pthread_cond_broadcast(&crowd.changed);
    pthread_mutex_unlock(&crowd.lock);
    cay_loop_finish_jobs(self->loop);
    assert_int_equal(crowd.done, OWNERS * LANES);
    for (size_t i = 0; i <= OWNERS; i++)
        cay_shares_unref(shares[i]);
    free(hogs);
    free(lanes);
}

struct nice_job {
    struct cay_job job;
    struct nice_jobs *all;
    int nice;
};

enum { NICE_JOBS = CAY_SHARE_PLAIN_THREADS + 2 };

/* All at once, each on a thread that says how nice it is. */
struct nice_jobs {
    struct cay_loop *loop;
    struct cay_timer timer;
    pthread_barrier_t all_run;
    struct nice_job jobs[NICE_JOBS];
    int of_loop;
    unsigned done;
};

static int nice_now(void)
{
    return getpriority(PRIO_PROCESS, (id_t)gettid());
}

static void tell_nice(struct cay_job *job)
{
    struct nice_job *self = CAY_CONTAINER_OF(job, struct nice_job, job);
    self->nice = nice_now();
    pthread_barrier_wait(&self->all->all_run);
}

static void nice_told(struct cay_job *job)
{
    struct nice_jobs *all = CAY_CONTAINER_OF(job, struct nice_job, job)->all;
    all->of_loop = nice_now();
    if (++all->done == NICE_JOBS)
        cay_loop_stop(all->loop);
}

static void submit_nice(struct cay_timer *timer)
{
    struct nice_jobs *all = CAY_CONTAINER_OF(timer, struct nice_jobs, timer);
    for (size_t i = 0; i < NICE_JOBS; i++)
        cay_loop_submit(all->loop, &all->jobs[i].job);
}

static void run_nicely(struct nice_jobs *all, struct cay_lane *lane)
{
    for (size_t i = 0; i < NICE_JOBS; i++)
        all->jobs[i] = (struct nice_job){
            .job = {.work = tell_nice, .done = nice_told, .lane = lane}, .all = all};
    pthread_barrier_init(&all->all_run, NULL, NICE_JOBS);
    cay_timer_open(&all->timer, all->loop, submit_nice);
    cay_timer_start(&all->timer, 0, 0);
    cay_loop_run(all->loop);
    cay_timer_close(&all->timer);
    pthread_barrier_destroy(&all->all_run);
}

static bool may_come_first(void)
{
    if (nice_now() == 0 && setpriority(PRIO_PROCESS, (id_t)gettid(), CAY_LOOP_NICE) == 0 &&
        setpriority(PRIO_PROCESS, (id_t)gettid(), 0) == 0)
        return true;
    print_message("skipped: it may not have another priority here\n");
    return false;
}

static int count_nice(const struct nice_jobs *all, int nice)
{
    int count = 0;
    for (size_t i = 0; i < NICE_JOBS; i++)
        count += all->jobs[i].nice == nice;
    return count;
}

static void the_loop_comes_before_workers_and_few_jobs_before_many(void **state)
{
    struct fixture *self = *state;
    struct nice_jobs all = {.loop = self->loop};
    struct cay_shares *shares = cay_shares_ref(self->loop, "somebody");
    struct cay_lane lane = {.share = &shares->quick};
    if (!may_come_first()) {
        cay_shares_unref(shares);
        skip();
    }
    run_nicely(&all, &lane);
    assert_int_equal(all.of_loop, CAY_LOOP_NICE);
    assert_int_equal(count_nice(&all, CAY_PROMPT_NICE), 1);
    assert_int_equal(count_nice(&all, 0), CAY_SHARE_PLAIN_THREADS - 1);
    assert_int_equal(count_nice(&all, CAY_PATIENT_NICE), NICE_JOBS - CAY_SHARE_PLAIN_THREADS);
    assert_int_equal(nice_now(), 0);
    cay_shares_unref(shares);
}

static void who_used_much_lately_is_not_prompt(void **state)
{
    struct fixture *self = *state;
    struct nice_jobs all = {.loop = self->loop};
    struct cay_shares *shares = cay_shares_ref(self->loop, "somebody");
    struct cay_lane lane = {.share = &shares->quick};
    if (!may_come_first()) {
        cay_shares_unref(shares);
        skip();
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    shares->quick.spent_at_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    shares->quick.spent_ns = UINT64_C(1) << 62; /* little enough after two seconds */
    run_nicely(&all, &lane);
    assert_int_equal(count_nice(&all, CAY_PROMPT_NICE), 0);
    shares->quick.spent_at_ns = 0;
    all.done = 0;
    run_nicely(&all, &lane);
    assert_int_equal(count_nice(&all, CAY_PROMPT_NICE), 1);
    cay_shares_unref(shares);
}

static void a_stop_that_comes_when_nothing_runs_does_no_harm(void **state)
{
    struct fixture *self = *state;
    struct ticker ticker = {.loop = self->loop};
    cay_loop_stop(self->loop);
    cay_timer_open(&ticker.timer, self->loop, stop_loop);
    cay_timer_start(&ticker.timer, 0, 0);
    cay_timer_close(&ticker.timer);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(tasks_from_threads_all_run_and_in_each_ones_order),
        CASE(a_task_may_post_itself_again_and_free_itself),
        CASE(jobs_work_on_threads_and_end_on_the_loop),
        CASE(jobs_that_were_submitted_are_finished_at_the_end),
        CASE(the_pool_grows_to_its_size),
        CASE(a_timer_repeats_until_its_owner_frees_it),
        CASE(a_stopped_timer_does_not_fire),
        CASE(watches_tell_of_what_they_are_set_to),
        CASE(a_callback_may_free_its_owner_and_others),
        CASE(a_file_cannot_be_watched),
        CASE(signals_come_to_the_loop),
        CASE(jobs_of_one_peer_do_not_keep_the_others),
        CASE(jobs_of_some_owners_do_not_keep_another),
        CASE(the_loop_comes_before_workers_and_few_jobs_before_many),
        CASE(who_used_much_lately_is_not_prompt),
        CASE(a_stop_that_comes_when_nothing_runs_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
