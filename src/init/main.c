/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "init/init.h"
#include "sys/clone.h"
#include "sys/pace.h"

enum {
    CHANNEL_FD = 3,
    EVENTS_MAX = 32,
    ROOM_MS = 2,
    REST_MS = 3000,           /* without anything that runs, until init rests */
    STACK_BYTES = 128 * 1024, /* more than init ever uses */
};

/* Zero until used: pages that are never touched cost nothing. */
static struct init state;

int64_t now_usec(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t now_ms(void)
{
    return now_usec() / 1000;
}

/* The kind, the entry of the call and which use of the entry it was. */
static uint64_t event_data(enum event_kind kind, const struct call *call)
{
    return (uint64_t)kind | (call ? (uint64_t)(call - state.calls) << 8 : 0) |
           (call ? (uint64_t)call->generation << 32 : 0);
}

void watch(const struct init *init, int fd, uint32_t events, enum event_kind kind,
           const struct call *call)
{
    struct epoll_event event = {.events = events, .data.u64 = event_data(kind, call)};
    (void)epoll_ctl(init->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

void watch_change(const struct init *init, int fd, uint32_t events, enum event_kind kind)
{
    struct epoll_event event = {.events = events, .data.u64 = event_data(kind, NULL)};
    (void)epoll_ctl(init->epoll_fd, EPOLL_CTL_MOD, fd, &event);
}

void unwatch(const struct init *init, int fd)
{
    (void)epoll_ctl(init->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static void take_signals(struct init *init)
{
    struct signalfd_siginfo info[8];
    while (read(init->signal_fd, info, sizeof(info)) == sizeof(info))
        ;
    calls_reap(init);
}

static void handle(struct init *init, const struct epoll_event *event)
{
    enum event_kind kind = (enum event_kind)(event->data.u64 & 0xff);
    uint32_t index = (uint32_t)(event->data.u64 >> 8) & 0xffffff;
    uint32_t generation = (uint32_t)(event->data.u64 >> 32);
    switch (kind) {
    case EVENT_SIGNAL: take_signals(init); return;
    case EVENT_LISTEN: link_accept(init); return;
    case EVENT_PIPE: pipe_readable(init); return;
    case EVENT_LINK:
        if (init->link.fd >= 0 && event->events & ~(uint32_t)EPOLLOUT)
            link_readable(init, &init->link);
        /* Nothing more can be read of it then, and nobody is there to be answered. */
        if (init->link.fd >= 0 && event->events & EPOLLHUP &&
            init->link.in_len == init->link.in_cap)
            link_close(init, &init->link);
        return;
    case EVENT_CANDIDATE:
        if (init->candidate.fd >= 0)
            link_readable(init, &init->candidate);
        return;
    case EVENT_TOLD: answer_told(init); return;
    case EVENT_VIEW: view_opened(&init->view); return;
    case EVENT_STDOUT:
    case EVENT_STDERR:
    case EVENT_STDIN: break;
    default: return;
    }
    struct call *call = &init->calls[index % CALLS_MAX];
    if (!call->id || call->generation != generation)
        return;
    if (kind == EVENT_STDIN)
        stdio_stdin_ready(init, call);
    else
        stdio_output_ready(init, call, kind == EVENT_STDERR);
}

void init_wakes(struct init *init)
{
    init->idle_since_ms = 0;
    init->rests = false;
    view_wake(&init->view);
}

/* -1 is never. */
static int earlier(int one_ms, int other_ms)
{
    return one_ms < 0 || other_ms < 0 ? CAY_MAX(one_ms, other_ms) : CAY_MIN(one_ms, other_ms);
}

static int rest_timeout_ms(struct init *init, int64_t now)
{
    if (init->view.running)
        init->idle_since_ms = 0;
    else if (!init->idle_since_ms)
        init->idle_since_ms = now;
    if (!init->idle_since_ms || init->rests)
        return -1;
    return (int)CAY_MAX(init->idle_since_ms + REST_MS - now, (int64_t)0);
}

static int next_timeout_ms(struct init *init, int64_t now)
{
    init->view.running = calls_running(init);
    int calls_ms = calls_timeout_ms(init, now);
    int view_ms = view_timeout_ms(&init->view, now);
    return earlier(earlier(calls_ms, view_ms), rest_timeout_ms(init, now));
}

/* Most sandboxes do nothing most of the time. */
static void rest(struct init *init)
{
    char here;
    uintptr_t page = (uintptr_t)getpagesize();
    uintptr_t top = ((uintptr_t)&here & ~(page - 1)) - page;
    init->rests = true;
    view_rest(&init->view);
    link_rest(init);
    (void)madvise((void *)(top - STACK_BYTES), STACK_BYTES, MADV_DONTNEED);
}

/* Deadlines come after everything that has arrived: SKIP_CLOCK, sent while we were frozen, must
 * count before a timeout does. */
static void run(struct init *init)
{
    struct epoll_event events[EVENTS_MAX];
    while (!init->leaving) {
        int timeout_ms = next_timeout_ms(init, now_ms());
        /* gVisor may not tell when a pipe of the host has room again. */
        if (init->page && init->link.fd >= 0 && init->link.events & EPOLLOUT)
            timeout_ms = timeout_ms < 0 ? ROOM_MS : CAY_MIN(timeout_ms, (int)ROOM_MS);
        int count = epoll_wait(init->epoll_fd, events, EVENTS_MAX, timeout_ms);
        /* Frozen and thawed: interrupted, or the time was over before we could look. */
        if (count < 0)
            continue;
        if (count == 0)
            count = epoll_wait(init->epoll_fd, events, EVENTS_MAX, 0);
        for (int i = 0; i < count; i++)
            handle(init, &events[i]);
        /* gVisor tells of the timeout before it has looked at the host's descriptors. */
        if (init->page && calls_timeout_ms(init, now_ms()) == 0)
            pipe_readable(init);
        if (count < EVENTS_MAX)
            calls_check_deadlines(init, now_ms());
        link_flush(init);
        view_tick(&init->view, now_ms());
        if (rest_timeout_ms(init, now_ms()) == 0)
            rest(init);
    }
}

/* Every signal waits in the descriptor or is blocked: nothing interrupts us, and a child starts
 * from a known mask. What the daemon ignores (SIGPIPE) came with us through exec and would go on to
 * every command. */
static int open_signals(void)
{
    for (int number = 1; number < NSIG; number++)
        (void)signal(number, SIG_DFL);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    return signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
}

static void leave(struct init *init)
{
    for (uint32_t i = 0; i < init->calls_used; i++) {
        if (init->calls[i].id)
            tree_kill(init, &init->calls[i]);
    }
}

int main(int argc, char **argv)
{
    struct init *init = &state;
    prctl(PR_SET_NAME, "cay-init");
    (void)cay_pace_set(0, CAY_SLICE_SHORT_USEC); /* it does little, and commands wait for it */
    umask(0); /* modes are meant as they are written; commands get their own */
    init->link.fd = init->candidate.fd = init->listen_fd = init->root_fd = init->userns_fd =
        init->pipe_in_fd = init->pipe_out_fd = init->tree_fd = init->next_room = init->told_fd =
            init->limits_fd = -1;
    view_init(&init->view);
    bool by_pipes = argc > 1 && strcmp(argv[1], "pipes") == 0;
    init->signal_fd = open_signals();
    init->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    init->child_stack = cay_clone_stack_open();
    init->killed = mmap(NULL, CALLS_MAX * sizeof(*init->killed), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (init->signal_fd < 0 || init->epoll_fd < 0 || !init->child_stack ||
        init->killed == MAP_FAILED || !link_open_buffers(init))
        return 1;
    if (boot(init, by_pipes ? -1 : CHANNEL_FD) < 0)
        return 1;
    view_fill(&init->view, now_ms()); /* the daemon goes on meanwhile */
    if (init->view.watch_fd >= 0)
        watch(init, init->view.watch_fd, EPOLLIN, EVENT_VIEW, NULL);
    watch(init, init->signal_fd, EPOLLIN, EVENT_SIGNAL, NULL);
    if (init->told_fd >= 0)
        watch(init, init->told_fd, EPOLLIN, EVENT_TOLD, NULL);
    if (init->listen_fd >= 0)
        watch(init, init->listen_fd, EPOLLIN, EVENT_LISTEN, NULL);
    run(init);
    leave(init);
    return 0;
}
