/* SPDX-License-Identifier: Apache-2.0 */
#include "init/mark.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

void mark_format(char out_mark[MARK_BYTES], pid_t init_pid, uint64_t call)
{
    snprintf(out_mark, MARK_BYTES, "CAY_CALL=%d-%llu", (int)init_pid, (unsigned long long)call);
}

bool mark_is_on(pid_t pid, const char *mark)
{
    static char text[131072];
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (len <= 0)
        return false;
    text[len] = '\0';
    for (const char *at = text; at < text + len; at += strlen(at) + 1) {
        if (strcmp(at, mark) == 0)
            return true;
    }
    return false;
}
