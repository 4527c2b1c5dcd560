/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands/doctor.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/cay_v1.h"
#include "base/json.h"
#include "cli/values.h"

enum {
    DAEMON_TIMEOUT_MS = 1000,
    LISTING_BYTES_MAX = 256 * 1024,
};

void cay_doctor_say(struct cay_doctor *doctor, const char *name, enum cay_verdict verdict,
                    const char *fix, const char *fmt, ...)
{
    assert(doctor->count < CAY_FINDINGS_MAX);
    struct cay_finding *finding = &doctor->findings[doctor->count++];
    va_list args;
    va_start(args, fmt);
    vsnprintf(finding->text, sizeof(finding->text), fmt, args);
    va_end(args);
    finding->name = name;
    finding->verdict = verdict;
    snprintf(finding->fix, sizeof(finding->fix), "%s", fix ? fix : "");
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

static void check_daemon(struct cay_doctor *doctor)
{
    struct cay_cli *cli = doctor->cli;
    struct cay_v1_health_check_request request = {};
    struct cay_v1_health_check_response response = {};
    struct cay_error err = {};
    if (!cli->has_timeout) {
        cli->has_timeout = true;
        cli->timeout_ms = DAEMON_TIMEOUT_MS;
    }
    if (cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_HEALTH_CHECK, &request, &response, &err)) {
        cay_doctor_say(doctor, "daemon", CAY_VERDICT_OK, NULL, "cayd answers at %s",
                       cay_cli_url(cli));
        for (size_t i = 0; i < response.problems.count && doctor->count < CAY_FINDINGS_MAX; i++) {
            struct cay_str message = response.problems.items[i].message;
            cay_doctor_say(doctor, "daemon", CAY_VERDICT_WARN, NULL, "%.*s", (int)message.len,
                           message.len ? message.ptr : "");
        }
    } else
        cay_doctor_say(doctor, "daemon", CAY_VERDICT_WARN, err.text, "no cayd answers at %s",
                       cay_cli_url(cli));
}

static const char *verdict_name(enum cay_verdict verdict)
{
    switch (verdict) {
    case CAY_VERDICT_OK: return "ok";
    case CAY_VERDICT_WARN: return "warn";
    case CAY_VERDICT_FAIL: return "fail";
    }
    return "";
}

static void print_findings(struct cay_output *out, const struct cay_doctor *doctor)
{
    static const enum cay_style styles[] = {
        [CAY_VERDICT_OK] = CAY_STYLE_GOOD,
        [CAY_VERDICT_WARN] = CAY_STYLE_WARN,
        [CAY_VERDICT_FAIL] = CAY_STYLE_BAD,
    };
    size_t counts[CAY_VERDICT_FAIL + 1] = {};
    for (size_t i = 0; i < doctor->count; i++) {
        const struct cay_finding *finding = &doctor->findings[i];
        counts[finding->verdict]++;
        cay_output_text(out, styles[finding->verdict], cay_str(verdict_name(finding->verdict)));
        cay_output_printf(out, "%*s%-12s ", (int)(6 - strlen(verdict_name(finding->verdict))), "",
                          finding->name);
        cay_output_text(out, CAY_STYLE_PLAIN, cay_str(finding->text));
        cay_output_printf(out, "\n");
        if (*finding->fix) {
            cay_output_printf(out, "%*s", 6 + 12 + 1, "");
            cay_output_text(out, CAY_STYLE_BOLD, cay_str(finding->fix));
            cay_output_printf(out, "\n");
        }
    }
    if (counts[CAY_VERDICT_FAIL])
        cay_output_printf(out, "\nSandboxes cannot work here until what failed is mended.\n");
    else if (counts[CAY_VERDICT_WARN])
        cay_output_printf(out, "\nSandboxes can work here.\n");
    else
        cay_output_printf(out, "\nAll is well.\n");
}

static void print_json(struct cay_output *out, const struct cay_doctor *doctor, bool is_ok)
{
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_buf_init(&buf, LISTING_BYTES_MAX);
    struct cay_json_writer json = {.buf = &buf};
    cay_json_object_begin(&json);
    cay_json_key(&json, "ok");
    cay_json_bool(&json, is_ok);
    cay_json_key(&json, "checks");
    cay_json_array_begin(&json);
    for (size_t i = 0; i < doctor->count; i++) {
        const struct cay_finding *finding = &doctor->findings[i];
        cay_json_object_begin(&json);
        cay_json_key(&json, "name");
        cay_json_text(&json, finding->name);
        cay_json_key(&json, "verdict");
        cay_json_text(&json, verdict_name(finding->verdict));
        cay_json_key(&json, "text");
        cay_json_text(&json, finding->text);
        if (*finding->fix) {
            cay_json_key(&json, "fix");
            cay_json_text(&json, finding->fix);
        }
        cay_json_object_end(&json);
    }
    cay_json_array_end(&json);
    cay_json_object_end(&json);
    cay_output_json(out, cay_buf_str(&buf));
}

static bool run_doctor(struct cay_cli *cli, struct cay_error *)
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
        check_daemon,
    };
    struct cay_doctor doctor = {.cli = cli, .data_dir = cay_args_text(&cli->args, "data")};
    if (!doctor.data_dir)
        doctor.data_dir = getenv("CAY_DATA");
    if (!doctor.data_dir || !*doctor.data_dir)
        doctor.data_dir = "/var/lib/cay";
    bool is_ok = true;
    for (size_t i = 0; i < CAY_COUNT(checks); i++)
        checks[i](&doctor);
    for (size_t i = 0; i < doctor.count; i++)
        is_ok = is_ok && doctor.findings[i].verdict != CAY_VERDICT_FAIL;
    cli->exit_status = is_ok ? 0 : CAY_EXIT_UNHEALTHY;
    if (cli->out.is_json)
        print_json(&cli->out, &doctor, is_ok);
    else
        print_findings(&cli->out, &doctor);
    return true;
}

static const struct cay_flag doctor_flags[] = {
    {.name = "data", .value = "DIR", .help = "the daemon's data directory; /var/lib/cay otherwise"},
    {},
};

const struct cay_command cay_command_doctor = {
    .name = "doctor",
    .arguments = "",
    .summary = "Check whether sandboxes can work on this machine",
    .details =
        "The check looks at the kernel, control groups, disk and files, and says how to mend\n"
        "what is wrong. It needs no daemon, but says whether one answers; it needs root to\n"
        "try mounts. The exit status is 1 when something failed.",
    .flags = doctor_flags,
    .group = CAY_GROUP_HOST,
    .run = run_doctor,
};
