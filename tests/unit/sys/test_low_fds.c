/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sys/low_fds.h"

static struct cay_low_fds low;
static int ends[2];

static int up(void **)
{
    return pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0 ? -1 : cay_low_fds_open(&low, ends[0]);
}

static int down(void **)
{
    cay_low_fds_close(&low);
    close(ends[0]);
    close(ends[1]);
    return 0;
}

static void a_high_descriptor_gets_a_low_number_for_a_while(void **)
{
    cay_autoclose int high = fcntl(ends[1], F_DUPFD_CLOEXEC, 900);
    assert_true(high >= 900);
    int fd = cay_low_fds_take(&low, high);
    assert_in_range(fd, 3, low.end - 1);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(write(fd, "x", 1), 1);
    cay_low_fds_give(&low, fd);
    assert_int_equal(write(fd, "x", 1), -1);
    assert_int_equal(errno, EBADF);
    /* It keeps nothing open: whoever reads sees the end. */
    char byte[2];
    close(cay_take_fd(high));
    close(ends[1]);
    assert_int_equal(read(ends[0], byte, 2), 1);
    assert_int_equal(read(ends[0], byte, 2), 0);
}

static void a_descriptor_that_is_none_takes_no_number(void **)
{
    for (int i = 0; i < 2 * CAY_LOW_FDS; i++)
        assert_int_equal(cay_low_fds_take(&low, 999), -EBADF);
    int fd = cay_low_fds_take(&low, ends[1]);
    assert_true(fd >= 0);
    cay_low_fds_give(&low, fd);
}

static void *take_often(void *)
{
    for (int i = 0; i < 200; i++) {
        int fd = cay_low_fds_take(&low, ends[1]);
        if (fd < 0 || write(fd, "x", 1) != 1)
            return &low;
        cay_low_fds_give(&low, fd);
    }
    return NULL;
}

static void whoever_finds_none_waits(void **)
{
    pthread_t threads[3 * CAY_LOW_FDS];
    for (size_t i = 0; i < CAY_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_often, NULL), 0);
    for (size_t i = 0; i < CAY_COUNT(threads); i++) {
        void *failed = NULL;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
}

static void without_room_nothing_is_kept(void **)
{
    struct cay_low_fds other;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    cay_autoclose int next = dup(0);
    struct rlimit less = {.rlim_cur = (rlim_t)next + 3, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
    int result = cay_low_fds_open(&other, ends[0]);
    int after = dup(0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    close(after);
    assert_int_equal(result, -EMFILE);
    assert_int_equal(after, next + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_high_descriptor_gets_a_low_number_for_a_while, up, down),
        cmocka_unit_test_setup_teardown(a_descriptor_that_is_none_takes_no_number, up, down),
        cmocka_unit_test_setup_teardown(whoever_finds_none_waits, up, down),
        cmocka_unit_test_setup_teardown(without_room_nothing_is_kept, up, down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
