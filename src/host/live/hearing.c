/* SPDX-License-Identifier: Apache-2.0 */
#include "host/live/hearing.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/live/ports.h"
#include "host/net/listeners.h"
#include "host/session/host.h"
#include "host/session/tell.h"

enum {
    FIRST_MS = 100, /* after something has happened */
    LAST_MS = 3200, /* when nothing does */
};

struct cay_hearing {
    struct cay_session *session;
    struct cay_timer timer;
    uint64_t delay_ms;
    struct cay_listeners_look *look; /* under way */
    struct cay_listeners seen;
    char process_ids[CAY_LISTENERS_MAX][CAY_PROCESS_ID_SIZE]; /* of `seen`; empty: nobody's */
};

static void tell(const struct cay_hearing *hearing, const char *type, uint16_t port,
                 const char *process_id)
{
    char number[16];
    snprintf(number, sizeof(number), "%u", port);
    cay_exposed_heard(hearing->session, port);
    cay_tell(hearing->session->host,
             &(struct cay_happening){.type = type,
                                     .session = hearing->session,
                                     .process_id = process_id[0] ? process_id : NULL,
                                     .port = port,
                                     .is_nobodys = true,
                                     .fact = "port",
                                     .value = cay_str(number)});
}

/* The process of the table that the holder is, or descends from. */
static const struct cay_process *owner_of(const struct cay_session *session,
                                          const struct cay_listener_seen *seen)
{
    for (size_t i = 0; i < CAY_LISTENER_LINE; i++) {
        if (!seen->pids[i])
            continue;
        cay_list_for_each (struct cay_process, process, &session->processes.list, in_table) {
            if (process->pid == seen->pids[i] && !cay_process_is_over(process))
                return process;
        }
    }
    return NULL;
}

static bool has(const struct cay_listeners *listeners, uint64_t inode, uint16_t port)
{
    for (size_t i = 0; i < listeners->count; i++) {
        if (listeners->items[i].inode == inode && listeners->items[i].port == port)
            return true;
    }
    return false;
}

static void take(struct cay_hearing *hearing, const struct cay_listeners *found)
{
    const struct cay_listeners old = hearing->seen;
    char old_ids[CAY_LISTENERS_MAX][CAY_PROCESS_ID_SIZE];
    memcpy(old_ids, hearing->process_ids, sizeof(old_ids));
    hearing->seen = *found;
    for (size_t i = 0; i < found->count; i++) {
        const struct cay_process *process = owner_of(hearing->session, &found->items[i]);
        snprintf(hearing->process_ids[i], CAY_PROCESS_ID_SIZE, "%s", process ? process->id : "");
    }
    for (size_t i = 0; i < old.count; i++) {
        if (!has(found, old.items[i].inode, old.items[i].port))
            tell(hearing, "port.not_listening", old.items[i].port, old_ids[i]);
    }
    for (size_t i = 0; i < found->count; i++) {
        if (!has(&old, found->items[i].inode, found->items[i].port))
            tell(hearing, "port.listening", found->items[i].port, hearing->process_ids[i]);
    }
}

static void looked(void *owner, const struct cay_listeners *found)
{
    struct cay_hearing *hearing = owner;
    hearing->look = NULL;
    if (found)
        take(hearing, found);
    hearing->delay_ms = found ? FIRST_MS : CAY_MIN(hearing->delay_ms * 2, (uint64_t)LAST_MS);
    cay_timer_start(&hearing->timer, hearing->delay_ms, 0);
}

static bool has_processes(const struct cay_session *session)
{
    cay_list_for_each (struct cay_process, process, &session->processes.list, in_table) {
        if (!cay_process_is_over(process))
            return true;
    }
    return false;
}

static void on_timer(struct cay_timer *timer)
{
    struct cay_hearing *hearing = CAY_CONTAINER_OF(timer, struct cay_hearing, timer);
    struct cay_session *session = hearing->session;
    struct cay_error ignored = {};
    int fd = -1;
    bool is_over = !has_processes(session) && !hearing->seen.count;
    if (hearing->look || !session->live || is_over ||
        !cay_sandbox_netns(session->sandbox, &fd, &ignored))
        return; /* until the next poke */
    hearing->look = cay_listeners_look(session->host->loop, fd, &hearing->seen, looked, hearing);
    close(fd);
}

void cay_hearing_poke(struct cay_session *session)
{
    struct cay_hearing *hearing = session->hearing;
    if (!hearing) {
        hearing = session->hearing = cay_new(struct cay_hearing);
        hearing->session = session;
        cay_timer_open(&hearing->timer, session->host->loop, on_timer);
    }
    hearing->delay_ms = FIRST_MS;
    if (!hearing->look)
        cay_timer_start(&hearing->timer, FIRST_MS, 0);
}

void cay_hearing_end(struct cay_session *session)
{
    struct cay_hearing *hearing = session->hearing;
    const struct cay_listeners none = {};
    if (!hearing)
        return;
    cay_timer_stop(&hearing->timer);
    if (hearing->look)
        cay_listeners_cancel(cay_take_ptr(hearing->look));
    if (!atomic_load(&session->host->is_stopping))
        take(hearing, &none);
}

static void free_hearing(struct cay_session *session)
{
    struct cay_hearing *hearing = cay_take_ptr(session->hearing);
    if (!hearing)
        return;
    if (hearing->look)
        cay_listeners_cancel(hearing->look);
    cay_timer_close(&hearing->timer);
    free(hearing);
}

void cay_hearing_list(const struct cay_session *session, const char *process_id,
                      struct cay_arena *arena, struct cay_v1_process *message)
{
    const struct cay_hearing *hearing = session->hearing;
    message->listening_ports.count = 0; /* a record of it has those of its own time */
    uint32_t *ports =
        hearing && hearing->seen.count
            ? cay_arena_array(arena, hearing->seen.count, sizeof(*message->listening_ports.items))
            : NULL;
    for (size_t i = 0; ports && i < hearing->seen.count; i++) {
        if (strcmp(hearing->process_ids[i], process_id) == 0)
            ports[message->listening_ports.count++] = hearing->seen.items[i].port;
    }
    message->listening_ports.items = ports;
}

const struct cay_session_part cay_hearing_part = {.free = free_hearing};
