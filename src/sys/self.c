/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/self.h"

#include <stdio.h>
#include <unistd.h>

uint64_t cay_self_resident_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file && fscanf(file, "%*s %llu", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}
