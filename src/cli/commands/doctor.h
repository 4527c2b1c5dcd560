/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What `cay doctor` looks at, a function per thing. Each says what it found, with the fix when
 * something is wrong. None needs a daemon; what needs root is left out without. */

#include "cli/command.h"

enum cay_verdict {
    CAY_VERDICT_OK = 1,
    CAY_VERDICT_WARN, /* works, but less well */
    CAY_VERDICT_FAIL, /* sandboxes cannot work */
};

enum { CAY_FINDINGS_MAX = 32 };

struct cay_finding {
    const char *name;
    enum cay_verdict verdict;
    char text[256];
    char fix[300]; /* empty when there is nothing to mend */
};

struct cay_doctor {
    struct cay_cli *cli;
    const char *data_dir;
    bool is_root;
    struct cay_finding findings[CAY_FINDINGS_MAX];
    size_t count;
};

CAY_PRINTF(5, 6)
void cay_doctor_say(struct cay_doctor *doctor, const char *name, enum cay_verdict verdict,
                    const char *fix, const char *fmt, ...);

/* cay_doctor_kernel.c */
void cay_doctor_check_kernel(struct cay_doctor *doctor);
void cay_doctor_check_chroot(struct cay_doctor *doctor);
void cay_doctor_check_userns(struct cay_doctor *doctor);
void cay_doctor_check_namespaces(struct cay_doctor *doctor);
void cay_doctor_check_seccomp(struct cay_doctor *doctor);
void cay_doctor_check_openat2(struct cay_doctor *doctor);
void cay_doctor_check_clone3(struct cay_doctor *doctor);

/* cay_doctor_host.c */
void cay_doctor_check_store(struct cay_doctor *doctor);
void cay_doctor_check_cgroups(struct cay_doctor *doctor);
void cay_doctor_check_disk(struct cay_doctor *doctor);
void cay_doctor_check_pool(struct cay_doctor *doctor);
void cay_doctor_check_base(struct cay_doctor *doctor);
void cay_doctor_check_init(struct cay_doctor *doctor);
void cay_doctor_check_descriptors(struct cay_doctor *doctor);
void cay_doctor_check_network(struct cay_doctor *doctor);
void cay_doctor_check_debootstrap(struct cay_doctor *doctor);
