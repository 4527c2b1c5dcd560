/* SPDX-License-Identifier: Apache-2.0 */
#include "host/live/filtered.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "egress/rules/rules.h"
#include "host/authority/authority.h"
#include "host/live/asking.h"
#include "host/live/bindings.h"
#include "host/live/filtered_internal.h"
#include "host/live/network_rules.h"
#include "host/live/network_secrets.h"
#include "host/live/receipts.h"
#include "host/live/settling.h"
#include "host/net/dns.h"
#include "sys/netns.h"
#include "sys/pidfd.h"

enum {
    HELLO_MS = 5000, /* of a helper that another daemon has left */
    RECENT_MS = 500, /* longer than the helper keeps what it counts */
    RETRY_FIRST_MS = 200,
    RETRY_MAX_MS = 30'000,
    STEADY_MS = 10'000, /* who lived so long is started again at once */
    NEWS_PER_TURN = 64,
    LEAVES_MS = 1000, /* in which a helper gets */
    LEAVES_PER_TIME = 16,
    PULSE_MS = 1500,       /* programs ask for names for 5 s, some of them */
    PULSES_MISSED_MAX = 2, /* then it is stopped, or goes round in circles */
};

/* Starting a helper is a worker's job; what it needs is here until it is done. */
struct starting {
    struct cay_job job;
    struct cay_filtered *filtered;
    struct cay_host *host;
    char store_id[CAY_STORE_ID_SIZE];
    uint32_t slot;
    uint32_t uid;
    int outside_fd; /* -1: it is made */
    bool intercepts;
    struct cay_helper helper;
    struct cay_error err;
    bool is_good;
};

struct cay_filtered {
    struct cay_session *session;
    struct cay_host *host;
    struct cay_filter filter;
    int inside_fd;
    int outside_fd; /* where the helper dials from; -1: there was none yet */
    struct cay_helper helper;
    struct cay_asking asking;
    struct cay_dns *dns; /* names for the helper */
    struct inlet {
        struct cay_watch watch;
        struct cay_filtered *filtered;
    } inlets[CAY_STEERED_COUNT]; /* while there is no helper */
    struct cay_watch control;
    struct cay_watch death;
    struct cay_timer timer; /* a hello is overdue, or the next start is due */
    struct cay_timer pulse; /* a ping is due */
    unsigned pulses_missed;
    struct starting *starting;
    uint64_t serial; /* of rules */
    uint64_t ping_serial;
    struct cay_settling settling;
    uint64_t started_ms;
    uint64_t retry_ms;
    uint64_t leaves_since_ms;
    unsigned leaf_count; /* since then */
    bool intercepts;     /* the helper is the image that can */
    bool has_requests;   /* in its rules */
    bool is_found;       /* its helper was left by another daemon, and has not said hello */
    bool is_closed;      /* but for the job that starts a helper, */
    bool leaves;         /* which goes on then */
};

static void wait_for_need(struct cay_filtered *filtered);
static void stop_waiting(struct cay_filtered *filtered);
static void open_anew(struct cay_filtered *filtered);
static void serve(struct cay_filtered *filtered);

/* --- rules --- */

static void put_list(struct cay_buf *out, enum cay_egress_rule kind, struct cay_pb_strs list)
{
    for (size_t i = 0; i < list.count; i++)
        cay_egress_rule_put(out, kind, list.items[i]);
}

static void write_rules(const struct cay_filtered *filtered, struct cay_buf *out)
{
    const struct cay_v1_network_policy *policy = filtered->session->spec->network;
    if (!policy)
        return;
    enum { ARENA_BYTES = 1 << 16 };
    cay_auto(cay_arena_finish) struct cay_arena arena;
    struct cay_pb_strs more;
    struct cay_error err = {};
    cay_arena_init(&arena, ARENA_BYTES);
    put_list(out, CAY_EGRESS_ALLOW, policy->allow);
    if (cay_network_secret_rules(filtered->host, policy, &filtered->session->spec->secrets, &arena,
                                 &more, &err))
        put_list(out, CAY_EGRESS_ALLOW, more);
    else
        cay_log(CAY_ERROR, "network.rules_failed", CAY_S("session", filtered->session->id),
                CAY_ERR(&err)); /* then they allow nothing */
    put_list(out, CAY_EGRESS_DENY, policy->deny);
    const struct cay_conf_list *sets = &filtered->host->settings->network_sets;
    for (size_t i = 0; i < sets->count; i++)
        cay_egress_rule_put(out, CAY_EGRESS_SET, cay_str(sets->items[i]));
}

/* The routes: destinations of which no rule speaks are refused before anybody is asked. */
static void set_ranges(struct cay_filtered *filtered)
{
    const struct cay_v1_network_policy *policy = filtered->session->spec->network;
    cay_autofree struct cay_subnet *ranges = NULL;
    struct cay_policy *rules = NULL;
    struct cay_error err = {};
    size_t count = 0;
    size_t cursor = 0;
    struct cay_subnet range;
    if (!cay_network_rules_with(filtered->host, policy, &filtered->session->spec->secrets, &rules,
                                &err)) {
        cay_log(CAY_ERROR, "network.rules_failed", CAY_S("session", filtered->session->id),
                CAY_ERR(&err));
        rules = NULL;
    }
    filtered->has_requests = rules && cay_policy_has_requests(rules);
    while (rules && cay_policy_next_range(rules, &cursor, &range)) {
        ranges = cay_realloc_array(ranges, count + 1, sizeof(*ranges));
        ranges[count++] = range;
    }
    cay_policy_destroy(rules);
    if (!cay_filter_set_ranges(filtered->inside_fd, ranges, count, &err))
        cay_log(CAY_ERROR, "network.ranges_failed", CAY_S("session", filtered->session->id),
                CAY_ERR(&err));
}

static void tell_rules(struct cay_filtered *filtered)
{
    cay_auto(cay_buf_finish) struct cay_buf rules;
    struct cay_error err = {};
    cay_buf_init(&rules, CAY_EGRESS_POLICY_BYTES_MAX);
    write_rules(filtered, &rules);
    const struct cay_v1_network_policy *policy = filtered->session->spec->network;
    bool asks = policy && policy->ask;
    int64_t asks_ms = asks ? filtered->host->settings->network_ask_timeout_ms : 0;
    int status = rules.failed ? -EMSGSIZE
                              : cay_helper_set_policy(&filtered->helper, ++filtered->serial,
                                                      (uint32_t)asks_ms, cay_buf_str(&rules));
    if (status < 0) {
        cay_fail_errno(&err, CAY_R_INTERNAL, status, "tell the helper its rules");
        cay_log(CAY_ERROR, "network.rules_failed", CAY_S("session", filtered->session->id),
                CAY_ERR(&err));
        /* It must not go on by older ones. */
        if (filtered->helper.pidfd >= 0)
            (void)cay_pidfd_signal(filtered->helper.pidfd, SIGKILL);
    }
}

/* It goes on without them when they cannot be told: programs send their placeholders then. */
static void tell_secrets(struct cay_filtered *filtered)
{
    cay_auto(cay_egress_secrets_finish) struct cay_egress_secrets secrets = {};
    cay_auto(cay_buf_finish) struct cay_buf text;
    struct cay_error err = {};
    if (!filtered->intercepts)
        return;
    cay_buf_init(&text, CAY_EGRESS_SECRETS_BYTES_MAX);
    cay_network_secrets_list(filtered->session, &secrets);
    /* All at once: what grows leaves copies behind. */
    (void)cay_buf_reserve(&text, CAY_EGRESS_SECRETS_BYTES_MAX);
    for (size_t i = 0; i < secrets.count; i++)
        cay_egress_secret_put(&text, &secrets.items[i]);
    int status =
        text.failed ? -EMSGSIZE : cay_helper_set_secrets(&filtered->helper, cay_buf_str(&text));
    if (text.data)
        cay_wipe(text.data, text.len);
    if (status < 0) {
        cay_fail_errno(&err, CAY_R_INTERNAL, status, "tell the helper its secrets");
        cay_log(CAY_ERROR, "network.secrets_failed", CAY_S("session", filtered->session->id),
                CAY_ERR(&err));
    }
}

static void give_leaf(struct cay_filtered *filtered, struct cay_str name)
{
    struct cay_authority *authority = filtered->host->authority;
    cay_auto(cay_buf_finish) struct cay_buf pem;
    struct cay_error err = {};
    uint64_t now_ms = cay_loop_now_ms(filtered->host->loop);
    cay_buf_init(&pem, CAY_AUTHORITY_LEAF_BYTES_MAX);
    if (now_ms - filtered->leaves_since_ms >= LEAVES_MS) {
        filtered->leaves_since_ms = now_ms;
        filtered->leaf_count = 0;
    }
    if (!authority || !filtered->intercepts || filtered->leaf_count++ >= LEAVES_PER_TIME)
        return; /* it asks again */
    (void)cay_buf_reserve(&pem, CAY_AUTHORITY_LEAF_BYTES_MAX);
    int status = cay_authority_leaf(authority, name, &pem);
    if (status == 0)
        status = cay_helper_give_leaf(&filtered->helper, name, cay_buf_str(&pem));
    if (pem.data)
        cay_wipe(pem.data, pem.len);
    if (status < 0) {
        cay_fail_errno(&err, CAY_R_INTERNAL, status, "a certificate for a name");
        cay_log(CAY_ERROR, "network.leaf_failed", CAY_S("session", filtered->session->id),
                CAY_S("name", name), CAY_ERR(&err));
    }
}

/* --- the helper --- */

static void drop_helper(struct cay_filtered *filtered, bool leaves)
{
    cay_timer_stop(&filtered->pulse);
    cay_watch_close(&filtered->control);
    cay_watch_close(&filtered->death);
    cay_dns_close(cay_take_ptr(filtered->dns));
    cay_asking_drop(&filtered->asking, leaves ? NULL : filtered->session);
    if (leaves)
        cay_helper_leave(&filtered->helper);
    else
        cay_helper_kill(&filtered->helper);
}

/* Where it cannot be had, what was to be looked into is refused by the rules. */
static bool needs_interception(const struct cay_filtered *filtered)
{
    struct cay_error ignored = {};
    return (filtered->has_requests || cay_network_has_secrets(filtered->session)) &&
           cay_filtering_can_intercept(filtered->host->filtering, &ignored);
}

/* One that cannot do what is needed now gives way to one that can, and its connections end. */
static bool replace_helper(struct cay_filtered *filtered)
{
    if (filtered->intercepts || !needs_interception(filtered))
        return false;
    drop_helper(filtered, false);
    wait_for_need(filtered);
    return true;
}

static void lost_helper(struct cay_filtered *filtered)
{
    cay_settling_give_up(&filtered->settling);
    uint64_t now_ms = cay_loop_now_ms(filtered->host->loop);
    bool was_steady = now_ms - filtered->started_ms >= STEADY_MS;
    cay_log(CAY_WARN, "network.helper_lost", CAY_S("session", filtered->session->id));
    drop_helper(filtered, false);
    if (filtered->is_found) {
        filtered->is_found = false;
        open_anew(filtered);
        return;
    }
    filtered->retry_ms = was_steady ? RETRY_FIRST_MS
                                    : CAY_MIN(CAY_MAX(filtered->retry_ms * 2, RETRY_FIRST_MS),
                                              (uint64_t)RETRY_MAX_MS);
    cay_timer_start(&filtered->timer, filtered->retry_ms, 0);
}

static void tell_receipt(const struct cay_filtered *filtered,
                         const struct cay_egress_receipt *receipt)
{
    cay_receipts_take(filtered->session, receipt);
}

static void take_hello(struct cay_filtered *filtered, struct cay_helper_news *news)
{
    cay_filter_close(&filtered->filter);
    cay_cleanup_close(&filtered->outside_fd);
    filtered->filter = news->filter;
    filtered->outside_fd = news->netns_fd;
    filtered->is_found = false;
    filtered->intercepts = news->frame.intercepts;
    cay_timer_stop(&filtered->timer);
    serve(filtered);
}

static void hear(struct cay_filtered *filtered)
{
    for (int i = 0; i < NEWS_PER_TURN; i++) {
        struct cay_helper_news news;
        int status = cay_helper_receive(&filtered->helper, &news);
        if (status == 0)
            return;
        if (status < 0) {
            lost_helper(filtered);
            return;
        }
        filtered->pulses_missed = 0;
        if (news.frame.kind == CAY_EGRESS_HELLO) {
            take_hello(filtered, &news);
            return;
        }
        if (news.frame.kind == CAY_EGRESS_TOTALS)
            cay_receipts_take_totals(filtered->session, &news.frame.totals);
        if (news.frame.kind == CAY_EGRESS_APPLIED || news.frame.kind == CAY_EGRESS_PONG)
            cay_settling_answer(&filtered->settling, news.frame.kind == CAY_EGRESS_APPLIED,
                                news.frame.serial);
        if (news.frame.kind == CAY_EGRESS_RECEIPT)
            tell_receipt(filtered, &news.frame.receipt);
        else if (news.frame.kind == CAY_EGRESS_ASK)
            cay_asking_take(&filtered->asking, filtered->session, &news.frame.ask);
        else if (news.frame.kind == CAY_EGRESS_LEAF_WANTED)
            give_leaf(filtered, news.frame.name);
        else if (news.frame.kind == CAY_EGRESS_USED)
            cay_network_secret_used(filtered->session, news.frame.name);
    }
}

static void on_control(struct cay_watch *watch, unsigned)
{
    hear(CAY_CONTAINER_OF(watch, struct cay_filtered, control));
}

static void on_death(struct cay_watch *watch, unsigned)
{
    lost_helper(CAY_CONTAINER_OF(watch, struct cay_filtered, death));
}

static bool watch_control(struct cay_filtered *filtered)
{
    if (cay_watch_open(&filtered->control, filtered->host->loop, filtered->helper.control_fd,
                       on_control) < 0)
        return false;
    cay_watch_set(&filtered->control, CAY_READY_READ);
    return true;
}

/* There is one, and we know where it dials from. */
static void serve(struct cay_filtered *filtered)
{
    struct cay_error err = {};
    struct cay_loop *loop = filtered->host->loop;
    if (replace_helper(filtered))
        return;
    filtered->started_ms = cay_loop_now_ms(loop);
    if (filtered->helper.pidfd >= 0 &&
        cay_watch_open(&filtered->death, loop, filtered->helper.pidfd, on_death) == 0)
        cay_watch_set(&filtered->death, CAY_READY_READ);
    int status = cay_dns_open(loop, filtered->outside_fd, &filtered->dns);
    if (status < 0) {
        cay_fail_errno(&err, CAY_R_UNAVAILABLE, status, "names for the helper");
        cay_log(CAY_ERROR, "network.names_failed", CAY_S("session", filtered->session->id),
                CAY_ERR(&err));
    }
    tell_secrets(filtered); /* first: with the rules it begins */
    tell_rules(filtered);
    filtered->pulses_missed = 0;
    cay_timer_start(&filtered->pulse, PULSE_MS, PULSE_MS);
}

/* Whoever connects would wait for one that does not work. Its end is told like any other. What it
 * has said while we were away ourselves is still to be read. */
static void on_pulse(struct cay_timer *timer)
{
    struct cay_filtered *filtered = CAY_CONTAINER_OF(timer, struct cay_filtered, pulse);
    struct pollfd news = {.fd = filtered->helper.control_fd, .events = POLLIN};
    if (filtered->pulses_missed++ < PULSES_MISSED_MAX || poll(&news, 1, 0) == 1) {
        cay_helper_ping(&filtered->helper, ++filtered->ping_serial);
        return;
    }
    cay_timer_stop(&filtered->pulse);
    cay_log(CAY_ERROR, "network.helper_stuck", CAY_S("session", filtered->session->id),
            CAY_S("why", "it does not answer; it is killed and another one started"));
    if (filtered->helper.pidfd >= 0)
        (void)cay_pidfd_signal(filtered->helper.pidfd, SIGKILL);
}

static void start_work(struct cay_job *job)
{
    struct starting *self = CAY_CONTAINER_OF(job, struct starting, job);
    const struct cay_filtering *filtering = self->host->filtering;
    if (self->outside_fd < 0) {
        self->outside_fd = cay_netns_open();
        if (self->outside_fd < 0) {
            cay_fail_errno(&self->err, CAY_R_UNAVAILABLE, self->outside_fd, "network namespace");
            return;
        }
        if (!cay_filtering_attach_gateway(self->host, self->outside_fd, self->slot, &self->err)) {
            close(cay_take_fd(self->outside_fd));
            return;
        }
    }
    cay_autoclose int names_fd = cay_filtering_open_names(filtering, self->store_id);
    if (names_fd < 0) {
        cay_fail_errno(&self->err, CAY_R_UNAVAILABLE, names_fd, "the file of names");
        return;
    }
    const struct cay_helper_options options = {
        .image_fd = self->intercepts ? filtering->tls_image_fd : filtering->image_fd,
        .dir_fd = filtering->doors_fd,
        .slot = self->slot,
        .netns_fd = self->outside_fd,
        .names_fd = names_fd,
        .uid = self->uid,
        .trust_path = self->host->settings->network_trust,
        .filter = &self->filtered->filter};
    self->is_good = cay_helper_start(&options, &self->helper, &self->err);
}

static void free_filtered(struct cay_filtered *filtered)
{
    cay_filter_close(&filtered->filter);
    cay_cleanup_close(&filtered->inside_fd);
    cay_cleanup_close(&filtered->outside_fd);
    free(filtered);
}

static void start_done(struct cay_job *job)
{
    struct starting *self = CAY_CONTAINER_OF(job, struct starting, job);
    struct cay_filtered *filtered = self->filtered;
    filtered->starting = NULL;
    filtered->outside_fd = self->outside_fd;
    filtered->helper = self->helper;
    filtered->intercepts = self->intercepts;
    if (filtered->is_closed) {
        drop_helper(filtered, filtered->leaves);
        free_filtered(filtered);
    } else if (self->is_good && watch_control(filtered)) {
        serve(filtered);
    } else {
        if (!self->is_good)
            cay_log(CAY_ERROR, "network.helper_failed", CAY_S("session", filtered->session->id),
                    CAY_ERR(&self->err));
        lost_helper(filtered);
    }
    free(self);
}

static void start_helper(struct cay_filtered *filtered)
{
    struct cay_session *session = filtered->session;
    struct starting *self = cay_new(struct starting);
    *self = (struct starting){
        .job = {.work = start_work, .done = start_done},
        .filtered = filtered,
        .host = filtered->host,
        .slot = session->uid_slot,
        /* Of the session's range, behind all ids that its sandbox has. */
        .uid = cay_session_uid_base(session) + CAY_SESSION_ID_COUNT,
        .outside_fd = cay_take_fd(filtered->outside_fd),
        .intercepts = needs_interception(filtered),
        .helper = CAY_HELPER_NONE,
    };
    memcpy(self->store_id, session->store_id, sizeof(self->store_id));
    if (cay_loop_try_submit(filtered->host->loop, &self->job)) {
        filtered->starting = self;
        return;
    }
    filtered->outside_fd = self->outside_fd;
    free(self);
}

/* Somebody connects, or asks for a name: what came waits in the queue until there is a helper. */
static void on_need(struct cay_watch *watch, unsigned)
{
    struct cay_filtered *filtered = CAY_CONTAINER_OF(watch, struct inlet, watch)->filtered;
    stop_waiting(filtered);
    start_helper(filtered);
}

static void stop_waiting(struct cay_filtered *filtered)
{
    for (size_t i = 0; i < CAY_STEERED_COUNT; i++)
        cay_watch_close(&filtered->inlets[i].watch);
}

static void wait_for_need(struct cay_filtered *filtered)
{
    for (size_t i = 0; i < CAY_STEERED_COUNT; i++) {
        struct inlet *inlet = &filtered->inlets[i];
        int fd = filtered->filter.sockets[i];
        inlet->filtered = filtered;
        if (fd >= 0 && cay_watch_open(&inlet->watch, filtered->host->loop, fd, on_need) == 0)
            cay_watch_set(&inlet->watch, CAY_READY_READ);
    }
}

static void on_timer(struct cay_timer *timer)
{
    struct cay_filtered *filtered = CAY_CONTAINER_OF(timer, struct cay_filtered, timer);
    if (filtered->is_found)
        lost_helper(filtered);
    else
        wait_for_need(filtered);
}

/* --- the whole --- */

/* Nobody was there before, or is there any more. */
static void open_anew(struct cay_filtered *filtered)
{
    struct cay_error err = {};
    uint32_t slot = filtered->session->uid_slot;
    if (!cay_filtering_take(filtered->host->filtering, slot, &filtered->filter) &&
        !cay_filter_open(filtered->inside_fd, filtered->host->filtering->way, &filtered->filter,
                         &err))
        cay_log(CAY_ERROR, "network.filter_failed", CAY_S("session", filtered->session->id),
                CAY_ERR(&err)); /* then nothing is reached */
    set_ranges(filtered);
    wait_for_need(filtered);
}

void cay_filtered_open(struct cay_session *session, int netns_fd)
{
    struct cay_filtered *filtered = cay_new(struct cay_filtered);
    struct cay_host *host = session->host;
    *filtered = (struct cay_filtered){
        .session = session,
        .host = host,
        .filter = CAY_FILTER_CLOSED,
        .inside_fd = netns_fd,
        .outside_fd = -1,
        .helper = CAY_HELPER_NONE,
    };
    session->filtered = filtered;
    cay_receipts_open(session);
    cay_settling_open(&filtered->settling, host->loop);
    cay_timer_open(&filtered->timer, host->loop, on_timer);
    cay_timer_open(&filtered->pulse, host->loop, on_pulse);
    filtered->is_found =
        cay_helper_find(host->filtering->doors_fd, session->uid_slot, &filtered->helper) == 0 &&
        watch_control(filtered);
    if (!filtered->is_found) {
        drop_helper(filtered, true);
        open_anew(filtered);
        return;
    }
    set_ranges(filtered);
    cay_timer_start(&filtered->timer, HELLO_MS, 0);
}

static bool is_served(const struct cay_filtered *filtered)
{
    return filtered->helper.control_fd >= 0 && !filtered->is_found && !filtered->starting;
}

bool cay_filtered_is_applied(struct cay_filtered *filtered, struct cay_settle *settle,
                             void (*done)(struct cay_settle *settle))
{
    if (!is_served(filtered))
        return true;
    cay_settling_add(&filtered->settling, settle, true, filtered->serial, done);
    return false;
}

bool cay_filtered_has_told(struct cay_filtered *filtered, struct cay_settle *settle,
                           void (*done)(struct cay_settle *settle))
{
    if (!is_served(filtered))
        return true;
    /* What the helper has told before the program inside could know is here by now. */
    hear(filtered);
    if (!is_served(filtered) || !cay_receipts_were_refused(filtered->session, RECENT_MS))
        return true;
    cay_helper_ping(&filtered->helper, ++filtered->ping_serial);
    cay_settling_add(&filtered->settling, settle, false, filtered->ping_serial, done);
    return false;
}

bool cay_filtered_is_outdated(const struct cay_filtered *filtered)
{
    return cay_filtering_has(filtered->host->filtering, filtered->session->uid_slot);
}

void cay_filtered_renew(struct cay_filtered *filtered)
{
    set_ranges(filtered);
    if (filtered->helper.control_fd < 0 || filtered->is_found || replace_helper(filtered))
        return;
    tell_secrets(filtered);
    tell_rules(filtered);
}

bool cay_filtered_answer(const struct cay_filtered *filtered, uint32_t id, bool is_allowed,
                         struct cay_error *err)
{
    int status = cay_helper_answer(&filtered->helper, id, is_allowed);
    return status == 0 || cay_fail_errno(err, CAY_R_UNAVAILABLE, status, "tell the helper");
}

struct cay_asking *cay_filtered_asking(struct cay_filtered *filtered)
{
    return filtered ? &filtered->asking : NULL;
}

void cay_filtered_close(struct cay_filtered *filtered, bool leaves)
{
    if (!filtered)
        return;
    stop_waiting(filtered);
    cay_settling_close(&filtered->settling);
    cay_timer_close(&filtered->timer);
    drop_helper(filtered, leaves);
    cay_timer_close(&filtered->pulse);
    if (!leaves)
        cay_helper_remove_door(filtered->host->filtering->doors_fd, filtered->session->uid_slot);
    filtered->session = NULL;
    filtered->is_closed = true;
    filtered->leaves = leaves;
    if (!filtered->starting)
        free_filtered(filtered);
}
