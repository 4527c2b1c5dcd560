/* SPDX-License-Identifier: Apache-2.0 */
/* The first byte says what the rest is: a frame of the helper, one of the daemon, a list of rules,
 * one of secrets. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "wire/egress/egress.h"
#include "wire/egress/secrets.h"

static void frame(const uint8_t *data, size_t size, bool is_from_helper)
{
    struct cay_egress_frame frame;
    uint8_t again[CAY_EGRESS_FRAME_BYTES_MAX];
    if (!cay_egress_decode(data, size, is_from_helper, &frame))
        return;
    size_t len = cay_egress_encode(&frame, again);
    FUZZ_CHECK(len == size && memcmp(again, data, size) == 0);
}

static void rules(struct cay_str text)
{
    struct cay_str rest = text;
    struct cay_str rule;
    enum cay_egress_rule kind;
    struct cay_buf out;
    cay_buf_init(&out, CAY_EGRESS_POLICY_BYTES_MAX);
    while (cay_egress_rule_next(&rest, &kind, &rule))
        cay_egress_rule_put(&out, kind, rule);
    FUZZ_CHECK(!out.failed &&
               cay_str_equal(cay_buf_str(&out), (struct cay_str){text.ptr, out.len}));
    cay_buf_finish(&out);
}

static void secrets(struct cay_str text)
{
    struct cay_str rest = text;
    struct cay_egress_secret secret;
    struct cay_buf out;
    cay_buf_init(&out, CAY_EGRESS_POLICY_BYTES_MAX);
    while (cay_egress_secret_next(&rest, &secret))
        cay_egress_secret_put(&out, &secret);
    FUZZ_CHECK(!out.failed &&
               cay_str_equal(cay_buf_str(&out), (struct cay_str){text.ptr, out.len}));
    cay_buf_finish(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > CAY_EGRESS_POLICY_BYTES_MAX)
        return 0;
    if (data[0] == 'r')
        rules((struct cay_str){(const char *)data + 1, size - 1});
    else if (data[0] == 's')
        secrets((struct cay_str){(const char *)data + 1, size - 1});
    else
        frame(data + 1, size - 1, data[0] == 'h');
    return 0;
}
