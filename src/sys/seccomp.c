/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/socket.h>

#include "sys/raw.h"

/* Numbers newer than the headers we may be built with; they are the same on every processor. */
#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_map_shadow_stack
#define SYS_map_shadow_stack 453
#endif
#ifndef SYS_futex_wake
#define SYS_futex_wake 454
#endif
#ifndef SYS_futex_wait
#define SYS_futex_wait 455
#endif
#ifndef SYS_futex_requeue
#define SYS_futex_requeue 456
#endif
#ifndef SYS_mseal
#define SYS_mseal 462
#endif
#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#ifndef SYS_process_mrelease
#define SYS_process_mrelease 448
#endif

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#endif

/* DENY is 0: what the table does not name. */
enum verdict {
    DENY,
    ALLOW,
    ABSENT,
    CHECK_PERSONALITY,
    CHECK_SOCKET_FAMILY,
    CHECK_IOCTL_REQUEST,
    CHECK_AFFINITY,
    FAMILY_REFUSED,
    TELL,
    NESTED,
    VERDICTS,
};

enum {
    NUMBERS = SYS_mseal + 1, /* numbers from here on are absent */
    NAMESPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                 CLONE_NEWPID | CLONE_NEWNET,
    NEWTIME = 0x80, /* CLONE_NEWTIME; in clone() these bits are the exit signal */
    /* PER_LINUX32 and UNAME26 are what setarch needs; the rest weakens the address space. */
    PERSONALITY_LINUX32 = 0x0008,
    PERSONALITY_UNAME26 = 0x0020000,
    TERMINAL_INPUT = 0x5412,   /* TIOCSTI */
    TERMINAL_CONSOLE = 0x541C, /* TIOCLINUX */
};

static const unsigned char verdicts[NUMBERS] = {
#define CAY_ALLOW(name)        [SYS_##name] = ALLOW,
#define CAY_ABSENT(name)       [SYS_##name] = ABSENT,
#define CAY_CHECK(name, check) [SYS_##name] = CHECK_##check,
#define CAY_GATED(name)        [SYS_##name] = ALLOW,
#define CAY_TOLD(name)         [SYS_##name] = TELL,
#define CAY_NESTED(name)       [SYS_##name] = NESTED,
#include "sys/syscalls.def"
#undef CAY_ALLOW
#undef CAY_ABSENT
#undef CAY_CHECK
#undef CAY_GATED
#undef CAY_TOLD
#undef CAY_NESTED
};

struct range {
    uint32_t from;
    unsigned char verdict;
};

/* Conditional jumps reach 255 instructions ahead. While the tree is written, the places it jumps to
 * for a verdict are not known: they are kept beside the program and filled in at the end. */
struct builder {
    struct cay_seccomp *filter;
    unsigned char true_verdict[CAY_SECCOMP_PROGRAM_MAX]; /* VERDICTS: the offset stands */
    unsigned char false_verdict[CAY_SECCOMP_PROGRAM_MAX];
    unsigned char at[VERDICTS]; /* first instruction of a verdict, 0: not written yet */
    bool failed;
};

static unsigned emit(struct builder *builder, struct sock_filter instruction)
{
    if (builder->filter->len >= CAY_SECCOMP_PROGRAM_MAX) {
        builder->failed = true;
        return 0;
    }
    unsigned at = builder->filter->len++;
    builder->filter->program[at] = instruction;
    builder->true_verdict[at] = VERDICTS;
    builder->false_verdict[at] = VERDICTS;
    return at;
}

static void emit_jump(struct builder *builder, unsigned short test, uint32_t value,
                      enum verdict if_true, enum verdict if_false)
{
    unsigned at = emit(builder, (struct sock_filter)BPF_JUMP(BPF_JMP | test | BPF_K, value, 0, 0));
    builder->true_verdict[at] = (unsigned char)if_true;
    builder->false_verdict[at] = (unsigned char)if_false;
}

static void emit_load(struct builder *builder, size_t offset)
{
    emit(builder, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static void emit_load_arg(struct builder *builder, unsigned index)
{
    /* The low half: both processors are little-endian and the values fit. */
    emit_load(builder, offsetof(struct seccomp_data, args) + index * sizeof(uint64_t));
}

/* Searches ranges [first, last]: one comparison halves them. A side with a single range jumps
 * straight to its verdict. */
static void emit_tree(struct builder *builder, const struct range *ranges, unsigned first,
                      unsigned last)
{
    if (first == last || builder->failed)
        return;
    unsigned middle = first + (last - first + 1) / 2;
    unsigned at = emit(builder, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K,
                                                             ranges[middle].from, 0, 0));
    if (first == middle - 1)
        builder->false_verdict[at] = ranges[first].verdict;
    else
        emit_tree(builder, ranges, first, middle - 1);
    if (middle == last) {
        builder->true_verdict[at] = ranges[last].verdict;
    } else {
        unsigned distance = builder->filter->len - at - 1;
        builder->failed = builder->failed || distance > UINT8_MAX;
        builder->filter->program[at].jt = (unsigned char)distance;
        emit_tree(builder, ranges, middle, last);
    }
}

static void begin(struct builder *builder, enum verdict verdict)
{
    builder->at[verdict] = (unsigned char)builder->filter->len;
}

static void emit_checks(struct builder *builder)
{
    begin(builder, CHECK_PERSONALITY);
    emit_load_arg(builder, 0);
    emit_jump(builder, BPF_JEQ, 0, ALLOW, VERDICTS);
    emit_jump(builder, BPF_JEQ, PERSONALITY_LINUX32, ALLOW, VERDICTS);
    emit_jump(builder, BPF_JEQ, PERSONALITY_UNAME26, ALLOW, VERDICTS);
    emit_jump(builder, BPF_JEQ, UINT32_MAX, ALLOW, DENY);

    begin(builder, CHECK_SOCKET_FAMILY);
    emit_load_arg(builder, 0);
    emit_jump(builder, BPF_JEQ, AF_UNIX, ALLOW, VERDICTS);
    emit_jump(builder, BPF_JEQ, AF_INET, ALLOW, VERDICTS);
    emit_jump(builder, BPF_JEQ, AF_INET6, ALLOW, VERDICTS);
    emit_jump(builder, BPF_JEQ, AF_NETLINK, VERDICTS, FAMILY_REFUSED);
    emit_load_arg(builder, 2);
    emit_jump(builder, BPF_JEQ, 0, ALLOW, FAMILY_REFUSED); /* NETLINK_ROUTE */

    begin(builder, CHECK_IOCTL_REQUEST);
    emit_load_arg(builder, 1);
    emit_jump(builder, BPF_JEQ, TERMINAL_INPUT, DENY, VERDICTS);
    emit_jump(builder, BPF_JEQ, TERMINAL_CONSOLE, DENY, ALLOW);

    begin(builder, CHECK_AFFINITY);
    emit_load_arg(builder, 1);
    emit_jump(builder, BPF_JEQ, CAY_SECCOMP_AFFINITY_BYTES, ALLOW, TELL);
}

static void emit_returns(struct builder *builder)
{
    static const struct {
        enum verdict verdict;
        uint32_t action;
    } returns[] = {
        {ALLOW, SECCOMP_RET_ALLOW},           {DENY, SECCOMP_RET_ERRNO | EPERM},
        {ABSENT, SECCOMP_RET_ERRNO | ENOSYS}, {FAMILY_REFUSED, SECCOMP_RET_ERRNO | EAFNOSUPPORT},
        {TELL, SECCOMP_RET_USER_NOTIF},
    };
    for (size_t i = 0; i < CAY_COUNT(returns); i++) {
        begin(builder, returns[i].verdict);
        emit(builder, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, returns[i].action));
    }
}

static void link_verdicts(struct builder *builder)
{
    for (unsigned i = 0; i < builder->filter->len; i++) {
        struct sock_filter *instruction = &builder->filter->program[i];
        if (builder->true_verdict[i] != VERDICTS)
            instruction->jt = (unsigned char)(builder->at[builder->true_verdict[i]] - i - 1);
        if (builder->false_verdict[i] != VERDICTS)
            instruction->jf = (unsigned char)(builder->at[builder->false_verdict[i]] - i - 1);
    }
}

static unsigned char verdict_of(uint32_t number, unsigned flags)
{
    unsigned char verdict = number < NUMBERS ? verdicts[number] : ABSENT;
    if (verdict == NESTED)
        return flags & CAY_SECCOMP_NESTING ? ALLOW : DENY;
    bool is_told = verdict == TELL || verdict == CHECK_AFFINITY;
    return is_told && !(flags & CAY_SECCOMP_LISTENS) ? ALLOW : verdict;
}

int cay_seccomp_build(struct cay_seccomp *out_filter, unsigned flags)
{
    struct range ranges[CAY_SECCOMP_PROGRAM_MAX];
    unsigned count = 0;
    for (uint32_t number = 0; number <= NUMBERS; number++) {
        unsigned char verdict = verdict_of(number, flags);
        if (count && ranges[count - 1].verdict == verdict)
            continue;
        if (count == CAY_COUNT(ranges))
            return -E2BIG;
        ranges[count++] = (struct range){number, verdict};
    }
    *out_filter = (struct cay_seccomp){};
    struct builder builder = {.filter = out_filter};
    emit_load(&builder, offsetof(struct seccomp_data, arch));
    emit(&builder, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0));
    emit(&builder, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
    emit_load(&builder, offsetof(struct seccomp_data, nr));
    emit_tree(&builder, ranges, 0, count - 1);
    emit_checks(&builder);
    emit_returns(&builder);
    if (builder.failed)
        return -E2BIG;
    link_verdicts(&builder);
    return 0;
}

void cay_seccomp_build_gate(struct cay_seccomp *out_filter)
{
    enum { LOAD_FIRST = BPF_LD | BPF_W | BPF_ABS, FIRST = offsetof(struct seccomp_data, args) };
    enum { EQUAL = BPF_JMP | BPF_JEQ | BPF_K, ANY_BIT = BPF_JMP | BPF_JSET | BPF_K };
    static const struct sock_filter program[] = {
        BPF_STMT(LOAD_FIRST, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(EQUAL, SYS_clone, 4, 0),
        BPF_JUMP(EQUAL, SYS_clone3, 9, 0),
        BPF_JUMP(EQUAL, SYS_setns, 7, 0),
        BPF_JUMP(EQUAL, SYS_unshare, 3, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(LOAD_FIRST, FIRST), /* clone */
        BPF_JUMP(ANY_BIT, NAMESPACES, 3, 2),
        BPF_STMT(LOAD_FIRST, FIRST), /* unshare */
        BPF_JUMP(ANY_BIT, NAMESPACES | NEWTIME, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        /* So that the C library falls back to clone. */
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
    };
    *out_filter = (struct cay_seccomp){.len = CAY_COUNT(program)};
    memcpy(out_filter->program, program, sizeof(program));
}

void cay_seccomp_build_guard(struct cay_seccomp *out_filter)
{
    enum { LOAD = BPF_LD | BPF_W | BPF_ABS, ARGS = offsetof(struct seccomp_data, args) };
    enum { EQUAL = BPF_JMP | BPF_JEQ | BPF_K, AT_LEAST = BPF_JMP | BPF_JGE | BPF_K };
    static const struct sock_filter program[] = {
        BPF_STMT(LOAD, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(EQUAL, SYS_kill, 8, 0),
        BPF_JUMP(EQUAL, SYS_tkill, 7, 0),
        BPF_JUMP(EQUAL, SYS_tgkill, 6, 0),
        BPF_JUMP(EQUAL, SYS_rt_sigqueueinfo, 5, 0),
        BPF_JUMP(EQUAL, SYS_rt_tgsigqueueinfo, 4, 0),
        BPF_JUMP(EQUAL, SYS_sched_setaffinity, 3, 0),
        BPF_JUMP(EQUAL, SYS_prlimit64, 2, 0),
        BPF_JUMP(EQUAL, SYS_setpriority, 4, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(LOAD, ARGS),
        BPF_JUMP(EQUAL, 1, 5, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(LOAD, ARGS + sizeof(uint64_t)), /* setpriority */
        BPF_JUMP(EQUAL, 1, 2, 0),
        BPF_STMT(LOAD, ARGS + 2 * sizeof(uint64_t)),
        BPF_JUMP(AT_LEAST, INT32_MAX + 1U, 0, 1), /* below zero */
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    *out_filter = (struct cay_seccomp){.len = CAY_COUNT(program)};
    memcpy(out_filter->program, program, sizeof(program));
}

static int load(const struct cay_seccomp *filter, unsigned flags)
{
    struct sock_fprog program = {.len = filter->len,
                                 .filter = (struct sock_filter *)(uintptr_t)filter->program};
    return (int)cay_raw3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

int cay_seccomp_load(const struct cay_seccomp *filter)
{
    return load(filter, 0);
}

int cay_seccomp_load_listening(const struct cay_seccomp *filter)
{
    return load(filter, SECCOMP_FILTER_FLAG_NEW_LISTENER); /* close-on-exec by itself */
}
