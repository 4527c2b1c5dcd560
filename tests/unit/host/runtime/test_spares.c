/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/runtime/spares.h"

static void need_root(void)
{
    if (geteuid() != 0) {
        print_message("skipped: making network namespaces needs root\n");
        skip();
    }
}

static ino_t namespace_of_this_thread(void)
{
    struct stat st;
    assert_int_equal(stat("/proc/thread-self/ns/net", &st), 0);
    return st.st_ino;
}

static void every_spare_is_a_namespace_of_its_own(void **)
{
    need_root();
    struct cay_spares spares;
    ino_t seen[CAY_SPARES_MAX + 1] = {namespace_of_this_thread()};
    cay_spares_init(&spares);
    cay_spares_fill(&spares);
    assert_int_equal(namespace_of_this_thread(), seen[0]);
    for (size_t i = 1; i <= CAY_SPARES_MAX; i++) {
        struct stat st;
        cay_autoclose int fd = cay_spares_take(&spares);
        assert_true(fd >= 0);
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        assert_int_equal(fstat(fd, &st), 0);
        for (size_t before = 0; before < i; before++)
            assert_true(st.st_ino != seen[before]);
        seen[i] = st.st_ino;
    }
    assert_int_equal(cay_spares_take(&spares), -1);
    cay_spares_finish(&spares);
}

static void a_spare_has_a_loopback_that_is_up(void **)
{
    need_root();
    struct cay_spares spares;
    cay_spares_init(&spares);
    cay_spares_fill(&spares);
    cay_autoclose int fd = cay_spares_take(&spares);
    assert_true(fd >= 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct ifreq request = {.ifr_name = "lo"};
        int probe = setns(fd, CLONE_NEWNET) == 0 ? socket(AF_INET, SOCK_DGRAM, 0) : -1;
        _exit(ioctl(probe, SIOCGIFFLAGS, &request) == 0 && request.ifr_flags & IFF_UP ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    cay_spares_finish(&spares);
}

static void filling_again_makes_only_what_is_missing(void **)
{
    need_root();
    struct cay_spares spares;
    cay_spares_init(&spares);
    cay_spares_fill(&spares);
    cay_autoclose int taken = cay_spares_take(&spares);
    int kept = spares.fds[0];
    cay_spares_fill(&spares);
    assert_int_equal(spares.count, CAY_SPARES_MAX);
    assert_int_equal(spares.fds[0], kept);
    cay_spares_finish(&spares);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_spare_is_a_namespace_of_its_own),
        cmocka_unit_test(a_spare_has_a_loopback_that_is_up),
        cmocka_unit_test(filling_again_makes_only_what_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
