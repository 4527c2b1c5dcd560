/* SPDX-License-Identifier: Apache-2.0 */
/* Lines: "+rule" allows, "-rule" denies, "=set" is a line of a set, what else is asked for. */
#include "fuzz/fuzz.h"

#include <arpa/inet.h>
#include <string.h>

#include "egress/rules/guarded.h"
#include "egress/rules/rules.h"

enum { LINES_MAX = 64 };

struct lists {
    struct cay_str allow[LINES_MAX];
    struct cay_str deny[LINES_MAX];
    struct cay_str sets[LINES_MAX];
    struct cay_str asked[LINES_MAX];
    size_t asked_count;
    struct cay_subnet opened[2];
    struct cay_policy_source source;
};

static void sort_lines(struct cay_str text, struct lists *lists)
{
    struct cay_policy_source *source = &lists->source;
    struct cay_str line;
    for (size_t i = 0; i < LINES_MAX && cay_str_split(&text, '\n', &line); i++) {
        struct cay_str rest = line.len ? (struct cay_str){line.ptr + 1, line.len - 1} : line;
        switch (line.len ? line.ptr[0] : 0) {
        case '+': lists->allow[source->allow_count++] = rest; break;
        case '-': lists->deny[source->deny_count++] = rest; break;
        case '=': lists->sets[source->set_count++] = rest; break;
        default: lists->asked[lists->asked_count++] = line; break;
        }
    }
    source->allow = lists->allow;
    source->deny = lists->deny;
    source->sets = lists->sets;
    source->opened = lists->opened;
    source->opened_count = CAY_COUNT(lists->opened);
}

/* What is printed is read again and printed the same. */
static void check_print(const struct cay_policy *policy, bool is_deny)
{
    struct cay_str lines[CAY_POLICY_RULES_MAX];
    struct cay_policy_source source = {};
    struct lists all = {.opened = {{.first.family = AF_INET}, {.first.family = AF_INET6}}};
    struct cay_policy *again = NULL;
    struct cay_error err = {};
    cay_auto(cay_buf_finish) struct cay_buf first;
    cay_auto(cay_buf_finish) struct cay_buf second;
    cay_buf_init(&first, 4 << 20);
    cay_buf_init(&second, 4 << 20);
    cay_policy_print(policy, is_deny, &first);
    struct cay_str rest = cay_buf_str(&first);
    size_t count = 0;
    while (rest.ptr && cay_str_split(&rest, '\n', &lines[count]) && rest.ptr) {
        if (++count == CAY_POLICY_RULES_MAX)
            return;
    }
    source.opened = all.opened;
    source.opened_count = 2;
    *(is_deny ? &source.deny : &source.allow) = lines;
    *(is_deny ? &source.deny_count : &source.allow_count) = count;
    if (!cay_policy_create(&source, &again, &err)) {
        fprintf(stderr, "%s\n%.*s", err.text, (int)first.len, first.data);
        FUZZ_CHECK(!"what was printed cannot be read");
    }
    cay_policy_print(again, is_deny, &second);
    FUZZ_CHECK(cay_str_equal(cay_buf_str(&first), cay_buf_str(&second)));
    cay_policy_destroy(again);
}

static void check_decision(const struct cay_decision *decision)
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, 1 << 16);
    cay_decision_explain(decision, &text);
    FUZZ_CHECK(text.len && !text.failed);
    FUZZ_CHECK(decision->verdict == CAY_VERDICT_ALLOWED ||
               decision->verdict == CAY_VERDICT_REFUSED);
    FUZZ_CHECK(!decision->is_deny_rule || decision->verdict == CAY_VERDICT_REFUSED);
}

static void ask_name(const struct cay_policy *policy, struct cay_str name)
{
    struct cay_decision decision;
    char normal[CAY_NAME_SIZE];
    const char *why = NULL;
    uint8_t bytes[16];
    cay_policy_decide_name(policy, name, 443, &decision);
    check_decision(&decision);
    if (decision.verdict == CAY_VERDICT_ALLOWED) {
        FUZZ_CHECK(cay_policy_may_resolve(policy, name));
        FUZZ_CHECK(cay_name_normalise(name, normal, &why));
        /* No address is a name. */
        FUZZ_CHECK(inet_pton(AF_INET, normal, bytes) != 1 && inet_aton(normal, (void *)bytes) == 0);
        cay_policy_decide_name(policy, cay_str(normal), 443, &decision);
        FUZZ_CHECK(decision.verdict == CAY_VERDICT_ALLOWED);
    }
}

/* "name/path": what allows a request allows its connection. */
static void ask_request(const struct cay_policy *policy, struct cay_str text)
{
    struct cay_decision decision;
    struct cay_decision whole;
    size_t at = 0;
    while (at < text.len && text.ptr[at] != '/')
        at++;
    const struct cay_str name = {text.ptr, at};
    const struct cay_str path = {text.ptr + at, text.len - at};
    cay_policy_decide_request(policy, name, 443, CAY_STR("GET"), path, &decision);
    cay_policy_decide_name(policy, name, 443, &whole);
    check_decision(&decision);
    if (decision.verdict == CAY_VERDICT_ALLOWED)
        FUZZ_CHECK(whole.verdict == CAY_VERDICT_ALLOWED);
    else if (whole.verdict == CAY_VERDICT_ALLOWED)
        FUZZ_CHECK(cay_policy_reads_requests(policy, name, 443));
}

static void ask_address(const struct cay_policy *policy, struct cay_str text)
{
    struct cay_decision decision;
    struct cay_decision upstream;
    struct cay_ip address = {.family = text.len % 2 ? AF_INET : AF_INET6};
    if (text.len)
        memcpy(address.bytes, text.ptr, CAY_MIN(text.len, cay_ip_bytes(address.family)));
    cay_policy_decide_address(policy, &address, 443, &decision);
    cay_policy_decide_upstream(policy, &address, 443, &upstream);
    check_decision(&decision);
    check_decision(&upstream);
    if (decision.verdict == CAY_VERDICT_ALLOWED)
        FUZZ_CHECK(upstream.verdict == CAY_VERDICT_ALLOWED);
    if (cay_address_is_guarded(&address) && upstream.verdict == CAY_VERDICT_ALLOWED)
        FUZZ_CHECK(upstream.rule.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Half of the time the host opens everything that it can. */
    struct lists lists = {.opened = {{.first.family = AF_INET}, {.first.family = AF_INET6}}};
    if (size % 2)
        lists.opened[0].bits = lists.opened[1].bits = 32;
    struct cay_policy *policy = NULL;
    struct cay_error err = {};
    sort_lines((struct cay_str){(const char *)data, size}, &lists);
    if (!cay_policy_create(&lists.source, &policy, &err)) {
        FUZZ_CHECK(err.text[0]);
        FUZZ_CHECK(err.reason == CAY_R_INVALID_ARGUMENT || err.reason == CAY_R_PERMISSION_DENIED);
        return 0;
    }
    check_print(policy, false);
    check_print(policy, true);
    for (size_t i = 0; i < lists.asked_count; i++) {
        ask_name(policy, lists.asked[i]);
        ask_address(policy, lists.asked[i]);
        if (lists.asked[i].len)
            ask_request(policy, lists.asked[i]);
    }
    cay_policy_destroy(policy);
    return 0;
}
