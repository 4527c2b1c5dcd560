/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/command.h"

/* A standard descriptor that is closed would become the next file or connection we open, and the
 * command's output would go into it. Standard input is empty then; a write to the others fails. */
static void fill_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd) /* the lowest one */
            abort();
    }
}

int main(int argc, char **argv)
{
    fill_standard_descriptors();
    /* A reader that went away is an error of the write, not a reason to die in the middle. */
    signal(SIGPIPE, SIG_IGN);
    return cay_cli_main(argc, (const char *const *)argv);
}
