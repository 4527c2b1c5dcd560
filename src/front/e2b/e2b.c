/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/e2b.h"

struct cay_e2b_target cay_e2b_target_of(const struct cay_e2b *e2b,
                                        const struct cay_exchange *exchange)
{
    return cay_e2b_target(&exchange->headers, exchange->host, cay_e2b_domain(e2b));
}
