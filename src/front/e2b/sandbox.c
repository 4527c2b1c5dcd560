/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/sandbox.h"

#include <sys/sysinfo.h>
#include <unistd.h>

#include "api/noun.h"
#include "wire/e2b/target.h"

struct cay_str cay_e2b_label(const struct cay_v1_session *session, const char *key)
{
    for (size_t i = 0; i < session->labels.count; i++) {
        if (cay_str_is(session->labels.items[i].key, key))
            return session->labels.items[i].value;
    }
    return (struct cay_str){};
}

bool cay_e2b_is_own_label(struct cay_str key)
{
    return cay_str_starts(key, CAY_E2B_LABEL) || cay_str_is(key, CAY_LABEL_HIDDEN);
}

bool cay_e2b_is_sandbox(const struct cay_v1_session *session)
{
    return cay_e2b_id_valid(session->id) &&
           !cay_str_is(cay_e2b_label(session, CAY_LABEL_HIDDEN), CAY_E2B_SNAPSHOT);
}

int64_t cay_e2b_cpu_count(const struct cay_v1_session *session)
{
    const struct cay_v1_resource_limits *limits = session->limits;
    int64_t cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (!limits || !limits->has_cpus)
        return cores;
    int64_t whole = (int64_t)limits->cpus;
    return CAY_MIN(cores, (double)whole < limits->cpus ? whole + 1 : whole);
}

int64_t cay_e2b_memory_bytes(const struct cay_v1_session *session)
{
    struct sysinfo info = {};
    if (session->limits && session->limits->has_memory_bytes)
        return session->limits->memory_bytes;
    (void)sysinfo(&info);
    return (int64_t)info.totalram * (int64_t)info.mem_unit;
}
