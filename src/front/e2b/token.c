/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/token.h"

bool cay_e2b_token_is(struct cay_str sent, struct cay_str token)
{
    unsigned char differs = 0;
    if (!token.len || sent.len != token.len)
        return false;
    for (size_t i = 0; i < token.len; i++)
        differs |= (unsigned char)(sent.ptr[i] ^ token.ptr[i]);
    return differs == 0;
}
