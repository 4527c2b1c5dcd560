/* SPDX-License-Identifier: Apache-2.0 */
#include "host/db/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    /* More than the log has when SQLite writes it back (1000 pages), so that it never needs more.
     */
    LOG_BYTES = 8 << 20,
    FILE_BYTES = 1 << 20,   /* beyond what the database has */
    INDEX_BYTES = 64 << 10, /* of the log; SQLite takes 32 KiB for so long a one */
    /* For the log and its index, which SQLite makes anew at a start. */
    SPARE_BYTES = LOG_BYTES + (1 << 20),
};

/* Blocks beyond the end of a file are nobody else's. Where the file system cannot do it there is no
 * reserve. */
static void extend(int fd, off_t bytes)
{
    struct stat info;
    if (fd >= 0 && fstat(fd, &info) == 0 && info.st_size + bytes > info.st_blocks * 512)
        (void)fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, info.st_size + bytes);
}

void cay_db_reserve_file(int fd)
{
    extend(fd, FILE_BYTES);
}

/* The index is mapped, and written one byte per page when it is made: a store to a block that is
 * not there yet, on a disk without room, would end the daemon (SIGBUS). */
int cay_db_reserve_log(const char *path)
{
    cay_autofree char *log = cay_asprintf("%s-wal", path);
    cay_autofree char *index = cay_asprintf("%s-shm", path);
    cay_autofree char *spare = cay_asprintf("%s-spare", path);
    int index_fd = open(index, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (index_fd >= 0)
        (void)fallocate(index_fd, FALLOC_FL_KEEP_SIZE, 0, INDEX_BYTES);
    cay_autoclose int log_fd = open(log, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    struct stat info;
    if (log_fd >= 0 && fstat(log_fd, &info) == 0 && info.st_blocks * 512 < LOG_BYTES)
        (void)fallocate(log_fd, FALLOC_FL_KEEP_SIZE, 0, LOG_BYTES);
    cay_autoclose int spare_fd = open(spare, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    extend(spare_fd, SPARE_BYTES);
    return index_fd;
}

bool cay_db_reserve_spend(const char *path)
{
    cay_autofree char *spare = cay_asprintf("%s-spare", path);
    return unlink(spare) == 0;
}
