/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs inside a sandbox and is hard to get rid of. First argument: how.
 *   traced       a child that is stopped by its tracer, which waits for ever
 *   orphans N    N grandchildren whose parents are gone; each ends at once
 *   crowd N      the same, but they stay; ends up with as many as may be
 *   files N      N open files, as far as it may; then waits
 *   lease FILE   a lease on a file of its own, which it does not give back
 *   stopper      stops all other processes of its user, again and again
 * Each says on a line of its own when it is done.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int say(const char *what, int number)
{
    printf("%s %d\n", what, number);
    return fflush(stdout);
}

static void wait_for_ever(void)
{
    for (;;)
        pause();
}

static int be_traced(void)
{
    pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
            _exit(errno);
        raise(SIGSTOP);
        wait_for_ever();
    }
    int status = 0;
    if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status))
        return say("refused", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    signal(SIGTERM, SIG_IGN);
    say("traced", child);
    wait_for_ever();
    return 0;
}

static int hold_lease(const char *path)
{
    int fd = open(path, O_RDWR);
    signal(SIGIO, SIG_IGN);
    if (fd < 0 || fcntl(fd, F_SETLEASE, F_WRLCK) < 0)
        return say("refused", errno);
    say("leased", 1);
    wait_for_ever();
    return 0;
}

static int stop_others(void)
{
    say("stops", 1);
    while (kill(-1, SIGSTOP) == 0 || errno == ESRCH)
        ;
    return say("refused", errno);
}

static int make_orphans(int count, int stay)
{
    int made = 0;
    for (int failures = 0; made < count && failures < 1000;) {
        pid_t child = fork();
        if (child == 0) {
            pid_t orphan = fork();
            if (orphan == 0 && stay)
                wait_for_ever();
            _exit(orphan < 0);
        }
        int status = 1;
        if (child > 0)
            waitpid(child, &status, 0);
        if (status == 0) {
            made++;
            continue;
        }
        failures++;
        usleep(1000); /* no room: those before have to be reaped */
        if (stay && failures > 20)
            break;
    }
    say("made", made);
    if (stay)
        wait_for_ever();
    return 0;
}

static int open_files(int count)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    int opened = 0;
    while (opened < count && open("/dev/null", O_RDONLY) >= 0)
        opened++;
    say("opened", opened);
    wait_for_ever();
    return 0;
}

int main(int argc, char **argv)
{
    int number = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;
    if (argc > 1 && strcmp(argv[1], "traced") == 0)
        return be_traced();
    if (argc > 2 && strcmp(argv[1], "lease") == 0)
        return hold_lease(argv[2]);
    if (argc > 1 && strcmp(argv[1], "stopper") == 0)
        return stop_others();
    if (argc > 1 && strcmp(argv[1], "orphans") == 0)
        return make_orphans(number, 0);
    if (argc > 1 && strcmp(argv[1], "crowd") == 0)
        return make_orphans(number, 1);
    if (argc > 1 && strcmp(argv[1], "files") == 0)
        return open_files(number);
    return 2;
}
