/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "wire/e2b/filter.h"
#include "wire/e2b/target.h"
#include "wire/e2b/template.h"
#include "wire/http1.h"
#include "wire/path.h"

/* What clients made for E2B put into paths, headers and queries, and what programs in sandboxes
 * answer. The first line of the input is a host, the rest whatever each parser makes of it. */

enum { FIELDS_MAX = 16, PAIRS_MAX = 64, ARENA_BYTES_MAX = 1 << 20, HEAD_BYTES_MAX = 4096 };

static void check_target(struct cay_str host, struct cay_str rest)
{
    struct cay_http_header fields[] = {
        {CAY_STR("E2b-Sandbox-Id"), host},
        {CAY_STR("e2b-sandbox-port"), rest},
    };
    const struct cay_http_headers none = {};
    const struct cay_http_headers some = {fields, CAY_COUNT(fields)};
    const struct cay_e2b_target targets[] = {
        cay_e2b_target(&none, host, CAY_STR("sbx.test:8443")),
        cay_e2b_target(&none, host, rest),
        cay_e2b_target(&some, host, CAY_STR("")),
    };
    for (size_t i = 0; i < CAY_COUNT(targets); i++) {
        if (targets[i].place == CAY_E2B_SANDBOX)
            FUZZ_CHECK(cay_e2b_id_valid(targets[i].id) && targets[i].port > 0);
        if (targets[i].place == CAY_E2B_BAD)
            FUZZ_CHECK(targets[i].fault);
    }
}

static void check_texts(struct cay_str text)
{
    struct cay_arena arena;
    struct cay_str params[CAY_PATH_PARAMS_MAX] = {};
    struct cay_pb_pairs pairs = {};
    cay_arena_init(&arena, ARENA_BYTES_MAX);
    if (cay_path_match(text, "/sandboxes/{}/timeout", &arena, params))
        FUZZ_CHECK(params[0].len && params[0].len <= text.len);
    if (cay_e2b_filter_parse(text, PAIRS_MAX, &arena, &pairs) == 0) {
        FUZZ_CHECK(pairs.count <= PAIRS_MAX);
        for (size_t i = 0; i < pairs.count; i++)
            FUZZ_CHECK(pairs.items[i].key.len <= text.len && pairs.items[i].value.len <= text.len);
    }
    struct cay_e2b_ref ref;
    if (cay_e2b_ref_parse(text, &arena, &ref))
        FUZZ_CHECK(ref.name.len && ref.name.len <= CAY_E2B_TEMPLATE_BYTES_MAX &&
                   ref.tag.len <= CAY_E2B_TEMPLATE_BYTES_MAX && ref.space.len < text.len);
    static const char *const lines[] = {"a:1=one", "a=two"};
    struct cay_str base = cay_e2b_image_base(lines, CAY_COUNT(lines), text);
    FUZZ_CHECK(!base.len || base.len == 3);
    cay_arena_finish(&arena);
}

static void check_answer(struct cay_str bytes)
{
    struct cay_http_header fields[FIELDS_MAX];
    struct cay_http1_answer answer;
    struct cay_http1_fault fault = {};
    ssize_t len =
        cay_http1_parse_answer(bytes, fields, FIELDS_MAX, HEAD_BYTES_MAX, &answer, &fault);
    if (len < 0)
        FUZZ_CHECK(fault.status == 502 && fault.text);
    if (len <= 0)
        return;
    FUZZ_CHECK((size_t)len <= bytes.len && answer.status >= 100 && answer.status < 600);
    FUZZ_CHECK(!(answer.has_length && answer.is_chunked));
    for (size_t i = 0; i < answer.headers.count; i++)
        FUZZ_CHECK(cay_http_is_token(fields[i].name) && cay_http_is_field_value(fields[i].value));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cay_str rest = {(const char *)data, size};
    struct cay_str line = {};
    check_texts(rest);
    check_answer(rest);
    if (size && cay_str_split(&rest, '\n', &line))
        check_target(line, rest);
    return 0;
}
