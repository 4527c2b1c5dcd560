/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that tell how large the machine is, answered by its part that the sandbox may have.
 * The filter hands them to us and the caller waits; where we have nothing better to say, the kernel
 * goes on with the call as if we were not there. A caller can do no harm by what it passes: all
 * that is written goes into its own memory, by the rights that init has over commands.
 */
#include <errno.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <time.h>

#include "init/init.h"
#include "sys/raw.h"

/* The kernel's structs may grow; it then takes the larger ones from here. */
union request {
    struct seccomp_notif notif;
    char room[256];
};

union response {
    struct seccomp_notif_resp resp;
    char room[256];
};

/* Still the same caller, and not another one by its number? Then its memory gets the bytes. */
static bool give(const struct init *init, const struct seccomp_notif *notif, uint64_t address,
                 const void *data, size_t len)
{
    uint64_t id = notif->id;
    struct iovec from = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
    struct iovec to = {.iov_base = (void *)(uintptr_t)address, .iov_len = len};
    return ioctl(init->told_fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0 &&
           process_vm_writev((pid_t)notif->pid, &from, 1, &to, 1, 0) == (ssize_t)len;
}

/* The first processors of those that the process may run on, as many as its sandbox may use. */
static bool answer_affinity(const struct init *init, const struct seccomp_notif *notif,
                            int64_t *out_value)
{
    static uint64_t mask[CAY_SECCOMP_AFFINITY_BYTES / sizeof(uint64_t)];
    pid_t pid = notif->data.args[0] ? (pid_t)notif->data.args[0] : (pid_t)notif->pid;
    uint64_t size = notif->data.args[1];
    uint32_t left = view_limits(&init->view).cpus;
    long len = cay_raw3(SYS_sched_getaffinity, pid, sizeof(mask), mask);
    uint64_t words = (uint64_t)CAY_MAX(len, 0) / sizeof(mask[0]);
    bool is_odd = !words || !size || size % sizeof(mask[0]);
    for (uint64_t i = size / sizeof(mask[0]); i < words; i++)
        is_odd = is_odd || mask[i];
    if (is_odd)
        return false; /* the kernel says what is wrong */
    words = CAY_MIN(words, size / sizeof(mask[0]));
    for (uint64_t i = 0; i < words; i++) {
        uint64_t kept = 0;
        for (; mask[i] && left; left--) {
            kept |= mask[i] & -mask[i];
            mask[i] &= mask[i] - 1;
        }
        mask[i] = kept;
    }
    *out_value = (int64_t)(words * sizeof(mask[0]));
    return give(init, notif, notif->data.args[2], mask, words * sizeof(mask[0]));
}

static bool answer_sysinfo(const struct init *init, const struct seccomp_notif *notif,
                           int64_t *out_value)
{
    struct view_limits limits = view_limits(&init->view);
    if (!limits.memory_bytes)
        return false;
    struct view_memory memory = view_memory(&init->view);
    struct timespec since;
    clock_gettime(CLOCK_BOOTTIME, &since);
    struct sysinfo info = {
        .uptime = (unsigned long)since.tv_sec,
        .totalram = limits.memory_bytes,
        .freeram = limits.memory_bytes - CAY_MIN(memory.used_bytes, limits.memory_bytes),
        .sharedram = memory.shared_bytes,
        .procs = (unsigned short)(init->calls_used + 1),
        .mem_unit = 1,
    };
    for (size_t i = 0; i < CAY_COUNT(init->view.load); i++)
        info.loads[i] = init->view.load[i] << (SI_LOAD_SHIFT - LOAD_SHIFT);
    *out_value = 0;
    /* The C library's struct has room for more than the kernel ever wrote. */
    return give(init, notif, notif->data.args[0], &info,
                offsetof(struct sysinfo, mem_unit) + sizeof(info.mem_unit));
}

void answer_told(struct init *init)
{
    union request request = {};
    union response response = {};
    int64_t value = 0;
    if (ioctl(init->told_fd, SECCOMP_IOCTL_NOTIF_RECV, &request) < 0)
        return; /* it was interrupted, or is dead */
    const struct seccomp_notif *notif = &request.notif;
    init_wakes(init);
    bool is_answered = notif->data.nr == SYS_sysinfo ? answer_sysinfo(init, notif, &value)
                                                     : answer_affinity(init, notif, &value);
    response.resp.id = notif->id;
    response.resp.val = is_answered ? value : 0;
    response.resp.flags = is_answered ? 0 : SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    (void)ioctl(init->told_fd, SECCOMP_IOCTL_NOTIF_SEND, &response);
}
