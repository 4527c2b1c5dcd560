/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/selftest/selftest.h"

void cay_selftest_outside(struct cay_selftest *, size_t)
{
}

void cay_selftest_outside_control(struct cay_selftest *)
{
}
