/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/chore.h"

#include <stdlib.h>

#include "host/session/host.h"

static void ended(struct cay_errand *errand, const void *response, const struct cay_error *err)
{
    struct cay_chore *self = CAY_CONTAINER_OF(errand, struct cay_chore, errand);
    self->done(self->context, response, err);
    cay_errand_finish(errand);
    free(self);
}

static bool heard(struct cay_errand *errand, const void *message)
{
    struct cay_chore *self = CAY_CONTAINER_OF(errand, struct cay_chore, errand);
    return self->on_message(self->context, message);
}

struct cay_chore *cay_chore_new(struct cay_host *host, unsigned method,
                                const struct cay_caller *caller)
{
    static const struct cay_errand_ops ops = {.ended = ended, .heard = heard};
    struct cay_chore *self = cay_new(struct cay_chore);
    cay_errand_init(&self->errand, &host->service, method, caller, &ops);
    return self;
}

void cay_chore_start(struct cay_chore *chore, cay_chore_fn *done, void *context)
{
    chore->done = done;
    chore->context = context;
    cay_errand_start(&chore->errand);
}
