/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that a server can be, as a measure of the machine: one thread takes a request, another
 * does its work, the first one answers. It comes before everybody else, as the daemon's own threads
 * do. A request is a byte on standard input, its answer the same byte on standard output: 'c' hands
 * an empty call over and back, 'x' runs a program that does nothing, at the niceness of a command.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int to_worker;
static int to_loop;

static void signal_fd(int fd)
{
    const uint64_t one = 1;
    if (write(fd, &one, sizeof(one)) != sizeof(one))
        _exit(1);
}

static void wait_fd(int fd)
{
    uint64_t count;
    if (read(fd, &count, sizeof(count)) != sizeof(count))
        _exit(1);
}

static void *worker(void *arg)
{
    for (;;) {
        wait_fd(to_worker);
        signal_fd(to_loop);
    }
    return arg;
}

static void run_nothing(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)setpriority(PRIO_PROCESS, 0, 0);
        execl("/bin/true", "/bin/true", (char *)NULL);
        _exit(1);
    }
    if (pid < 0 || waitpid(pid, NULL, 0) != pid)
        _exit(1);
}

int main(void)
{
    pthread_t thread;
    char kind;
    if (setpriority(PRIO_PROCESS, 0, -10) < 0)
        return 1;
    to_worker = eventfd(0, EFD_CLOEXEC);
    to_loop = eventfd(0, EFD_CLOEXEC);
    if (to_worker < 0 || to_loop < 0 || pthread_create(&thread, NULL, worker, NULL) != 0)
        return 1;
    while (read(STDIN_FILENO, &kind, 1) == 1) {
        if (kind == 'x') {
            run_nothing();
        } else {
            signal_fd(to_worker);
            wait_fd(to_loop);
        }
        if (write(STDOUT_FILENO, &kind, 1) != 1)
            return 1;
    }
    return 0;
}
