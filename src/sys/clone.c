/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/clone.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>

#include "sys/raw.h"

/* In the child the stack is new (or a copy), so nothing of the caller's frame may be used: the
 * function and its argument travel in registers that the kernel keeps. */
long cay_clone3_jump(struct clone_args *args, size_t size, int (*child)(void *), void *arg);
long cay_clone_jump(uint64_t flags, void *stack, int (*child)(void *), void *arg);

#if defined(__x86_64__)
__asm__(".text\n"
        ".type cay_clone3_jump, @function\n"
        ".globl cay_clone3_jump\n"
        ".hidden cay_clone3_jump\n"
        "cay_clone3_jump:\n"
        "    endbr64\n"
        "    mov %rcx, %r8\n"
        "    mov $435, %eax\n"
        "    syscall\n"
        "    test %rax, %rax\n"
        "    jz 1f\n"
        "    ret\n"
        "1:  xor %ebp, %ebp\n"
        "    and $-16, %rsp\n"
        "    mov %r8, %rdi\n"
        "    call *%rdx\n"
        "    mov %eax, %edi\n"
        "    mov $60, %eax\n"
        "    syscall\n"
        "    hlt\n"
        ".size cay_clone3_jump, . - cay_clone3_jump\n"
        ".type cay_clone_jump, @function\n"
        ".globl cay_clone_jump\n"
        ".hidden cay_clone_jump\n"
        "cay_clone_jump:\n"
        "    endbr64\n"
        "    mov %rdx, %r9\n"
        "    mov %rcx, %rdx\n"
        "    xor %r10d, %r10d\n"
        "    xor %r8d, %r8d\n"
        "    mov $56, %eax\n"
        "    syscall\n"
        "    test %rax, %rax\n"
        "    jz 1f\n"
        "    ret\n"
        "1:  xor %ebp, %ebp\n"
        "    and $-16, %rsp\n"
        "    mov %rdx, %rdi\n"
        "    call *%r9\n"
        "    mov %eax, %edi\n"
        "    mov $60, %eax\n"
        "    syscall\n"
        "    hlt\n"
        ".size cay_clone_jump, . - cay_clone_jump\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".type cay_clone3_jump, @function\n"
        ".globl cay_clone3_jump\n"
        ".hidden cay_clone3_jump\n"
        "cay_clone3_jump:\n"
        "    bti c\n"
        "    mov x8, #435\n"
        "    svc 0\n"
        "    cbz x0, 1f\n"
        "    ret\n"
        "1:  mov x29, #0\n"
        "    mov x0, x3\n"
        "    blr x2\n"
        "    mov x8, #93\n"
        "    svc 0\n"
        "    brk #1\n"
        ".size cay_clone3_jump, . - cay_clone3_jump\n"
        ".type cay_clone_jump, @function\n"
        ".globl cay_clone_jump\n"
        ".hidden cay_clone_jump\n"
        "cay_clone_jump:\n"
        "    bti c\n"
        "    mov x9, x2\n"
        "    mov x10, x3\n"
        "    mov x2, #0\n"
        "    mov x3, #0\n"
        "    mov x4, #0\n"
        "    mov x8, #220\n"
        "    svc 0\n"
        "    cbz x0, 1f\n"
        "    ret\n"
        "1:  mov x29, #0\n"
        "    mov x0, x10\n"
        "    blr x9\n"
        "    mov x8, #93\n"
        "    svc 0\n"
        "    brk #1\n"
        ".size cay_clone_jump, . - cay_clone_jump\n");
#endif

pid_t cay_clone_call(const struct cay_clone *how, int (*child)(void *), void *arg)
{
    struct clone_args args = {
        .flags = how->flags,
        .exit_signal = (uint64_t)how->exit_signal,
    };
    if (how->flags & CLONE_VM) {
        if (!how->stack)
            return -EINVAL;
        args.stack = (uint64_t)(uintptr_t)how->stack;
        args.stack_size = CAY_CLONE_STACK_BYTES;
    }
    int pidfd = -1;
    if (how->out_pidfd) {
        args.flags |= CLONE_PIDFD;
        args.pidfd = (uint64_t)(uintptr_t)&pidfd;
    }
    if (how->cgroup_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)how->cgroup_fd;
    }
    /* gVisor has no clone3 yet; what only that can do is not asked for there. */
    static bool is_missing;
    long pid = -ENOSYS;
    if (!__atomic_load_n(&is_missing, __ATOMIC_RELAXED))
        pid = cay_clone3_jump(&args, sizeof(args), child, arg);
    if (pid == -ENOSYS)
        __atomic_store_n(&is_missing, true, __ATOMIC_RELAXED);
    if (pid == -ENOSYS && !how->out_pidfd && how->cgroup_fd < 0)
        pid = cay_clone_jump(how->flags | (uint64_t)how->exit_signal,
                             how->stack ? (char *)how->stack + CAY_CLONE_STACK_BYTES : NULL, child,
                             arg);
    if (pid > 0 && how->out_pidfd)
        *how->out_pidfd = pidfd;
    return (pid_t)pid;
}

void *cay_clone_stack_open(void)
{
    void *stack = mmap(NULL, CAY_CLONE_STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    return stack == MAP_FAILED ? NULL : stack;
}

void cay_clone_stack_close(void *stack)
{
    if (stack)
        munmap(stack, CAY_CLONE_STACK_BYTES);
}

pid_t cay_clone_shared(const struct cay_clone *how, int (*child)(void *), void *arg)
{
    struct cay_clone shared = *how;
    shared.flags |= CAY_CLONE_SHARED;
    shared.stack = cay_clone_stack_open();
    if (!shared.stack)
        return -ENOMEM;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = cay_clone_call(&shared, child, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    cay_clone_stack_close(shared.stack);
    return pid;
}
