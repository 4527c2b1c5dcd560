/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/egress.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS_PER_TURN = 64 };

static uint64_t now_ms(void)
{
    struct timespec now = {};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1'000'000;
}

int egress_watch(struct egress *egress, struct egress_watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    if (watch->fd < 0 || watch->events == events)
        return 0;
    /* One that waits for nothing is not in the set: a hang-up would be told without end. */
    int operation = !events ? EPOLL_CTL_DEL : !watch->events ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    if (epoll_ctl(egress->epoll_fd, operation, watch->fd, &event) < 0)
        return -errno;
    watch->events = events;
    return 0;
}

void egress_unwatch(struct egress *egress, struct egress_watch *watch)
{
    if (watch->fd < 0)
        return;
    (void)egress_watch(egress, watch, 0);
    close(watch->fd);
    watch->fd = -1;
}

int egress_init(struct egress *egress, int control_fd)
{
    *egress = (struct egress){
        .epoll_fd = epoll_create1(EPOLL_CLOEXEC),
        .control = {.fd = control_fd, .egress = egress, .ready = egress_on_control},
        .door = {.fd = -1, .egress = egress, .ready = egress_on_door},
        .link_fd = -1,
        .netns_fd = -1,
        .names = {.fd = -1},
        .now_ms = now_ms(),
        .resolver_port = EGRESS_DNS_PORT,
        .scratch = cay_alloc(EGRESS_PIECE_BYTES),
    };
    cay_list_init(&egress->conns);
    cay_list_init(&egress->dead);
    for (size_t i = 0; i < CAY_COUNT(egress->inlets); i++)
        egress->inlets[i] = (struct egress_watch){
            .fd = -1,
            .egress = egress,
            .ready = i < CAY_EGRESS_DNS4 ? egress_on_listener : egress_on_questions};
    return egress->epoll_fd < 0 ? -errno : egress_watch(egress, &egress->control, EPOLLIN);
}

bool egress_turn(struct egress *egress, int wait_ms)
{
    struct epoll_event events[EVENTS_PER_TURN];
    bool is_idle =
        cay_list_empty(&egress->conns) && !egress_has_news(egress) && !egress_asks_wait(egress);
    int most = is_idle ? -1 : EGRESS_TICK_MS;
    int count = epoll_wait(egress->epoll_fd, events, EVENTS_PER_TURN,
                           wait_ms < 0 || (most >= 0 && wait_ms > most) ? most : wait_ms);
    egress->now_ms = now_ms();
    for (int i = 0; i < count; i++) {
        struct egress_watch *watch = events[i].data.ptr;
        if (watch->fd >= 0) /* it may have been closed by one before it */
            watch->ready(watch, events[i].events);
    }
    if (egress->now_ms - egress->ticked_ms >= EGRESS_TICK_MS) {
        egress->ticked_ms = egress->now_ms;
        egress_tick(egress);
        egress_asks_tick(egress);
        egress_flush(egress);
    }
    egress_bury(egress);
    return !egress->is_over;
}

void egress_finish(struct egress *egress)
{
    egress_drop_all(egress);
    egress_flush(egress);
    egress_unwatch(egress, &egress->control);
    egress_unwatch(egress, &egress->door);
    for (size_t i = 0; i < CAY_COUNT(egress->inlets); i++)
        egress_unwatch(egress, &egress->inlets[i]);
    if (egress->link_fd >= 0)
        close(cay_take_fd(egress->link_fd));
    if (egress->netns_fd >= 0)
        close(cay_take_fd(egress->netns_fd));
    if (egress->names.fd >= 0)
        close(egress->names.fd);
    egress_names_finish(&egress->names);
    egress_receipts_finish(&egress->receipts);
    egress_asks_finish(&egress->asks);
    cay_policy_destroy(cay_take_ptr(egress->policy));
    if (egress->epoll_fd >= 0)
        close(cay_take_fd(egress->epoll_fd));
    egress_interception_close(egress);
    free(cay_take_ptr(egress->known));
    free(cay_take_ptr(egress->scratch));
}
