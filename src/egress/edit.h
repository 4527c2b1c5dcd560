/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The head of a request, as it goes to the server: values in the place of placeholders, each in
 * the one header of requests to the one name that it is bound to. What has a placeholder anywhere
 * else in its head goes nowhere; in bodies it is what it is inside, a word that opens nothing.
 */

#include "wire/egress/secrets.h"
#include "wire/http1.h"

enum egress_edit {
    EGRESS_EDIT_DONE = 1,
    EGRESS_EDIT_IN_TARGET,  /* a placeholder in the path or the query */
    EGRESS_EDIT_IN_HEADER,  /* in a header that it is not bound to */
    EGRESS_EDIT_OTHER_NAME, /* in a request to a name that it is not bound to */
    EGRESS_EDIT_TOO_LARGE,
    EGRESS_EDIT_ECHO, /* TRACE: the server would say it back */
};

/* `bytes` is the head that was parsed. Writes to `out` (which is to be wiped) when it is done;
 * *out_used has a bit for each secret whose value is in it, by its place in the list. */
[[nodiscard]] enum egress_edit
egress_edit_head(struct cay_str bytes, const struct cay_http1_head *head, struct cay_str host,
                 const struct cay_egress_secrets *secrets, struct cay_buf *out, uint64_t *out_used);
