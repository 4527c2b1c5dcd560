/* SPDX-License-Identifier: Apache-2.0 */
/* The least a program can do; with an argument, the least that stays: it waits for a signal. */
#include <unistd.h>

int main(int argc, char **)
{
    while (argc > 1)
        pause();
    return 0;
}
