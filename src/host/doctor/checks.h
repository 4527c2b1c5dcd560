/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The checks, a function per thing. Each says what it found, with the fix when something is wrong.
 * Room-private. */

#include "base/buf.h"
#include "host/net/filter/filter.h"

enum cay_verdict {
    CAY_VERDICT_OK = 1,
    CAY_VERDICT_WARN, /* works, but less well */
    CAY_VERDICT_FAIL, /* sandboxes cannot work */
};

struct cay_doctor {
    struct cay_buf *out;
    const char *data_dir;
    const char *init_path;
    const char *runsc; /* and how it runs commands; NULL or empty: not set */
    const char *runsc_platform;
    bool needs_gvisor;
    enum cay_filter_way network_steering;
    bool is_root;
    bool has_failed;
};

CAY_PRINTF(5, 6)
void cay_doctor_say(struct cay_doctor *doctor, const char *name, enum cay_verdict verdict,
                    const char *fix, const char *fmt, ...);

/* kernel.c */
void cay_doctor_check_kernel(struct cay_doctor *doctor);
void cay_doctor_check_chroot(struct cay_doctor *doctor);
void cay_doctor_check_userns(struct cay_doctor *doctor);
void cay_doctor_check_namespaces(struct cay_doctor *doctor);
void cay_doctor_check_seccomp(struct cay_doctor *doctor);
void cay_doctor_check_openat2(struct cay_doctor *doctor);
void cay_doctor_check_clone3(struct cay_doctor *doctor);

/* machine.c */
void cay_doctor_check_store(struct cay_doctor *doctor);
void cay_doctor_check_cgroups(struct cay_doctor *doctor);
void cay_doctor_check_disk(struct cay_doctor *doctor);
void cay_doctor_check_pool(struct cay_doctor *doctor);
void cay_doctor_check_base(struct cay_doctor *doctor);
void cay_doctor_check_init(struct cay_doctor *doctor);
void cay_doctor_check_descriptors(struct cay_doctor *doctor);
void cay_doctor_check_network(struct cay_doctor *doctor);
void cay_doctor_check_debootstrap(struct cay_doctor *doctor);

/* gvisor.c */
void cay_doctor_check_gvisor(struct cay_doctor *doctor);
