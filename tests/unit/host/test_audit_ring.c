/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "host/event/audit_ring.h"

enum { PIECE_BYTES = 1 << 20 };

struct ring {
    char dir[64];
    int dir_fd;
    uint64_t written;
    struct cay_buf piece;
};

static void begin(struct ring *ring)
{
    snprintf(ring->dir, sizeof(ring->dir), "%s/audit-XXXXXX", getenv("TMPDIR") ?: "/tmp");
    assert_non_null(mkdtemp(ring->dir));
    ring->dir_fd = open(ring->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(ring->dir_fd >= 0);
    cay_buf_init(&ring->piece, 2 * PIECE_BYTES);
}

static void end(struct ring *ring)
{
    DIR *dir = fdopendir(ring->dir_fd);
    for (struct dirent *entry; (entry = readdir(dir));)
        (void)unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    assert_int_equal(rmdir(ring->dir), 0);
    cay_buf_finish(&ring->piece);
}

static void flush(struct ring *ring)
{
    assert_int_equal(cay_audit_ring_write(ring->dir_fd, cay_buf_str(&ring->piece)), 0);
    ring->written += ring->piece.len;
    cay_buf_clear(&ring->piece, SIZE_MAX);
}

static void tell(struct ring *ring, const char *owner, const char *type, int number)
{
    cay_buf_printf(&ring->piece,
                   "{\"kind\":\"EVENT_KIND_TOOL\",\"type\":\"%s\",\"sessionId\":\"s\\\",\\\"owner"
                   "\\\":\\\"mallory\",\"owner\":\"%s\",\"actor\":\"key\",\"number\":%d,\"text\":"
                   "\"%0700d\"}\n",
                   type, owner, number, number);
    if (ring->piece.len > PIECE_BYTES)
        flush(ring);
}

/* Lines of the owner in the files, from the oldest on; the number of the first and last of them. */
static int count(const struct ring *ring, const char *owner, int *out_first, int *out_last)
{
    cay_autofree char *pattern = cay_asprintf("\"owner\":\"%s\"", owner);
    int found = 0;
    *out_last = -1;
    for (int i = CAY_AUDIT_OLD_FILES; i >= 0; i--) {
        char line[1024];
        cay_autofree char *path = i ? cay_asprintf("%s/audit.log.%d", ring->dir, i)
                                    : cay_asprintf("%s/audit.log", ring->dir);
        FILE *file = fopen(path, "re");
        while (file && fgets(line, sizeof(line), file)) {
            if (!strstr(line, pattern))
                continue;
            int number = (int)strtol(strstr(line, "\"number\":") + strlen("\"number\":"), NULL, 10);
            assert_true(number > *out_last); /* in the order they happened, each once */
            *out_last = number;
            if (!found++)
                *out_first = number;
        }
        if (file)
            fclose(file);
    }
    return found;
}

static uint64_t bytes_of(const struct ring *ring)
{
    uint64_t bytes = 0;
    for (int i = 0; i <= CAY_AUDIT_OLD_FILES; i++) {
        struct stat info;
        cay_autofree char *path = i ? cay_asprintf("%s/audit.log.%d", ring->dir, i)
                                    : cay_asprintf("%s/audit.log", ring->dir);
        if (stat(path, &info) == 0)
            bytes += (uint64_t)info.st_size;
    }
    return bytes;
}

static void test_volume_of_one(void **)
{
    /* One owner writes several times what there is room for: it loses its oldest, others nothing.
     */
    struct ring ring = {};
    int first = 0;
    int last = 0;
    int number = 0;
    begin(&ring);
    for (int i = 0; i < 100; i++)
        tell(&ring, "quiet", "session.destroyed", i);
    while (ring.written < UINT64_C(2) * CAY_AUDIT_FILE_BYTES_MAX * (CAY_AUDIT_OLD_FILES + 1)) {
        tell(&ring, "loud", "tool.completed", number++);
        if (number % 10'000 == 0)
            tell(&ring, "third", "session.created", number);
    }
    flush(&ring);
    assert_int_equal(count(&ring, "quiet", &first, &last), 100);
    assert_int_equal(count(&ring, "third", &first, &last), number / 10'000);
    int kept = count(&ring, "loud", &first, &last);
    assert_int_equal(last, number - 1); /* its newest, without a gap */
    assert_int_equal(first, number - kept);
    assert_true(kept > number / 4);
    assert_true(bytes_of(&ring) <= UINT64_C(1) * (CAY_AUDIT_FILE_BYTES_MAX + 2 * PIECE_BYTES) *
                                       (CAY_AUDIT_OLD_FILES + 1));
    assert_int_equal(count(&ring, "mallory", &first, &last), 0);
    end(&ring);
}

static void test_equal_parts(void **)
{
    /* Two that write much share what there is, however much more one of them writes. */
    struct ring ring = {};
    int first = 0;
    int last = 0;
    int loud = 0;
    int much = 0;
    begin(&ring);
    while (ring.written < UINT64_C(2) * CAY_AUDIT_FILE_BYTES_MAX * (CAY_AUDIT_OLD_FILES + 1)) {
        tell(&ring, "loud", "tool.completed", loud++);
        if (loud % 4 == 0)
            tell(&ring, "much", "tool.completed", much++);
    }
    flush(&ring);
    uint64_t bytes =
        (uint64_t)count(&ring, "much", &first, &last) * (ring.written / (uint64_t)(loud + much));
    assert_int_equal(last, much - 1);
    /* Half of the oldest file, and a fifth of the others. */
    assert_true(bytes > CAY_AUDIT_FILE_BYTES_MAX);
    end(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_volume_of_one),
        cmocka_unit_test(test_equal_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
