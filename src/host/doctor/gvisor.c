/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "host/doctor/checks.h"
#include "sys/run.h"

enum { RUN_MS = 5000, OUTPUT_BYTES = 65536 };

/* What it prints, or NULL. */
static const char *ask(const char *runsc, const char *word, struct cay_buf *out)
{
    const char *const argv[] = {runsc, word, NULL};
    cay_buf_init(out, OUTPUT_BYTES);
    int status = cay_run(&(struct cay_program){.argv = argv, .timeout_ms = RUN_MS, .out = out});
    cay_buf_append_byte(out, 0);
    return status < 0 || out->failed ? NULL : out->data;
}

/* Of "… version 20221219.0", up to the end of the line. */
static struct cay_str version_in(const char *text)
{
    static const char word[] = "version ";
    const char *at = text ? strstr(text, word) : NULL;
    return at ? (struct cay_str){at + sizeof(word) - 1, strcspn(at + sizeof(word) - 1, "\n")}
              : CAY_STR("of an unknown version");
}

/* The one that it takes unless told otherwise, by its own list of flags. */
static struct cay_str platform_in(const char *text)
{
    const char *flag = text ? strstr(text, "-platform string") : NULL;
    const char *at = flag ? strstr(flag, "(default \"") : NULL;
    if (!at)
        return CAY_STR("its own choice");
    at += sizeof("(default \"") - 1;
    return (struct cay_str){at, strcspn(at, "\"\n")};
}

static const char *weakness_of(struct cay_str platform)
{
    if (cay_str_is(platform, "ptrace"))
        return "every system call inside costs some 25 us";
    if (cay_str_is(platform, "kvm"))
        return "the sandbox may use /dev/kvm";
    if (cay_str_is(platform, "systrap"))
        return "commands and gVisor share memory in which it leaves its stubs";
    return "not known to us in detail";
}

/* What the version of Debian 12 lacks, seen by trying; of others it is not known. */
static const char *gaps_of(struct cay_str version)
{
    enum { LAST = 20221219 };
    struct cay_str name = {};
    struct cay_str rest = version;
    uint64_t date = 0;
    while (cay_str_split(&rest, '.', &name)) {
        /* 0.0~20221219.0 or release-20221219.0 */
        size_t len = CAY_MIN(name.len, (size_t)8);
        struct cay_str last = {name.ptr + name.len - len, len};
        if (len == 8 && cay_str_to_u64(last, UINT32_MAX, &date) == 0 && date <= LAST)
            return "; too old for sudo, and for ls of Debian 12 (docs/gvisor.md)";
    }
    return "";
}

/* Missing, it is a fault only where it is asked for. */
void cay_doctor_check_gvisor(struct cay_doctor *doctor)
{
    char path[256];
    const char *wanted = doctor->runsc && doctor->runsc[0] ? doctor->runsc : "runsc";
    if (cay_run_find(wanted, path, sizeof(path)) < 0 || access(path, X_OK) < 0) {
        cay_doctor_say(doctor, "gvisor", doctor->needs_gvisor ? CAY_VERDICT_FAIL : CAY_VERDICT_OK,
                       doctor->needs_gvisor ? "install the package runsc, or name the program with "
                                              "'runsc' in the configuration"
                                            : NULL,
                       "%.100s is not there: no session can have a kernel of its own", wanted);
        return;
    }
    cay_auto(cay_buf_finish) struct cay_buf version_text;
    cay_auto(cay_buf_finish) struct cay_buf flags_text;
    struct cay_str version = version_in(ask(path, "--version", &version_text));
    struct cay_str platform = platform_in(ask(path, "flags", &flags_text));
    if (doctor->runsc_platform && doctor->runsc_platform[0])
        platform = cay_str(doctor->runsc_platform);
    cay_doctor_say(doctor, "gvisor", CAY_VERDICT_OK, NULL,
                   "%.80s %.*s by %.*s: %s; memory that runs out ends a whole sandbox, and only "
                   "single commands are limited in processes%s",
                   path, (int)CAY_MIN(version.len, (size_t)30), version.ptr,
                   (int)CAY_MIN(platform.len, (size_t)20), platform.ptr, weakness_of(platform),
                   gaps_of(version));
}
