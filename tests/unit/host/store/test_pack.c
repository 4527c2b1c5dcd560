/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/pack.h"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include "tests/unit/test.h"

enum { TIMES = 200 };

static bool never(void *)
{
    return false;
}

/* An archive that is given up: in its midst, or because nobody wants more of it. */
static void give_up(int fd, const char *text, size_t len, cay_pack_progress *progress)
{
    struct cay_pack pack = {};
    struct cay_error err = {};
    assert_true(cay_pack_open(&pack, fd, 1, progress, NULL, &err));
    assert_int_equal(cay_pack_text(&pack, "text", (struct cay_str){text, len}, &err), !progress);
    if (progress)
        assert_int_equal(err.reason, CAY_R_CANCELED);
    uint64_t bytes = pack.bytes;
    cay_pack_finish(&pack);
    assert_int_equal(pack.bytes, bytes); /* its end is not written */
}

static void given_up(void **)
{
    static char text[100000];
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    give_up(fd, text, sizeof(text), never);
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < TIMES; i++) {
        give_up(fd, text, sizeof(text), NULL);
        give_up(fd, text, sizeof(text), never);
    }
    /* Nothing is counted under AddressSanitizer, which looks by itself. */
    size_t after = mallinfo2().uordblks;
    assert_true(after < before + TIMES * 1024ul);
    close(fd);
}

/* What could not be written is told at the end at the latest. */
static void full(void **)
{
    struct cay_pack pack = {};
    struct cay_error err = {};
    char digest[CAY_SHA256_HEX_SIZE];
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(cay_pack_open(&pack, fd, 1, NULL, NULL, &err));
    bool is_good = cay_pack_text(&pack, "text", CAY_STR("text"), &err);
    is_good = is_good && cay_pack_close(&pack, digest, &err);
    assert_false(is_good);
    assert_int_equal(err.reason, CAY_R_NO_SPACE);
    cay_pack_finish(&pack);
    close(fd);
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(given_up),
        cmocka_unit_test(full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
