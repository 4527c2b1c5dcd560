/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs inside a sandbox and puts links to a file and a directory of the host in the place of names,
 * as fast as it can, until it is killed: there and back, for good, and again when the name is made
 * anew. Arguments: the path of the file, that of the directory, and the names; one whose last part
 * begins with 'd' is a directory.
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TRIES = 40 };

static long exchange(const char *a, const char *b)
{
    return syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
}

static void race(const char *target, const char *name, unsigned round)
{
    char spare[512];
    snprintf(spare, sizeof(spare), "/racer-%u", round % 64);
    unlink(spare);
    symlink(target, spare);
    for (int i = 0; i < TRIES; i++) {
        if (exchange(spare, name) < 0)
            continue;
        if (round % 3)
            break;
        exchange(spare, name);
    }
    if (round % 3 == 1)
        unlink(name);
    if (round % 3 == 2 && symlink(target, spare) == 0)
        rename(spare, name);
}

int main(int argc, char **argv)
{
    puts("ready");
    fflush(stdout);
    for (unsigned round = 0;; round++) {
        for (int i = 3; i < argc; i++) {
            const char *slash = strrchr(argv[i], '/');
            const char *last = slash ? slash + 1 : argv[i];
            race(argv[*last == 'd' ? 2 : 1], argv[i], round + (unsigned)i);
        }
    }
}
