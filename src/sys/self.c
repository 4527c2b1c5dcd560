/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/self.h"

#include <fcntl.h>
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

static uint64_t read_kib(struct cay_str text, const char *key)
{
    struct cay_str line;
    struct cay_str name;
    while (cay_str_split(&text, '\n', &line)) {
        uint64_t kib = 0;
        if (!cay_str_split(&line, ':', &name) || !cay_str_is(name, key))
            continue;
        while (line.len && line.ptr[0] == ' ')
            line = (struct cay_str){line.ptr + 1, line.len - 1};
        struct cay_str number;
        bool is_number = cay_str_split(&line, ' ', &number) &&
                         cay_str_to_u64(number, UINT64_MAX / 1024, &kib) == 0;
        return is_number ? kib : 0;
    }
    return 0;
}

void cay_memory_read(uint64_t *out_available_bytes, uint64_t *out_total_bytes)
{
    char text[4096];
    cay_autoclose int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text));
    const struct cay_str all = {text, len > 0 ? (size_t)len : 0};
    *out_available_bytes = read_kib(all, "MemAvailable") * 1024;
    *out_total_bytes = read_kib(all, "MemTotal") * 1024;
}
