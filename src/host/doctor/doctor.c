/* SPDX-License-Identifier: Apache-2.0 */
#include "host/doctor/doctor.h"

#include <stdarg.h>
#include <unistd.h>

#include "host/doctor/checks.h"

/* A line is a finding and a tab parts its fields, whatever a name of a file contains. */
static void append_field(struct cay_buf *out, const char *text, char end)
{
    for (; *text; text++)
        cay_buf_append_byte(out, (unsigned char)*text < 0x20 ? 0x20 : (unsigned char)*text);
    cay_buf_append_byte(out, (unsigned char)end);
}

void cay_doctor_say(struct cay_doctor *doctor, const char *name, enum cay_verdict verdict,
                    const char *fix, const char *fmt, ...)
{
    static const char *const verdicts[] = {
        [CAY_VERDICT_OK] = "ok", [CAY_VERDICT_WARN] = "warn", [CAY_VERDICT_FAIL] = "fail"};
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    append_field(doctor->out, verdicts[verdict], '\t');
    append_field(doctor->out, name, '\t');
    append_field(doctor->out, text, '\t');
    append_field(doctor->out, fix ? fix : "", '\n');
    doctor->has_failed = doctor->has_failed || verdict == CAY_VERDICT_FAIL;
}

static void check_rights(struct cay_doctor *doctor)
{
    doctor->is_root = geteuid() == 0;
    if (doctor->is_root)
        cay_doctor_say(doctor, "rights", CAY_VERDICT_OK, NULL, "root");
    else
        cay_doctor_say(doctor, "rights", CAY_VERDICT_WARN,
                       "run 'sudo cay doctor' for the whole check; cayd itself needs root",
                       "not root: mounts and control groups cannot be tried");
}

bool cay_doctor_run(const struct cay_doctor_options *options, struct cay_buf *out)
{
    static void (*const checks[])(struct cay_doctor *) = {
        check_rights,
        cay_doctor_check_kernel,
        cay_doctor_check_chroot,
        cay_doctor_check_userns,
        cay_doctor_check_namespaces,
        cay_doctor_check_store,
        cay_doctor_check_cgroups,
        cay_doctor_check_seccomp,
        cay_doctor_check_openat2,
        cay_doctor_check_clone3,
        cay_doctor_check_disk,
        cay_doctor_check_pool,
        cay_doctor_check_base,
        cay_doctor_check_init,
        cay_doctor_check_descriptors,
        cay_doctor_check_network,
        cay_doctor_check_debootstrap,
        cay_doctor_check_gvisor,
    };
    struct cay_doctor doctor = {
        .out = out,
        .data_dir = options->data_dir,
        .init_path = options->init_path,
        .runsc = options->runsc,
        .runsc_platform = options->runsc_platform,
        .needs_gvisor = options->needs_gvisor,
        .network_steering = options->network_steering,
    };
    for (size_t i = 0; i < CAY_COUNT(checks); i++)
        checks[i](&doctor);
    return !doctor.has_failed;
}
