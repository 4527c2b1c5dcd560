/* SPDX-License-Identifier: Apache-2.0 */
/* Policies: what rules are, what they say, and how they are refused. */
#include "tests/unit/test.h"

#include <arpa/inet.h>

#include "egress/rules/destination.h"
#include "egress/rules/guarded.h"
#include "egress/rules/rules.h"

enum { TEXTS_MAX = 16 };

#define TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})

struct lists {
    const char *const *allow;
    const char *const *deny;
    const char *const *sets;
    const char *const *opened;
    bool asks;
};

static size_t copy_texts(const char *const *texts, struct cay_str *out)
{
    size_t count = 0;
    for (; texts && texts[count]; count++)
        out[count] = cay_str(texts[count]);
    return count;
}

static bool create(const struct lists *lists, struct cay_policy **out, struct cay_error *err)
{
    struct cay_str allow[TEXTS_MAX];
    struct cay_str deny[TEXTS_MAX];
    struct cay_str sets[TEXTS_MAX];
    struct cay_subnet opened[TEXTS_MAX];
    struct cay_policy_source source = {
        .allow = allow, .deny = deny, .sets = sets, .opened = opened, .asks = lists->asks};
    source.allow_count = copy_texts(lists->allow, allow);
    source.deny_count = copy_texts(lists->deny, deny);
    source.set_count = copy_texts(lists->sets, sets);
    for (; lists->opened && lists->opened[source.opened_count]; source.opened_count++)
        assert_true(
            cay_subnet_parse(lists->opened[source.opened_count], &opened[source.opened_count]));
    return cay_policy_create(&source, out, err);
}

static struct cay_policy *policy_of(const struct lists *lists)
{
    struct cay_policy *policy = NULL;
    struct cay_error err = {};
    if (!create(lists, &policy, &err))
        fail_msg("%s", err.text);
    return policy;
}

static struct cay_policy *allowing(const char *rule)
{
    return policy_of(&(struct lists){.allow = TEXTS(rule)});
}

static struct cay_decision ask(const struct cay_policy *policy, const char *what, uint16_t port)
{
    struct cay_decision decision;
    struct cay_subnet address;
    if (cay_subnet_parse(what, &address))
        cay_policy_decide_address(policy, &address.first, port, &decision);
    else
        cay_policy_decide_name(policy, cay_str(what), port, &decision);
    return decision;
}

static bool is_allowed(const struct cay_policy *policy, const char *what, uint16_t port)
{
    return ask(policy, what, port).verdict == CAY_VERDICT_ALLOWED;
}

static bool is_open_upstream(const struct cay_policy *policy, const char *text)
{
    struct cay_decision decision;
    struct cay_subnet address;
    assert_true(cay_subnet_parse(text, &address));
    cay_policy_decide_upstream(policy, &address.first, 443, &decision);
    return decision.verdict == CAY_VERDICT_ALLOWED;
}

static char *printed(const struct cay_policy *policy)
{
    struct cay_buf text;
    cay_buf_init(&text, 1 << 20);
    cay_policy_print(policy, false, &text);
    cay_buf_append_byte(&text, '\0');
    assert_false(text.failed);
    return text.data;
}

static void rules_are_spelt_in_one_way(void **)
{
    static const char *const cases[][2] = {
        {"pack.example", "pack.example"},
        {"Pack.Example.", "pack.example"},
        {"pack.example.:443", "pack.example:443"},
        {"xn--bcher-kva.example", "xn--bcher-kva.example"},
        {"_dmarc.example.org", "_dmarc.example.org"},
        {"intranet", "intranet"},
        {"1.example", "1.example"},
        {"*", "*"},
        {"*:443", "*:443"},
        {"*.GitHub.com", "*.github.com"},
        {"*.github.com:22,443", "*.github.com:22,443"},
        {"a.b:1000-2000", "a.b:1000-2000"},
        {"a.b:7-7", "a.b:7"},
        {"a.b:65535", "a.b:65535"},
        {"1.2.3.4", "1.2.3.4"},
        {"1.2.3.4/32", "1.2.3.4"},
        {"1.2.3.0/24:53", "1.2.3.0/24:53"},
        {"0.0.0.0/0", "0.0.0.0/0"},
        {"2606:4700::1111", "2606:4700::1111"},
        {"2606:4700::/32", "2606:4700::/32"},
        {"[2606:4700:0::]/32", "2606:4700::/32"},
        {"[2606:4700::1111]", "2606:4700::1111"},
        {"[2606:4700::1111]:443", "[2606:4700::1111]:443"},
        {"[2606:4700::]/32:443,8443", "[2606:4700::]/32:443,8443"},
        {"::/0", "::/0"},
        {"GET https://API.github.com./repos/*", "GET https://api.github.com/repos/*"},
        {"* https://*.github.com:443/", "* https://*.github.com/"},
        {"PUT https://a.example:8443/a*b/c", "PUT https://a.example:8443/a*b/c"},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        struct cay_policy *policy = allowing(cases[i][0]);
        cay_autofree char *text = printed(policy);
        cay_autofree char *wanted = cay_asprintf("%s\n", cases[i][1]);
        assert_string_equal(text, wanted);
        cay_policy_destroy(policy);
    }
}

/* A bad rule, and a part of the sentence that it is refused with. */
static const char *const bad_rules[][2] = {
    {"", "it is empty"},
    {" pack.example", "blanks"},
    {"pack.example pack.net", "blanks"},
    {"pack\n.example", "blanks"},
    {"https://pack.example/simple", "write pack.example:443"},
    {"http://pack.example", "write pack.example:80"},
    {"https://pack.example:8443/x", "write pack.example:8443"},
    {"ssh://git@host", "no URL"},
    {"get https://a.example/", "capital letters"},
    {"GET  https://a.example/", "by https:// only"},
    {"GET http://a.example/", "by https:// only"},
    {"GET https://a.example", "METHOD https://name/path"},
    {"GET https:///x", "METHOD https://name/path"},
    {"GET https://a.example/?x=1", "METHOD https://name/path"},
    {"GET https://a.example/a b", "METHOD https://name/path"},
    {"GET https://a.example/../x", "METHOD https://name/path"},
    {"GET https://a.example/./x", "METHOD https://name/path"},
    {"GET https://*/x", "one name"},
    {"GET https://1.2.3.4/x", "one name"},
    {"GET https://a.example:1-2/x", "one name"},
    {"GET https://@npm/x", "METHOD https://name/path"},
    {"GET https://git@a.example/x", "a user"},
    {"git@github.com", "a user"},
    {"pack.example/simple", "the name alone is pack.example"},
    {"*github.com", "as in *.example.org"},
    {"git*.com", "as in *.example.org"},
    {"a.*.com", "as in *.example.org"},
    {"*.*", "as in *.example.org"},
    {"*.*.com", "as in *.example.org"},
    {"**", "as in *.example.org"},
    {"*.", "a name is missing"},
    {"*..", "a name is missing"},
    {".github.com", "*.example.org"},
    {".", "a name is missing"},
    {"a..b", "between two dots"},
    {"a.b..", "between two dots"},
    {"b\xc3\xbc"
     "cher.example",
     "xn--"},
    {"a!b.org", "letters, digits"},
    {"a%62.org", "letters, digits"},
    {"127.1", "ends with a number"},
    {"0x7f.1", "ends with a number"},
    {"0x7f000001", "ends with a number"},
    {"2130706433", "ends with a number"},
    {"0177.0.0.1", "ends with a number"},
    {"1.2.3.4.", "ends with a number"},
    {"1.2.3.256", "ends with a number"},
    {"example.0X1F", "ends with a number"},
    {"*.1", "ends with a number"},
    {"10.1.2.3/16", "10.1.0.0/16"},
    {"[2606:4700::1]/32", "2606:4700::/32"},
    {"10.0.0.0/33", "0 to 32"},
    {"10.0.0.0/", "0 to 32"},
    {"10.0.0.0/255.0.0.0", "0 to 32"},
    {"[2606::]/129", "0 to 128"},
    {"10.0.0.300/8", "like 10.1.0.0/16"},
    {"::ffff:1.2.3.4", "write 1.2.3.4"},
    {"::ffff:1.2.3.0/120", "write 1.2.3.0/24"},
    {"fe80::1%eth0", "brackets"},
    {"[fe80::1%eth0]:80", "is written"},
    {"2606:4700::1111:x", "brackets"},
    {"[2606:4700::1111", "not closed"},
    {"[1.2.3.4]:80", "is written"},
    {"[2606:4700::/32]:443", "[2001:db8::]/32:443"},
    {"[2606::]443", "is written"},
    {"pack.example:", "1 to 65535"},
    {"pack.example:0", "1 to 65535"},
    {"pack.example:65536", "1 to 65535"},
    {"pack.example:443,", "1 to 65535"},
    {"pack.example:,", "1 to 65535"},
    {"pack.example:-5", "1 to 65535"},
    {"pack.example:5-", "1 to 65535"},
    {"pack.example:1-2-3", "1 to 65535"},
    {"pack.example:+443", "1 to 65535"},
    {"pack.example:https", "1 to 65535"},
    {"pack.example:2-1", "1-2"},
    {"pack.example:443:80", ":443,8443"},
    {"a:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "two rules"},
    {"@", "sets have names"},
    {"@Pypi", "sets have names"},
    {"@nothing", "every host has @debian"},
    {"@pypi:443", "ports of its own"},
    {"127.0.0.1", "loopback; no rule"},
    {"127.0.0.0/8", "loopback; no rule"},
    {"0.0.0.0", "no rule opens it"},
    {"::1", "loopback; no rule"},
    {"fe80::1", "link-local"},
    {"224.0.0.251", "multicast"},
    {"2002:a00:1::", "in disguise"},
    {"64:ff9b::10.0.0.1", "in disguise"},
};

static void bad_rules_are_refused_with_what_to_write(void **)
{
    for (size_t i = 0; i < CAY_COUNT(bad_rules); i++) {
        struct cay_policy *policy = NULL;
        struct cay_error err = {};
        if (create(&(struct lists){.allow = TEXTS("a.b", bad_rules[i][0])}, &policy, &err))
            fail_msg("taken: %s", bad_rules[i][0]);
        assert_int_equal(err.reason, CAY_R_INVALID_ARGUMENT);
        if (!strstr(err.text, bad_rules[i][1]))
            fail_msg("%s: %s", bad_rules[i][0], err.text);
        assert_null(policy);
    }
    struct cay_policy *policy = NULL;
    struct cay_error err = {};
    struct cay_str with_zero = {"pack\0.example", 13};
    struct cay_policy_source source = {.deny = &with_zero, .deny_count = 1};
    assert_false(cay_policy_create(&source, &policy, &err));
    assert_string_equal(err.text,
                        "network: the rule 'pack?.example': blanks and control characters "
                        "are in no rule; one rule is one text");
}

static void lengths_are_bounded(void **)
{
    char label[70];
    char name[300] = "";
    struct cay_policy *policy = NULL;
    struct cay_error err = {};
    memset(label, 'a', sizeof(label));
    label[63] = '\0';
    policy = allowing(label);
    assert_true(is_allowed(policy, label, 1));
    cay_policy_destroy(policy);
    label[63] = 'a';
    label[64] = '\0';
    assert_false(create(&(struct lists){.allow = TEXTS(label)}, &policy, &err));
    assert_non_null(strstr(err.text, "63"));
    for (size_t i = 0; i < 252; i += 2)
        memcpy(name + i, "a.", 2);
    memcpy(name + 252, "a", 2);
    policy = allowing(name);
    assert_true(is_allowed(policy, name, 1));
    memcpy(name + 253, ".", 2); /* the dot at the end does not count */
    assert_true(is_allowed(policy, name, 1));
    memcpy(name + 252, "aa", 3);
    assert_int_equal(ask(policy, name, 1).why, CAY_WHY_NAME);
    cay_policy_destroy(policy);
    assert_false(create(&(struct lists){.allow = TEXTS(name)}, &policy, &err));
    assert_non_null(strstr(err.text, "253"));
}

static void lists_are_bounded(void **)
{
    enum { MANY = CAY_POLICY_RULES_MAX + 1 };
    static struct cay_str rules[MANY];
    struct cay_policy *policy = NULL;
    struct cay_error err = {};
    for (size_t i = 0; i < MANY; i++)
        rules[i] = CAY_STR("pack.example");
    struct cay_policy_source source = {.allow = rules, .allow_count = MANY};
    assert_false(cay_policy_create(&source, &policy, &err));
    assert_non_null(strstr(err.text, "at most 1000"));
    source.allow_count--;
    assert_true(cay_policy_create(&source, &policy, &err));
    cay_policy_destroy(policy);
    /* What sets stand for is bounded besides. */
    struct cay_str lines[8];
    for (size_t i = 0; i < CAY_COUNT(lines); i++)
        lines[i] = CAY_STR("s=a.b");
    for (size_t i = 0; i < MANY; i++)
        rules[i] = CAY_STR("@s");
    source.sets = lines;
    source.set_count = CAY_COUNT(lines);
    assert_false(cay_policy_create(&source, &policy, &err));
    assert_non_null(strstr(err.text, "at most 4096"));
}

static void names_match_as_a_whole(void **)
{
    struct cay_policy *policy = allowing("pack.example");
    assert_true(is_allowed(policy, "pack.example", 1));
    assert_true(is_allowed(policy, "PACK.example.", 65535));
    assert_false(is_allowed(policy, "xpack.example", 443));
    assert_false(is_allowed(policy, "www.pack.example", 443));
    assert_false(is_allowed(policy, "pack.example.evil.net", 443));
    assert_false(is_allowed(policy, "org", 443));
    cay_policy_destroy(policy);
    policy = allowing("*.pack.example");
    assert_true(is_allowed(policy, "www.pack.example", 443));
    assert_true(is_allowed(policy, "a.b.pack.EXAMPLE", 443));
    assert_false(is_allowed(policy, "pack.example", 443));
    assert_false(is_allowed(policy, ".pack.example", 443));
    assert_false(is_allowed(policy, "xpack.example", 443));
    cay_policy_destroy(policy);
    policy = allowing("*");
    assert_true(is_allowed(policy, "any.thing", 443));
    assert_false(is_allowed(policy, "1.1.1.1", 443));
    assert_int_equal(ask(policy, "127.1", 443).why, CAY_WHY_NAME);
    assert_int_equal(ask(policy, "a..b", 443).why, CAY_WHY_NAME);
    assert_int_equal(ask(policy, "", 443).why, CAY_WHY_NAME);
    cay_policy_destroy(policy);
}

static void ports_narrow_a_rule(void **)
{
    struct cay_policy *policy = allowing("pack.example:443,1000-2000");
    assert_true(is_allowed(policy, "pack.example", 443));
    assert_true(is_allowed(policy, "pack.example", 1000));
    assert_true(is_allowed(policy, "pack.example", 2000));
    assert_false(is_allowed(policy, "pack.example", 999));
    assert_false(is_allowed(policy, "pack.example", 2001));
    assert_int_equal(ask(policy, "pack.example", 80).why, CAY_WHY_PORT);
    assert_int_equal(ask(policy, "pack.net", 80).why, CAY_WHY_NO_RULE);
    cay_policy_destroy(policy);
}

static void deny_beats_allow(void **)
{
    struct cay_policy *policy =
        policy_of(&(struct lists){.allow = TEXTS("*", "0.0.0.0/0"),
                                  .deny = TEXTS("*.evil.net", "*:25", "1.1.1.0/24", "8.8.8.8:53")});
    assert_true(is_allowed(policy, "evil.net", 443));
    assert_false(is_allowed(policy, "a.evil.net", 443));
    assert_false(is_allowed(policy, "good.net", 25));
    assert_true(is_allowed(policy, "9.9.9.9", 443));
    assert_false(is_allowed(policy, "1.1.1.1", 443));
    assert_false(is_allowed(policy, "8.8.8.8", 53));
    assert_true(is_allowed(policy, "8.8.8.8", 443));
    struct cay_decision decision = ask(policy, "a.evil.net", 443);
    assert_true(decision.is_deny_rule);
    assert_true(cay_str_is(decision.rule, "*.evil.net"));
    /* What a name leads to is denied, too, and so is the same behind NAT64. */
    assert_false(is_open_upstream(policy, "1.1.1.1"));
    assert_false(is_open_upstream(policy, "64:ff9b::1.1.1.1"));
    assert_true(is_open_upstream(policy, "64:ff9b::1.1.2.1"));
    assert_false(is_allowed(policy, "64:ff9b::9.9.9.9", 443));
    assert_true(cay_policy_may_resolve(policy, CAY_STR("good.net")));
    assert_false(cay_policy_may_resolve(policy, CAY_STR("a.evil.net")));
    cay_policy_destroy(policy);
}

static void guarded_addresses_need_a_rule_that_names_them(void **)
{
    static const char *const guarded[] = {"10.0.0.1",       "192.168.1.1",       "169.254.169.254",
                                          "127.0.0.1",      "fd00:ec2::254",     "::1",
                                          "::ffff:8.8.8.8", "64:ff9b::10.0.0.1", "2002:a00:1::"};
    struct cay_policy *policy =
        policy_of(&(struct lists){.allow = TEXTS("*", "0.0.0.0/0", "::/0", "8.0.0.0/6")});
    for (size_t i = 0; i < CAY_COUNT(guarded); i++) {
        struct cay_decision decision = ask(policy, guarded[i], 443);
        if (decision.verdict != CAY_VERDICT_REFUSED || decision.why != CAY_WHY_GUARDED ||
            !decision.detail)
            fail_msg("%s: %d", guarded[i], decision.why);
        assert_false(is_open_upstream(policy, guarded[i]));
    }
    assert_true(is_open_upstream(policy, "8.8.8.8"));
    cay_policy_destroy(policy);
    policy = policy_of(&(struct lists){.allow = TEXTS("db.corp", "10.1.0.0/16:443", "0.0.0.0/0"),
                                       .opened = TEXTS("10.0.0.0/8")});
    assert_true(is_allowed(policy, "10.1.2.3", 443));
    assert_int_equal(ask(policy, "10.1.2.3", 5432).why, CAY_WHY_PORT);
    assert_int_equal(ask(policy, "10.2.2.3", 443).why, CAY_WHY_GUARDED);
    assert_true(is_open_upstream(policy, "10.1.2.3"));
    assert_false(is_open_upstream(policy, "10.2.2.3"));
    assert_false(is_open_upstream(policy, "64:ff9b::10.1.2.3"));
    cay_policy_destroy(policy);
}

static void the_host_opens_guarded_ranges_first(void **)
{
    struct cay_policy *policy = NULL;
    struct cay_error err = {};
    const struct lists closed = {.allow = TEXTS("10.1.0.0/16"), .opened = TEXTS("10.1.0.0/17")};
    assert_false(create(&closed, &policy, &err));
    assert_int_equal(err.reason, CAY_R_PERMISSION_DENIED);
    assert_non_null(strstr(err.text, "'10.1.0.0/16': this is a private network"));
    assert_non_null(strstr(err.text, "network_allow"));
    /* A rule that denies needs nobody's leave. */
    cay_policy_destroy(policy_of(&(struct lists){.deny = TEXTS("10.1.0.0/16", "127.0.0.1")}));
    const struct lists never = {.allow = TEXTS("127.0.0.1"), .opened = TEXTS("0.0.0.0/0")};
    assert_false(create(&never, &policy, &err));
    assert_int_equal(err.reason, CAY_R_INVALID_ARGUMENT);
}

static void sets_stand_for_their_rules(void **)
{
    const char *const *lines =
        TEXTS("corp=git.corp.example:22", "corp=*.corp.example:443", "npm=npm.corp.example");
    struct cay_policy *policy =
        policy_of(&(struct lists){.allow = TEXTS("@corp", "@npm"), .sets = lines});
    cay_autofree char *text = printed(policy);
    assert_string_equal(text, "git.corp.example:22\n*.corp.example:443\nnpm.corp.example\n");
    assert_true(is_allowed(policy, "git.corp.example", 22));
    assert_true(is_allowed(policy, "npm.corp.example", 80));
    struct cay_decision decision = ask(policy, "x.corp.example", 443);
    assert_true(cay_str_is(decision.rule, "@corp"));
    assert_true(cay_str_is(decision.member, "*.corp.example:443"));
    cay_policy_destroy(policy);
    static const char *const bad[] = {"corp",   "=a.b",      "Corp=a.b",
                                      "corp=",  "corp=@npm", "corp=a..b",
                                      "-c=a.b", "corp =a.b", "corp=http://x"};
    struct cay_error err = {};
    for (size_t i = 0; i < CAY_COUNT(bad); i++) {
        struct cay_str line = cay_str(bad[i]);
        if (cay_policy_check_sets(&line, 1, &err))
            fail_msg("taken: %s", bad[i]);
        assert_int_equal(err.reason, CAY_R_INVALID_ARGUMENT);
    }
    /* What the host does not open is not opened by way of a set. */
    assert_false(create(&(struct lists){.allow = TEXTS("@lan"), .sets = TEXTS("lan=10.0.0.0/8")},
                        &policy, &err));
    assert_int_equal(err.reason, CAY_R_PERMISSION_DENIED);
}

/* Each has rules, and these are narrow. */
static void builtin_sets_are_good(void **)
{
    static const char *const names[] = {"@debian", "@github", "@npm", "@pypi"};
    for (size_t i = 0; i < CAY_COUNT(names); i++) {
        struct cay_policy *policy = allowing(names[i]);
        cay_autofree char *text = printed(policy);
        assert_true(strchr(text, '\n') < text + strlen(text) - 1);
        struct cay_str rest = cay_str(text);
        struct cay_str line;
        while (cay_str_split(&rest, '\n', &line))
            assert_true(!line.len || memchr(line.ptr, ':', line.len));
        cay_policy_destroy(policy);
    }
    struct cay_policy *policy = allowing("@github");
    assert_true(is_allowed(policy, "github.com", 22));
    assert_true(is_allowed(policy, "codeload.github.com", 443));
    assert_true(is_allowed(policy, "raw.githubusercontent.com", 443));
    assert_false(is_allowed(policy, "github.com", 80));
    cay_policy_destroy(policy);
}

static void expect_explained(const struct cay_policy *policy, const char *what, uint16_t port,
                             const char *wanted)
{
    struct cay_decision decision = ask(policy, what, port);
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, 4096);
    cay_decision_explain(&decision, &text);
    cay_buf_append_byte(&text, '\0');
    assert_string_equal(text.data, wanted);
}

static void decisions_are_explained(void **)
{
    struct cay_policy *policy = policy_of(&(struct lists){.allow = TEXTS("@corp", "A.example.:443"),
                                                          .deny = TEXTS("*.evil.net"),
                                                          .sets = TEXTS("corp=pack.example:443")});
    expect_explained(policy, "pack.example", 443,
                     "'@corp' allows it, by its rule 'pack.example:443'");
    expect_explained(policy, "a.example", 443, "'A.example.:443' allows it");
    expect_explained(policy, "a.example", 80, "'A.example.:443' allows it on other ports only");
    expect_explained(policy, "b.example", 80, "no rule allows it");
    expect_explained(policy, "x.evil.net", 80, "'*.evil.net' denies it");
    expect_explained(policy, "10.0.0.1", 80, "it is a private network, and no rule names it");
    cay_policy_destroy(policy);
}

static void destinations_are_understood(void **)
{
    static const char *const cases[][2] = {
        {"a.example", "a.example:443"},
        {"A.Example.:22", "a.example:22"},
        {"https://a.example", "a.example:443"},
        {"HTTP://user:secret@a.example/x:y@z?q#f", "a.example:80"},
        {"wss://a.example:8443?x", "a.example:8443"},
        {"ssh://git@[2606:4700::1]/x", "[2606:4700::1]:22"},
        {"1.2.3.4", "1.2.3.4:443"},
        {"2606:4700::1", "[2606:4700::1]:443"},
        {"DELETE https://a.example:8443/x", "a.example:8443"},
        {"[2606:4700::1]:80", "[2606:4700::1]:80"},
    };
    static const char *const bad[] = {"",        "https://", "https:///x", "gopher://a.example",
                                      "*",       "*.a.b",    "@npm",       "10.0.0.0/8",
                                      "a.b:1,2", "a.b:1-2",  "a.b/c",      "127.1"};
    struct cay_destination destination;
    struct cay_error err = {};
    char text[CAY_DESTINATION_TEXT_SIZE];
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        if (!cay_destination_parse(cay_str(cases[i][0]), &destination, &err))
            fail_msg("%s", err.text);
        cay_destination_format(&destination, text);
        assert_string_equal(text, cases[i][1]);
    }
    for (size_t i = 0; i < CAY_COUNT(bad); i++) {
        if (cay_destination_parse(cay_str(bad[i]), &destination, &err))
            fail_msg("taken: %s", bad[i]);
        assert_int_equal(err.reason, CAY_R_INVALID_ARGUMENT);
    }
}

/* Of names that no rule decides; of addresses nobody is asked. */
static void somebody_is_asked(void **)
{
    struct cay_policy *policy = policy_of(&(struct lists){
        .allow = TEXTS("a.example:443", "1.1.1.1:53"), .deny = TEXTS("b.example"), .asks = true});
    assert_int_equal(ask(policy, "a.example", 443).verdict, CAY_VERDICT_ALLOWED);
    assert_int_equal(ask(policy, "a.example", 80).verdict, CAY_VERDICT_ASKED);
    assert_int_equal(ask(policy, "c.example", 80).verdict, CAY_VERDICT_ASKED);
    assert_int_equal(ask(policy, "b.example", 80).verdict, CAY_VERDICT_REFUSED);
    assert_int_equal(ask(policy, "no name", 80).verdict, CAY_VERDICT_REFUSED);
    assert_int_equal(ask(policy, "8.8.8.8", 80).verdict, CAY_VERDICT_REFUSED);
    assert_int_equal(ask(policy, "1.1.1.1", 80).verdict, CAY_VERDICT_REFUSED);
    assert_false(is_open_upstream(policy, "10.0.0.1"));
    assert_true(cay_policy_may_resolve(policy, CAY_STR("c.example")));
    assert_false(cay_policy_may_resolve(policy, CAY_STR("b.example")));
    expect_explained(policy, "c.example", 80, "no rule allows it; somebody is asked");
    expect_explained(policy, "a.example", 80,
                     "'a.example:443' allows it on other ports only; somebody is asked");
    cay_policy_destroy(policy);
}

static const char *const requests_allowed[] = {
    "GET https://api.test/repos/*",
    "POST https://api.test/x",
    "* https://*.up.test:8443/a*/b",
    "plain.test",
    NULL,
};
static const char *const requests_denied[] = {"DELETE https://plain.test/*",
                                              "* https://plain.test/admin/*",
                                              "GET https://api.test/repos/closed", NULL};

/* "METHOD URL": allowed? */
static bool may_request(const struct cay_policy *policy, const char *text)
{
    struct cay_destination destination;
    struct cay_decision decision;
    struct cay_error err = {};
    if (!cay_destination_parse(cay_str(text), &destination, &err))
        fail_msg("%s", err.text);
    cay_policy_decide(policy, &destination, &decision);
    return decision.verdict == CAY_VERDICT_ALLOWED;
}

static void requests_are_told_apart(void **)
{
    static const char *const good[] = {
        "GET https://api.test/repos/",       "https://api.test/repos/a/b?c=/../d",
        "POST https://api.test/x",           "GET https://api.test/repos/a%20b",
        "GET https://api.test/repos/@a%2fb", "PUT https://x.up.test:8443/a/c/b",
        "GET https://api.test/repos/a/./b",  "GET https://plain.test/",
        "GET https://plain.test/adm",
    };
    static const char *const bad[] = {
        "GET https://api.test/",
        "GET https://api.test/repos",
        "POST https://api.test/repos/a",
        "POST https://api.test/x/",
        "get https://api.test/repos/a",
        "GET https://api.test/reposx/a",
        "GET https://api.test/repos/../user",
        "GET https://api.test/repos/%2e%2e/user",
        "GET https://api.test/repos/..%2fuser",
        "GET https://api.test/repos/%2e%2E%5cuser",
        "GET https://api.test/repos/a/../../user",
        "GET https://api.test/repos/..",
        "GET https://api.test/%72epos/a",
        "GET https://api.test/repos/closed",
        "GET https://api.test/repos/clos%65d",
        "GET https://api.test/repos/x/../closed",
        "DELETE https://plain.test/a",
        "GET https://plain.test/admin/x",
        "GET https://plain.test/%61dmin/x",
        "GET https://plain.test//admin/x",
        "GET https://plain.test/x/../admin/x",
        "GET https://plain.test/admin%2fx",
        "PUT https://x.up.test/a/b",
        "GET https://api.test//repos/a",
        "GET https://other.test/repos/a",
    };
    struct cay_policy *policy =
        policy_of(&(struct lists){.allow = requests_allowed, .deny = requests_denied});
    for (size_t i = 0; i < CAY_COUNT(good); i++) {
        if (!may_request(policy, good[i]))
            fail_msg("refused: %s", good[i]);
    }
    for (size_t i = 0; i < CAY_COUNT(bad); i++) {
        if (may_request(policy, bad[i]))
            fail_msg("allowed: %s", bad[i]);
    }
    cay_policy_destroy(policy);
}

/* Whoever cannot read requests is told where there are some to be read. */
static void connections_with_requests_are_read(void **)
{
    struct cay_policy *policy =
        policy_of(&(struct lists){.allow = requests_allowed, .deny = requests_denied});
    assert_true(cay_policy_has_requests(policy));
    assert_true(is_allowed(policy, "api.test", 443));
    assert_false(is_allowed(policy, "api.test", 80));
    assert_true(is_allowed(policy, "plain.test", 443));
    assert_true(cay_policy_reads_requests(policy, CAY_STR("api.test"), 443));
    assert_true(cay_policy_reads_requests(policy, CAY_STR("plain.test"), 443));
    assert_true(cay_policy_reads_requests(policy, CAY_STR("Plain.Test."), 443));
    assert_true(cay_policy_reads_requests(policy, CAY_STR("x.up.test"), 8443));
    assert_false(cay_policy_reads_requests(policy, CAY_STR("plain.test"), 80));
    assert_false(cay_policy_reads_requests(policy, CAY_STR("up.test"), 8443));
    assert_true(cay_policy_may_resolve(policy, CAY_STR("plain.test")));
    expect_explained(policy, "api.test", 443,
                     "'GET https://api.test/repos/*' allows some requests to it");
    expect_explained(policy, "plain.test", 443, "'plain.test' allows it");
    cay_policy_destroy(policy);
    policy = allowing("plain.test");
    assert_false(cay_policy_has_requests(policy));
    assert_false(cay_policy_reads_requests(policy, CAY_STR("plain.test"), 443));
    cay_policy_destroy(policy);
}

static void nothing_is_allowed_by_nothing(void **)
{
    struct cay_policy *policy = policy_of(&(struct lists){});
    assert_false(is_allowed(policy, "pack.example", 443));
    assert_false(is_allowed(policy, "1.1.1.1", 443));
    assert_false(cay_policy_may_resolve(policy, CAY_STR("pack.example")));
    assert_false(is_open_upstream(policy, "10.0.0.1"));
    cay_policy_destroy(policy);
    cay_policy_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_are_spelt_in_one_way),
        cmocka_unit_test(bad_rules_are_refused_with_what_to_write),
        cmocka_unit_test(lengths_are_bounded),
        cmocka_unit_test(lists_are_bounded),
        cmocka_unit_test(names_match_as_a_whole),
        cmocka_unit_test(ports_narrow_a_rule),
        cmocka_unit_test(deny_beats_allow),
        cmocka_unit_test(guarded_addresses_need_a_rule_that_names_them),
        cmocka_unit_test(the_host_opens_guarded_ranges_first),
        cmocka_unit_test(sets_stand_for_their_rules),
        cmocka_unit_test(builtin_sets_are_good),
        cmocka_unit_test(decisions_are_explained),
        cmocka_unit_test(destinations_are_understood),
        cmocka_unit_test(somebody_is_asked),
        cmocka_unit_test(requests_are_told_apart),
        cmocka_unit_test(connections_with_requests_are_read),
        cmocka_unit_test(nothing_is_allowed_by_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
