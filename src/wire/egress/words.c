/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/egress/words.h"

#include <arpa/inet.h>

static const struct {
    const char *word;
    const char *clause;  /* '%' is the rule */
    bool may_be_allowed; /* a rule would help */
} whys[] = {
    [CAY_EGRESS_BY_RULE] = {"rule", "'%' denies it"},
    [CAY_EGRESS_NO_RULE] = {"no_rule", "no rule allows it", true},
    [CAY_EGRESS_NOT_GIVEN] = {"no_name", "the address stands for no name; ask for the name first"},
    [CAY_EGRESS_NOT_FOUND] = {"unknown", "no address of it was found"},
    [CAY_EGRESS_GUARDED] = {"guarded",
                            "its addresses are guarded (private, this host's or the like)"},
    [CAY_EGRESS_WRONG_SNI] = {"wrong_sni", "the TLS hello has another name, or none"},
    [CAY_EGRESS_WRONG_HOST] = {"wrong_host", "a request has another host"},
    [CAY_EGRESS_HIDDEN] = {"hidden_sni", "the TLS hello hides its name"},
    [CAY_EGRESS_MALFORMED] = {"malformed", "what was sent cannot be understood"},
    [CAY_EGRESS_UNREACHABLE] = {"unreachable", "it cannot be reached, or broke off"},
    [CAY_EGRESS_TOO_MANY] = {"too_many", "there were too many connections at once"},
    [CAY_EGRESS_CUT] = {"cut", "the rules changed while it was open"},
    [CAY_EGRESS_OTHER_PORT] = {"other_port", "'%' allows it on other ports only", true},
    [CAY_EGRESS_UNANSWERED] = {"unanswered", "nobody answered whether it may be", true},
    [CAY_EGRESS_REJECTED] = {"rejected", "somebody was asked, and said no", true},
    [CAY_EGRESS_UNTRUSTED] = {"untrusted", "the server's certificate is not good for the name"},
    [CAY_EGRESS_PLACEHOLDER] = {"placeholder", "a secret's placeholder stands where it may not go"},
    [CAY_EGRESS_HANDSHAKE] = {"handshake",
                              "it speaks no HTTP/1.1, or does not take the certificate"},
    [CAY_EGRESS_LEFT] = {"left", "the program went away before it was reached"},
};
static_assert(CAY_COUNT(whys) == CAY_EGRESS_WHYS, "each has its words");

const char *cay_egress_word(enum cay_egress_why why)
{
    return (size_t)why < CAY_COUNT(whys) ? whys[why].word : NULL;
}

void cay_egress_explain(const struct cay_egress_receipt *receipt, struct cay_buf *out)
{
    const char *clause = (size_t)receipt->why < CAY_COUNT(whys) ? whys[receipt->why].clause : NULL;
    for (; clause && *clause; clause++) {
        if (*clause == '%')
            cay_buf_append_str(out, receipt->rule);
        else
            cay_buf_append_byte(out, (unsigned char)*clause);
    }
}

/* What a rule for it would be: its name, or its address. */
static void put_target(const struct cay_egress_receipt *receipt, bool has_port, struct cay_buf *out)
{
    char text[INET6_ADDRSTRLEN] = "?";
    bool is_six = !receipt->name.len && receipt->family == 6 && has_port;
    if (receipt->name.len) {
        cay_buf_append_str(out, receipt->name);
        return;
    }
    if (receipt->family)
        (void)inet_ntop(receipt->family == 6 ? AF_INET6 : AF_INET, receipt->address, text,
                        sizeof(text));
    cay_buf_printf(out, is_six ? "[%s]" : "%s", text);
}

void cay_egress_whom(const struct cay_egress_receipt *receipt, struct cay_buf *out)
{
    put_target(receipt, receipt->port != 0, out);
    if (receipt->port)
        cay_buf_printf(out, ":%u", receipt->port);
}

void cay_egress_sentence(const struct cay_egress_receipt *receipt, struct cay_str session,
                         struct cay_buf *out)
{
    bool is_failure = receipt->verdict == CAY_EGRESS_FAILED;
    cay_buf_append_text(out, "network: ");
    cay_egress_whom(receipt, out);
    if (receipt->method.len)
        cay_buf_printf(out, " %.*s %.*s", (int)receipt->method.len, receipt->method.ptr,
                       (int)receipt->path.len, receipt->path.ptr);
    cay_buf_append_text(out, is_failure ? " failed, " : " refused, ");
    cay_egress_explain(receipt, out);
    bool may_be_allowed = (size_t)receipt->why < CAY_COUNT(whys) &&
                          whys[receipt->why].may_be_allowed &&
                          (receipt->name.len || receipt->family);
    if (!may_be_allowed || !session.len)
        return;
    cay_buf_printf(out, "; 'cay net allow %.*s ", (int)session.len, session.ptr);
    put_target(receipt, receipt->why == CAY_EGRESS_OTHER_PORT, out);
    if (receipt->why == CAY_EGRESS_OTHER_PORT)
        cay_buf_printf(out, ":%u", receipt->port);
    cay_buf_append_text(out, "' would");
}
