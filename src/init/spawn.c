/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init/child.h"
#include "init/init.h"
#include "sys/clone.h"

enum { START_LONG_USEC = 900'000 };

/* The three ends the command gets. */
struct ends {
    int fd[3];
};

static void close_ends(struct init *init, struct ends *ends)
{
    for (int i = 0; i < 3; i++) {
        bool is_same =
            (i > 0 && ends->fd[i] == ends->fd[0]) || (i > 1 && ends->fd[2] == ends->fd[1]);
        if (ends->fd[i] >= 0 && ends->fd[i] != init->null_fd && !is_same)
            close(ends->fd[i]);
    }
}

/* Our ends never block; the command's do, as it expects. */
static int open_pipe(int *out_read, int *out_write, int *ours)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    *out_read = fds[0];
    *out_write = fds[1];
    return fcntl(*ours, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

/* One terminal for all three; we read and write its other side. */
static int open_terminal(struct init *init, struct call *call, const struct cay_frame_exec *exec,
                         struct ends *ends)
{
    int slave_fd = -1;
    int result = pty_open(init, exec, &call->output_fd[0], &slave_fd);
    if (result < 0)
        return result;
    *ends = (struct ends){{slave_fd, slave_fd, slave_fd}};
    call->stdin_fd = fcntl(call->output_fd[0], F_DUPFD_CLOEXEC, 0);
    if (call->stdin_fd < 0)
        return -errno;
    return pty_resize(init, call, &exec->size);
}

static int open_stdio(struct init *init, struct call *call, const struct cay_frame_exec *exec,
                      struct ends *ends)
{
    if (call->flags & CAY_EXEC_PTY)
        return open_terminal(init, call, exec, ends);
    *ends = (struct ends){{init->null_fd, -1, -1}};
    int result = open_pipe(&call->output_fd[0], &ends->fd[1], &call->output_fd[0]);
    if (result == 0 && call->flags & CAY_EXEC_MERGE)
        ends->fd[2] = ends->fd[1];
    else if (result == 0)
        result = open_pipe(&call->output_fd[1], &ends->fd[2], &call->output_fd[1]);
    if (result == 0 && call->flags & CAY_EXEC_STDIN)
        result = open_pipe(&ends->fd[0], &call->stdin_fd, &call->stdin_fd);
    return result;
}

/* The first slot nobody is in. -EBUSY when there are slots and all are taken. */
static int take_slot(struct init *init, struct call *call)
{
    if (call->flags & CAY_EXEC_ROOM) {
        int room = init->next_room;
        init->next_room = -1;
        if (room < 0 || init->slots[room].busy)
            return -EBUSY;
        init->slots[room].busy = true;
        call->slot = room;
        return 0;
    }
    for (uint32_t i = 0; i < init->slot_count; i++) {
        if (init->slots[i].present && !init->slots[i].busy) {
            init->slots[i].busy = true;
            call->slot = (int)i;
            return 0;
        }
    }
    if (!init->page)
        return init->slot_count ? -EBUSY : 0;
    uint32_t index = init->slot_count;
    int result = gvisor_open_slot(init, index);
    if (result == 0) {
        init->slots[index].busy = true;
        call->slot = (int)index;
    }
    return result;
}

/* Of gVisor memory is dear to get, and one is kept. */
static int open_ring(struct init *init, struct call *call, uint32_t size)
{
    if (!init->spare_ring.data || init->spare_ring.size != size)
        return cay_ring_open(&call->ring, size);
    call->ring = init->spare_ring;
    init->spare_ring.data = NULL;
    cay_ring_reset(&call->ring);
    return 0;
}

int spawn(struct init *init, struct call *call, const struct cay_frame_exec *exec)
{
    call->flags = exec->flags;
    call->window_bytes = exec->window_bytes;
    call->attached = exec->window_bytes > 0;
    int result = init->page ? gvisor_follow_tree(init) : 0;
    if (result == 0 && init->page)
        result = gvisor_follow_limits(init);
    if (result == 0)
        result = take_slot(init, call);
    init_wakes(init);
    view_before_start(&init->view, now_ms());
    if (result == 0 && !call->ring.data)
        result = open_ring(init, call, exec->ring_bytes);
    struct ends ends = {{-1, -1, -1}};
    if (result == 0)
        result = open_stdio(init, call, exec, &ends);
    struct spawn_cell *cell = &init->cells[call - init->calls];
    *cell = (struct spawn_cell){};
    if (result == 0) {
        const struct cay_cgroup_slot *slot = call->slot >= 0 ? &init->slots[call->slot].fds : NULL;
        struct child child = {
            .init = init,
            .exec = exec,
            .call = call->id,
            .stdio = {ends.fd[0], ends.fd[1], ends.fd[2]},
            .tasks_fd = {slot ? slot->tasks_fd : -1, slot ? slot->more_tasks_fd[0] : -1,
                         slot ? slot->more_tasks_fd[1] : -1},
            .cell = cell,
        };
        struct cay_clone how = {
            .flags = CAY_CLONE_SHARED,
            .exit_signal = SIGCHLD,
            .cgroup_fd = slot ? slot->into_fd : -1,
            .stack = init->child_stack,
        };
        gvisor_note_busy(init, true);
        int64_t before_usec = now_usec();
        result = cay_clone_call(&how, child_main, &child);
        int64_t after_usec = now_usec();
        call->held_up_usec = after_usec - before_usec >= START_LONG_USEC ? after_usec : 0;
    }
    close_ends(init, &ends);
    if (result < 0) {
        gvisor_note_busy(init, waitid(P_ALL, 0, &(siginfo_t){}, WEXITED | WNOHANG | WNOWAIT) == 0);
        return result;
    }
    call->pid = call->group = result;
    init->view.last_pid = (uint32_t)result;
    view_after_start(&init->view);
    /* It has become the command by now, or left a note why not: then its end comes alone. */
    call->tell_start = exec->flags & CAY_EXEC_TELL_START && cell->stage == CAY_STAGE_NONE;
    int64_t now = call->started_usec / 1000;
    call->quiet_ms = exec->quiet_ms;
    call->wall_deadline_ms = exec->wall_ms ? now + (int64_t)exec->wall_ms : 0;
    call->quiet_deadline_ms = exec->quiet_ms ? now + (int64_t)exec->quiet_ms : 0;
    stdio_watch(init, call, 0);
    stdio_watch(init, call, 1);
    return 0;
}
