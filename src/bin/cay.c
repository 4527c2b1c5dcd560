/* SPDX-License-Identifier: Apache-2.0 */
#include <locale.h>
#include <signal.h>

#include "bin/cay_command.h"

int main(int argc, char **argv)
{
    /* Texts are UTF-8 whatever the environment says; this is only for the width of characters. */
    setlocale(LC_CTYPE, "C.UTF-8");
    /* A reader that went away is an error of the write, not a reason to die in the middle. */
    signal(SIGPIPE, SIG_IGN);
    return cay_cli_main(argc, (const char *const *)argv);
}
