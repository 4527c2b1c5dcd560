/* SPDX-License-Identifier: Apache-2.0 */

/* Runs a fuzzer over every file of the directories (or over the files) given. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "fuzz/fuzz.h"

enum { INPUT_BYTES_MAX = 16 * 1024 * 1024 };

static int replay_file(int dir, const char *name)
{
    cay_autoclose int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_buf_init(&buf, INPUT_BYTES_MAX);
    for (;;) {
        char *room = cay_buf_reserve(&buf, 64 * 1024);
        ssize_t len = fd < 0 || !room ? -1 : read(fd, room, 64 * 1024);
        if (len < 0) {
            fprintf(stderr, "%s: cannot read it: %s\n", name, strerror(errno));
            return 1;
        }
        if (len == 0)
            break;
        cay_buf_grew(&buf, (size_t)len);
    }
    /* Exactly as large as the input, so that the sanitizer sees a read past it. */
    cay_autofree uint8_t *copy = malloc(buf.len ? buf.len : 1);
    if (!copy)
        return 1;
    memcpy(copy, buf.data, buf.len);
    LLVMFuzzerTestOneInput(copy, buf.len);
    return 0;
}

static int replay_dir(int fd, size_t *count)
{
    DIR *dir = fdopendir(fd);
    int failed = 0;
    if (!dir)
        return 1;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (entry->d_name[0] == '.')
            continue;
        failed |= replay_file(dirfd(dir), entry->d_name);
        ++*count;
    }
    closedir(dir);
    return failed;
}

int main(int argc, char **argv)
{
    size_t count = 0;
    int failed = 0;
    printf("1..1\n");
    fflush(stdout);
    for (int i = 1; i < argc; i++) {
        struct stat st;
        if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode)) {
            failed |= replay_dir(open(argv[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC), &count);
        } else {
            failed |= replay_file(AT_FDCWD, argv[i]);
            count++;
        }
    }
    failed = failed || !count;
    printf("%sok 1 - %zu inputs replay without a finding\n", failed ? "not " : "", count);
    return failed;
}
