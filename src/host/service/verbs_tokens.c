/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/crash.h"
#include "host/life/tokens.h"
#include "host/owner/account.h"
#include "host/service/service_internal.h"
#include "host/service/verbs.h"
#include "host/session/record.h"
#include "host/session/tell.h"

/*
 * RevokeTokens. It does not wait at the session's gate, where whoever holds a token could keep it
 * by an upload without an end; what it writes is nobody else's.
 */

struct revoke_job {
    struct cay_job job;
    struct cay_call *call;
    struct cay_session *session; /* held; the loop's */
    struct cay_db *db;
    char id[CAY_ID_SIZE];
    int64_t revoked_ns;
    bool is_done;
    struct cay_error err;
};

static void work(struct cay_job *job)
{
    struct revoke_job *self = CAY_CONTAINER_OF(job, struct revoke_job, job);
    self->is_done = cay_session_record_put_tokens(self->db, self->id, self->revoked_ns, &self->err);
    if (self->is_done)
        CAY_CRASH_POINT("tokens.recorded");
}

static void done(struct cay_job *job)
{
    struct revoke_job *self = CAY_CONTAINER_OF(job, struct revoke_job, job);
    struct cay_call *call = self->call;
    struct cay_v1_revoke_tokens_response response = {
        .tokens = cay_session_tokens(self->session, &call->arena)};
    if (self->is_done)
        cay_call_done(call, &response);
    else
        cay_call_fail(call, &self->err);
    cay_session_unref(self->session);
    free(self);
}

void cay_host_revoke_tokens(struct cay_service *service, struct cay_call *call)
{
    struct cay_host *host = cay_host_of(service);
    const struct cay_v1_revoke_tokens_request *request = call->request;
    struct cay_session *session = NULL;
    struct cay_error err = {};
    if (!cay_session_check(host, call, request->session_id, CAY_VERB_UPDATE, &session, &err)) {
        cay_call_fail(call, &err);
        return;
    }
    /* In memory first: from here on the old ones open nothing, even if the disk is slow to hear of
     * it. By a clock that was set back they are others, too. */
    session->tokens_revoked_ns =
        CAY_MAX(cay_clock_wall_ns(), cay_session_tokens_born_ns(session) + 1);
    cay_wipe(session->access_token, sizeof(session->access_token));
    cay_host_lapse_tokens(session);
    cay_tell(host, &(struct cay_happening){
                       .type = "session.tokens_revoked", .session = session, .call = call});
    struct revoke_job *self = cay_new(struct revoke_job);
    self->call = call;
    self->session = session;
    self->db = host->db;
    self->revoked_ns = session->tokens_revoked_ns;
    memcpy(self->id, session->id, sizeof(self->id));
    self->job.work = work;
    self->job.done = done;
    self->job.lane = &cay_account_of(host, session->owner)->lane;
    cay_session_ref(session);
    cay_loop_submit(host->loop, &self->job);
}
