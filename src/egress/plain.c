/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/conn.h"

/* The small image, which looks into nobody's TLS and has no secrets. */

bool egress_intercepts(void)
{
    return false;
}

int egress_interception_open(const char *, struct egress_interception **out)
{
    *out = NULL;
    return 0;
}

void egress_interception_close(struct egress *)
{
}

void egress_secrets_apply(struct egress *, int)
{
}

void egress_leaf_apply(struct egress *, struct cay_str, int)
{
}

bool egress_must_intercept(const struct egress_conn *)
{
    return false;
}

/* Nothing begins it here, and none of these is called. */

void egress_intercept_begin(struct egress_conn *conn)
{
    egress_conn_end(conn, CAY_EGRESS_REFUSED, CAY_EGRESS_MALFORMED);
}

void egress_intercept_dialled(struct egress_conn *)
{
}

bool egress_intercept_refuse(struct egress_conn *, enum cay_egress_verdict, enum cay_egress_why,
                             const char *)
{
    return false;
}

void egress_intercept_tick(struct egress_conn *)
{
}

bool egress_intercept_is_allowed(const struct egress_conn *)
{
    return false;
}

bool egress_intercept_close(struct egress_conn *, enum cay_egress_verdict, enum cay_egress_why)
{
    return false;
}

void egress_intercept_free(struct egress_conn *)
{
}
