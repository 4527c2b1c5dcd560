/* SPDX-License-Identifier: Apache-2.0 */
#include "host/runtime/registry.h"

#include "host/runtime/runtime_ops.h"

static const struct cay_runtime_ops *const runtimes[] = {
    &cay_runtime_namespaces,
    &cay_runtime_gvisor,
    &cay_runtime_none,
    &cay_runtime_fake,
};

const struct cay_runtime_ops *cay_runtime_find(const char *name)
{
    for (size_t i = 0; i < CAY_COUNT(runtimes); i++) {
        if (strcmp(runtimes[i]->name, name) == 0)
            return runtimes[i];
    }
    return NULL;
}

const char *const *cay_runtime_names(void)
{
    static const char *names[CAY_COUNT(runtimes) + 1];
    for (size_t i = 0, count = 0; i < CAY_COUNT(runtimes); i++) {
        if (!runtimes[i]->is_fake)
            names[count++] = runtimes[i]->name;
    }
    return names;
}
