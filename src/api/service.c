/* SPDX-License-Identifier: Apache-2.0 */
#include "api/service.h"

#include <assert.h>

void cay_service_call(struct cay_service *service, struct cay_call *call)
{
    assert(call->method->index < service->ops->method_count);
    unsigned index = call->method->index;
    cay_verb *verb = service->ops->verbs[index];
    struct cay_error err = {};
    if (!verb) {
        cay_fail(&err, CAY_R_UNIMPLEMENTED, "%s is not available in this version of cayd",
                 call->method->name);
    } else if (call->caller.session_id[0] && !call->method->takes_token) {
        cay_fail(&err, CAY_R_PERMISSION_DENIED,
                 "%s is not for the token of a session; it needs an API key", call->method->name);
    } else if (!service->ops->admit || service->ops->admit(service, call, &err)) {
        verb(service, call);
        return;
    }
    cay_call_fail(call, &err);
}

const struct cay_pb_method *cay_service_method(const struct cay_service *service,
                                               struct cay_str path)
{
    return cay_pb_method_by_path(service->ops->methods, service->ops->method_count, path);
}

void cay_service_authenticate(struct cay_service *service, struct cay_str secret,
                              struct cay_whois *whois)
{
    assert(!whois->service && whois->answered);
    whois->service = service;
    service->ops->authenticate(service, secret, whois);
}

void cay_whois_answer(struct cay_whois *whois, const struct cay_caller *caller,
                      const struct cay_error *err)
{
    assert(whois->service && (caller != NULL) != (err != NULL));
    if (!cay_list_linked(&whois->kept))
        whois->service = NULL;
    whois->answered(whois, caller, err);
}

void cay_whois_keep(struct cay_service *service, struct cay_list *kept, struct cay_whois *whois)
{
    if (!whois->lapsed)
        return;
    whois->service = service;
    cay_list_push_back(kept, &whois->kept);
}

void cay_whois_lapse_all(struct cay_list *kept, const struct cay_error *err)
{
    struct cay_list_node *node;
    while ((node = cay_list_pop_front(kept))) {
        struct cay_whois *whois = CAY_CONTAINER_OF(node, struct cay_whois, kept);
        whois->service = NULL;
        whois->lapsed(whois, err);
    }
}

void cay_whois_drop_all(struct cay_list *kept)
{
    struct cay_list_node *node;
    while ((node = cay_list_pop_front(kept)))
        CAY_CONTAINER_OF(node, struct cay_whois, kept)->service = NULL;
}

bool cay_service_follow(struct cay_service *service, struct cay_str key_id, struct cay_whois *whois,
                        struct cay_error *err)
{
    assert(!whois->service && whois->lapsed);
    return !service->ops->follow || service->ops->follow(service, key_id, whois, err);
}

void cay_whois_cancel(struct cay_whois *whois)
{
    struct cay_service *service = cay_take_ptr(whois->service);
    if (cay_list_linked(&whois->kept))
        cay_list_remove(&whois->kept);
    else if (service)
        service->ops->forget(service, whois);
}
