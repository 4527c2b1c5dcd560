/* SPDX-License-Identifier: Apache-2.0 */
/* The least a program can say. */
#include <stdio.h>

int main(void)
{
    puts("Hello, world!");
    return 0;
}
