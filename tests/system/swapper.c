/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs inside a sandbox and swaps pairs of names as fast as it can, until it is killed: what was a
 * directory at one instant is a link at the next. Arguments: the pairs.
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    puts("ready");
    fflush(stdout);
    for (;;) {
        for (int i = 1; i + 1 < argc; i += 2)
            (void)syscall(SYS_renameat2, AT_FDCWD, argv[i], AT_FDCWD, argv[i + 1], RENAME_EXCHANGE);
    }
}
