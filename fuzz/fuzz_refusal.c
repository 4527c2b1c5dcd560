/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <errno.h>

#include "base/utf8.h"
#include "client/rpc/refusal.h"

static void check_error(const struct cay_error *err)
{
    FUZZ_CHECK(err->reason > CAY_R_NONE && err->reason < CAY_R_COUNT);
    FUZZ_CHECK(memchr(err->text, '\0', sizeof(err->text)));
    FUZZ_CHECK(cay_utf8_valid(cay_str(err->text)));
}

/* Whatever a server sends, the caller gets a whole error. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cay_str text = {(const char *)data, size};
    struct cay_error err = {};
    cay_refusal_read(text, 500, &err);
    check_error(&err);
    err = (struct cay_error){};
    int status = cay_refusal_read_end(text, &err);
    FUZZ_CHECK(status == 0 || status == 1 || status == -EBADMSG);
    if (status == 1)
        check_error(&err);
    else
        FUZZ_CHECK(err.reason == CAY_R_NONE);
    return 0;
}
