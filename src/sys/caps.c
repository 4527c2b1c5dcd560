/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/caps.h"

#include <errno.h>

#include <linux/prctl.h>

#include "sys/raw.h"

int cay_caps_bound(uint64_t keep)
{
    return cay_caps_unbound(~keep);
}

int cay_caps_unbound(uint64_t lost)
{
    for (unsigned int number = 0; number < 64; number++) {
        if (!(lost & CAY_CAP(number)))
            continue;
        long result = cay_raw5(SYS_prctl, PR_CAPBSET_DROP, number, 0, 0, 0);
        if (result == -EINVAL)
            return 0; /* past the last one this kernel knows: prctl(2) */
        if (result < 0)
            return (int)result;
    }
    return 0;
}

int cay_caps_set(uint64_t keep)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {
        {.effective = (uint32_t)keep, .permitted = (uint32_t)keep},
        {.effective = (uint32_t)(keep >> 32), .permitted = (uint32_t)(keep >> 32)},
    };
    return (int)cay_raw2(SYS_capset, &header, data);
}
