/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte says how the rest is cut into pieces. Up to a line "=" the rest is what a client
 * says, behind it what a server answers. A value is in the head of a request where it is bound to,
 * and nowhere else; and the head says the same with it as before.
 */
#include "fuzz/fuzz.h"

#include <errno.h>
#include <string.h>

#include "egress/edit.h"
#include "wire/http_pass.h"

#define VALUE       "VALUE:OF:A:SECRET"
#define PLACEHOLDER "cay-secret-placeholder"

static struct cay_egress_secret items[] = {
    {CAY_STR("a.test"), CAY_STR("authorization"), CAY_STR(PLACEHOLDER), CAY_STR(VALUE)},
    {CAY_STR("a.test"), CAY_STR("x-key"), CAY_STR(PLACEHOLDER), CAY_STR(VALUE)},
    {CAY_STR("b.test"), CAY_STR("authorization"), CAY_STR("cay-secret-of-another"), CAY_STR("B")},
};
static const struct cay_egress_secrets secrets = {items, CAY_COUNT(items)};

static bool has(struct cay_str text, const char *word)
{
    return text.len && memmem(text.ptr, text.len, word, strlen(word));
}

static void check_edited(struct cay_str text, const struct cay_http1_head *before, bool had_value)
{
    struct cay_http_header fields[CAY_HTTP_PASS_FIELDS_MAX];
    struct cay_http1_head head;
    struct cay_http1_fault fault;
    ssize_t len =
        cay_http1_parse_head(text, fields, CAY_HTTP_PASS_FIELDS_MAX, 1 << 20, &head, &fault);
    FUZZ_CHECK(len == (ssize_t)text.len);
    FUZZ_CHECK(cay_str_equal(head.method, before->method));
    FUZZ_CHECK(cay_str_equal(head.path, before->path));
    FUZZ_CHECK(cay_str_equal(head.query, before->query));
    FUZZ_CHECK(cay_str_equal(head.host, before->host));
    FUZZ_CHECK(head.is_chunked == before->is_chunked && head.has_body == before->has_body);
    FUZZ_CHECK(head.content_length == before->content_length);
    FUZZ_CHECK(head.headers.count == before->headers.count);
    FUZZ_CHECK(!has(text, PLACEHOLDER));
    for (size_t i = 0; i < head.headers.count && !had_value; i++) {
        const struct cay_http_header *field = &head.headers.items[i];
        bool is_bound = cay_str_equal_nocase(field->name, CAY_STR("authorization")) ||
                        cay_str_equal_nocase(field->name, CAY_STR("x-key"));
        FUZZ_CHECK(is_bound || !has(field->value, VALUE));
    }
}

static void edit(struct cay_str bytes, const struct cay_http1_head *head)
{
    struct cay_buf out;
    uint64_t used = 0;
    cay_buf_init(&out, 1 << 20);
    if (egress_edit_head(bytes, head, CAY_STR("a.test"), &secrets, &out, &used) == EGRESS_EDIT_DONE)
        check_edited(cay_buf_str(&out), head, has(bytes, VALUE));
    cay_buf_finish(&out);
}

struct flow {
    struct cay_str client, server;
    size_t step;
};

/* As much as there is by now, in memory of that size. */
static char *copy(struct cay_str text, size_t have, struct cay_str *out)
{
    size_t len = CAY_MIN(have, text.len);
    char *exact = malloc(len ? len : 1);
    if (len)
        memcpy(exact, text.ptr, len);
    *out = (struct cay_str){exact, len};
    return exact;
}

static ssize_t step_client(struct cay_http_pass *pass, struct cay_str bytes, bool edits)
{
    struct cay_http_header fields[CAY_HTTP_PASS_FIELDS_MAX];
    struct cay_http1_head head;
    struct cay_http1_fault fault;
    if (pass->phase != CAY_HTTP_PASS_BETWEEN)
        return cay_http_pass_body(pass, bytes);
    ssize_t len = cay_http_pass_head(bytes, fields, &head, &fault);
    if (len <= 0)
        return len;
    FUZZ_CHECK(head.path.len && head.path.ptr[0] == '/');
    if (edits)
        edit((struct cay_str){bytes.ptr, (size_t)len}, &head);
    cay_http_pass_begin(pass, &head);
    return len;
}

static void run(struct flow flow)
{
    struct cay_http_pass pass = {};
    size_t have = flow.step;
    for (;;) {
        struct cay_str client;
        struct cay_str server;
        char *client_copy = copy(flow.client, have, &client);
        char *server_copy = copy(flow.server, have, &server);
        ssize_t heard = step_client(&pass, client, true);
        FUZZ_CHECK(heard <= (ssize_t)client.len);
        ssize_t said = heard < 0 ? heard : cay_http_pass_answer(&pass, server);
        FUZZ_CHECK(said <= (ssize_t)server.len);
        free(client_copy);
        free(server_copy);
        if (heard < 0 || said < 0)
            break;
        flow.client = (struct cay_str){flow.client.ptr + heard, flow.client.len - (size_t)heard};
        flow.server = (struct cay_str){flow.server.ptr + said, flow.server.len - (size_t)said};
        if (!heard && !said) {
            if (have >= flow.client.len && have >= flow.server.len)
                break;
            have += flow.step;
        }
    }
    (void)cay_http_pass_ended(&pass);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const struct cay_str text = {(const char *)data + 1, size - 1};
    const char *cut = text.len ? memmem(text.ptr, text.len, "\n=\n", 3) : NULL;
    struct flow flow = {
        .client = text, .server = CAY_STR(""), .step = CAY_MAX((size_t)data[0], text.len / 64 + 1)};
    if (cut) {
        flow.client.len = (size_t)(cut - text.ptr) + 1;
        flow.server = (struct cay_str){cut + 3, text.len - flow.client.len - 2};
    }
    run(flow);
    flow.step = size;
    run(flow);
    return 0;
}
