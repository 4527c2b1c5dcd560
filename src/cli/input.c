/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "cli/again.h"
#include "client/rpc/client.h"

enum {
    READ_BYTES = 32 * 1024,
    RETRY_MS = 20, /* a process that does not read */
    KEY_LEAVE_1 = 0x10,
    KEY_LEAVE_2 = 0x11,
    END_FIRST_MS = 50, /* how soon the end is typed, and then again */
    END_LAST_MS = 10 * 1000,
};

struct cay_input {
    struct cay_client *client;
    struct cay_input_options options;
    pthread_t thread;
    pthread_t main_thread;
    int wake[2];
    bool has_key; /* the first of the two was typed */
    atomic_bool is_detached;
    atomic_bool is_closing;
};

/* Of the process, not of an object: handlers and the end of the program need them. */
static struct termios saved;
static volatile sig_atomic_t is_raw;
static volatile sig_atomic_t wake_fd = -1;

bool cay_input_size(struct cay_v1_pty_size *out_size)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || !size.ws_row || !size.ws_col)
        return false;
    *out_size = (struct cay_v1_pty_size){.rows = size.ws_row, .cols = size.ws_col};
    return true;
}

static void restore_terminal(void)
{
    if (is_raw)
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &saved);
    is_raw = 0;
}

static void make_raw(void)
{
    static bool is_registered;
    struct termios raw;
    if (tcgetattr(STDIN_FILENO, &saved) < 0)
        return;
    if (!is_registered)
        is_registered = atexit(restore_terminal) == 0;
    raw = saved;
    cfmakeraw(&raw);
    if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0)
        is_raw = 1;
}

static void on_winch(int)
{
    int before = errno;
    if (wake_fd >= 0)
        (void)!write(wake_fd, "w", 1);
    errno = before;
}

static bool call(struct cay_input *input, unsigned method, const void *request,
                 struct cay_error *err)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    uint64_t response[8] = {}; /* they are empty messages */
    cay_arena_init(&arena, 1024 * 1024);
    return cay_client_call(input->client, &cay_v1_methods[method], request, &arena, response, err);
}

static void tell_size(struct cay_input *input)
{
    struct cay_v1_pty_size size;
    struct cay_error ignored = {};
    if (!input->options.has_terminal || !cay_input_size(&size))
        return;
    const struct cay_v1_resize_pty_request request = {.session_id = input->options.session_id,
                                                      .process_id = input->options.process_id,
                                                      .size = &size};
    (void)call(input, CAY_V1_PROCESS_SERVICE_RESIZE_PTY, &request, &ignored);
}

/* Waits while the process has enough; false when it wants no more. */
static bool send_bytes(struct cay_input *input, struct cay_str data, bool is_last)
{
    const struct cay_v1_send_input_request request = {
        .session_id = input->options.session_id,
        .process_id = input->options.process_id,
        .data = data,
        .close = is_last && !input->options.has_terminal,
    };
    while (!atomic_load(&input->is_closing)) {
        struct cay_error err = {};
        if (call(input, CAY_V1_PROCESS_SERVICE_SEND_INPUT, &request, &err))
            return true;
        /* It is full, or the daemon is being restarted. */
        if (err.reason != CAY_R_RESOURCE_EXHAUSTED && !cay_again_is_unsent(&err))
            return false;
        struct pollfd wait = {.fd = input->wake[0], .events = POLLIN};
        (void)poll(&wait, 1, RETRY_MS);
    }
    return false;
}

/* Takes the keys that leave out of what is typed. True when both came. `out` has room for one byte
 * more than `data`. */
static bool take_keys(struct cay_input *input, struct cay_str data, char *out, size_t *out_len)
{
    *out_len = 0;
    for (size_t i = 0; i < data.len; i++) {
        if (input->has_key && data.ptr[i] == KEY_LEAVE_2)
            return true;
        if (input->has_key)
            out[(*out_len)++] = KEY_LEAVE_1;
        input->has_key = data.ptr[i] == KEY_LEAVE_1;
        if (!input->has_key)
            out[(*out_len)++] = data.ptr[i];
    }
    return false;
}

static bool pass_on(struct cay_input *input)
{
    char data[READ_BYTES];
    char typed[2 * READ_BYTES + 1];
    ssize_t got = read(STDIN_FILENO, data, READ_BYTES);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    size_t len = got > 0 ? (size_t)got : 0;
    if (!len) {
        if (!input->options.types_end)
            (void)send_bytes(input, CAY_STR(""), true);
        return false;
    }
    struct cay_str bytes = {data, len};
    bool is_leaving = false;
    if (input->options.is_detachable) {
        is_leaving = take_keys(input, bytes, typed, &len);
        bytes = (struct cay_str){typed, len};
    }
    bool is_open = !len || send_bytes(input, bytes, false);
    if (!is_leaving)
        return is_open;
    atomic_store(&input->is_detached, true);
    pthread_kill(input->main_thread, SIGUSR1); /* ends the wait for output */
    return false;
}

static void *run(void *arg)
{
    struct cay_input *input = arg;
    bool reads = true;
    int end_ms = END_FIRST_MS;
    while (!atomic_load(&input->is_closing)) {
        struct pollfd entries[] = {{.fd = input->wake[0], .events = POLLIN},
                                   {.fd = reads ? STDIN_FILENO : -1, .events = POLLIN}};
        bool types_end = !reads && input->options.types_end;
        int count = poll(entries, CAY_COUNT(entries), types_end ? end_ms : -1);
        if (count < 0)
            continue;
        /* A terminal cannot be closed. Typed once it may come too early: to a shell that is about
         * to change the terminal's mode, or behind half a line. */
        if (count == 0) {
            (void)send_bytes(input, CAY_STR("\x04"), false);
            end_ms = CAY_MIN(end_ms * 2, (int)END_LAST_MS);
        }
        char byte = 0;
        if (entries[0].revents && read(input->wake[0], &byte, 1) == 1 && byte == 'w')
            tell_size(input);
        if (entries[1].revents)
            reads = pass_on(input);
    }
    return NULL;
}

struct cay_input *cay_input_open(struct cay_cli *cli, const struct cay_input_options *options)
{
    struct cay_input *input = cay_new(struct cay_input);
    input->options = *options;
    input->main_thread = pthread_self();
    input->client = cay_client_ref(cli->client);
    if (pipe2(input->wake, O_CLOEXEC) < 0) {
        cay_client_close(input->client);
        free(input);
        return NULL;
    }
    wake_fd = input->wake[1];
    if (options->has_terminal) {
        const struct sigaction action = {.sa_handler = on_winch, .sa_flags = SA_RESTART};
        (void)sigaction(SIGWINCH, &action, NULL);
        make_raw();
    }
    /* Signals are for the thread that waits for output. */
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = pthread_create(&input->thread, NULL, run, input);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status == 0)
        return input;
    restore_terminal();
    cay_client_close(input->client);
    free(input);
    return NULL;
}

void cay_input_close(struct cay_input *input)
{
    if (!input)
        return;
    atomic_store(&input->is_closing, true);
    wake_fd = -1;
    (void)!write(input->wake[1], "x", 1);
    pthread_join(input->thread, NULL);
    restore_terminal();
    close(input->wake[0]);
    close(input->wake[1]);
    cay_client_close(input->client);
    free(input);
}

bool cay_input_is_detached(const struct cay_input *input)
{
    return input && atomic_load(&input->is_detached);
}
