/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/unit/front/harness.h"

/*
 * A whole connection: bytes in at one end of a socket pair, the server at the other, whatever they
 * make of it. Nothing may break, and when the client has gone nothing may be left.
 *
 * The first byte says how the client behaves, the second in what pieces it sends.
 */

enum {
    READS_BETWEEN = 1,  /* else it reads nothing until the end */
    RELEASES_EARLY = 2, /* held calls are answered while it still sends */
    HALF_CLOSES = 4,
    SWEEPS = 8, /* as if a minute had gone by */
    READS_AT_END = 16,
    DRAINS = 32,
};

enum { ANSWER_BYTES_MAX = 2 << 20 };

static struct harness harness;

static void turn(unsigned char behaviour, int fd, size_t *answered)
{
    static char bytes[64 * 1024];
    harness_turn(&harness);
    if (!(behaviour & READS_BETWEEN))
        return;
    for (int i = 0; i < 4 && *answered < ANSWER_BYTES_MAX; i++) {
        ssize_t got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (got <= 0)
            break;
        *answered += (size_t)got;
        harness_turn(&harness);
    }
}

static void sweep(unsigned char behaviour)
{
    cay_list_for_each (struct cay_conn, conn, &harness.server->conns, in_server) {
        cay_conn_enter(conn);
        if (behaviour & DRAINS && !conn->is_draining) {
            conn->is_draining = true;
            conn->protocol->drain(conn);
        }
        if (behaviour & SWEEPS && !conn->is_doomed)
            conn->protocol->sweep(conn, cay_loop_now_ms(harness.loop) + 60000);
        cay_conn_leave(conn);
    }
}

static void open_once(void)
{
    static bool is_open;
    if (is_open)
        return;
    is_open = true;
    signal(SIGPIPE, SIG_IGN);
    cay_log_set_level(CAY_ERROR);
    harness_open(&harness);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    open_once();
    unsigned char behaviour = data[0];
    size_t piece = data[1] ? data[1] : 4096;
    size_t answered = 0;
    int fd = harness_connect(&harness);
    for (size_t at = 2; at < size;) {
        ssize_t sent = send(fd, data + at, CAY_MIN(piece, size - at), MSG_NOSIGNAL | MSG_DONTWAIT);
        turn(behaviour, fd, &answered);
        if (sent <= 0)
            break;
        at += (size_t)sent;
        if (behaviour & RELEASES_EARLY)
            echo_release(&harness.echo);
    }
    turn(behaviour, fd, &answered);
    if (behaviour & (SWEEPS | DRAINS))
        sweep(behaviour);
    if (behaviour & HALF_CLOSES)
        shutdown(fd, SHUT_WR);
    if (behaviour & READS_AT_END)
        turn(behaviour | READS_BETWEEN, fd, &answered);
    close(fd);
    harness_turn(&harness);
    echo_release(&harness.echo);
    harness_turn(&harness);
    FUZZ_CHECK(harness.server->stats.connections_open == 0);
    FUZZ_CHECK(harness.server->stats.exchanges_open == 0);
    FUZZ_CHECK(harness.echo.open_count == 0);
    return 0;
}
