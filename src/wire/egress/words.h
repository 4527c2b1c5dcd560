/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a receipt says to people and to programs. Texts of it are printable: see egress.h. */

#include "wire/egress/egress.h"

/* A word, such as no_rule. NULL: it was a good end. */
const char *cay_egress_word(enum cay_egress_why why);

/* As a clause: `no rule allows it`. Nothing for a good end. */
void cay_egress_explain(const struct cay_egress_receipt *receipt, struct cay_buf *out);

/* Whom it was for: `api.x.org:443`, `[2001:db8::1]:22`; of a question the name alone. */
void cay_egress_whom(const struct cay_egress_receipt *receipt, struct cay_buf *out);

/* For whoever reads what a command printed: `network: api.x.org:443 refused, no rule allows it;
 * 'cay net allow demo api.x.org' would`. The session may be empty: then nobody is told what to do.
 */
void cay_egress_sentence(const struct cay_egress_receipt *receipt, struct cay_str session,
                         struct cay_buf *out);
