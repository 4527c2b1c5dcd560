/* SPDX-License-Identifier: Apache-2.0 */
#include "host/base/publish.h"

#include <stdlib.h>

#include "api/noun.h"
#include "base/log.h"
#include "host/base/base_record.h"
#include "host/owner/account_quota.h"
#include "host/session/host.h"

enum { SPEC_BYTES_MAX = 4 << 20 };

struct cay_publishing *cay_publishing_new(struct cay_host *host, const struct cay_call *call,
                                          struct cay_str name, struct cay_error *err)
{
    if (call->caller.session_id[0]) {
        cay_fail(err, CAY_R_PERMISSION_DENIED,
                 "publish_base: a session's token may not do that; call with an API key");
        return NULL;
    }
    struct cay_publishing *self = cay_new(struct cay_publishing);
    cay_arena_init(&self->arena, SPEC_BYTES_MAX);
    self->keeping.host = host;
    self->keeping.arena = &self->arena;
    self->keeping.spec.origin = CAY_V1_BASE_ORIGIN_SNAPSHOT;
    if (call->caller.role != CAY_ROLE_ADMIN)
        self->keeping.spec.owner = cay_arena_str(&self->arena, cay_str(call->caller.owner));
    if (cay_base_check_name(host, &call->caller, name, "publish_base", self->keeping.name, err) &&
        cay_base_check_free(host->store, self->keeping.name, err) &&
        cay_quotas_claim_base(host, &call->caller, &self->claim, err))
        return self;
    cay_publishing_free(self);
    return NULL;
}

void cay_publishing_free(struct cay_publishing *self)
{
    if (!self)
        return;
    cay_quotas_unclaim_base(self->claim);
    cay_base_keeping_unclaim(&self->keeping);
    cay_arena_finish(&self->arena);
    free(self);
}

bool cay_publishing_begin(struct cay_publishing *self, const struct cay_call *call,
                          const struct cay_session *session, const char *snapshot,
                          struct cay_error *err)
{
    const struct cay_v1_base *base = cay_bases_find(self->keeping.host, session->spec->base);
    struct cay_v1_base *spec = &self->keeping.spec;
    const char *source = cay_arena_printf(&self->arena, "%s@%s", session->id, snapshot);
    if (base) {
        spec->settings =
            base->settings ? cay_noun_copy(&cay_v1_base_settings_desc, base->settings, &self->arena)
                           : NULL;
        spec->architecture = cay_arena_str(&self->arena, base->architecture);
    }
    if (!source || (base && base->settings && !spec->settings))
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    spec->source = cay_str(source);
    cay_base_keeping_claim(&self->keeping, &call->caller, session, 0);
    /* The machine's own programs are too much to read again, and different everywhere. */
    self->keeping.skips_digest = !base || !base->digest.len;
    return true;
}

bool cay_publishing_work(struct cay_publishing *self, const char *snapshot_store_id,
                         struct cay_error *err)
{
    struct cay_store_base_draft draft;
    const struct cay_store_ref ref = {.snapshot = snapshot_store_id};
    return cay_base_keeping_measure(&self->keeping, &ref, err) &&
           cay_store_base_begin_from(self->keeping.host->store, &ref, &draft, err) &&
           cay_base_keeping_run(&self->keeping, &draft, err);
}

void cay_publishing_done(const struct cay_publishing *self)
{
    char name[CAY_BASE_FULL_NAME_SIZE];
    cay_bases_put(self->keeping.host, &self->keeping.spec);
    cay_base_full_name(self->keeping.host, self->keeping.name, name);
    cay_log(CAY_INFO, "base.published", CAY_S("base", name));
}
