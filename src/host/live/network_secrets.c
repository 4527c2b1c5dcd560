/* SPDX-License-Identifier: Apache-2.0 */
#include "host/live/network_secrets.h"

#include "base/log.h"
#include "host/live/bindings.h"
#include "host/session/host.h"

void cay_network_secrets_list(const struct cay_session *session,
                              struct cay_egress_secrets *out_secrets)
{
    const struct cay_v1_secret_binding_array *bindings = &session->spec->secrets;
    const struct cay_vault *vault = &session->host->vault;
    for (size_t i = 0; i < bindings->count; i++) {
        const struct cay_v1_secret_binding *binding = &bindings->items[i];
        const struct cay_vault_entry *entry =
            cay_vault_find(vault, session->owner, binding->secret);
        cay_auto(cay_secret_finish) struct cay_secret value = {};
        struct cay_error err = {};
        char placeholder[CAY_PLACEHOLDER_SIZE];
        if (!entry)
            continue; /* it may be set later */
        if (!cay_vault_take(vault, entry, &value, &err)) {
            cay_log(CAY_ERROR, "network.secret_lost", CAY_S("session", session->id),
                    CAY_S("name", entry->name), CAY_ERR(&err));
            continue;
        }
        cay_binding_placeholder(session, binding, placeholder);
        const struct cay_egress_secret secret = {.host = binding->host,
                                                 .header = binding->header,
                                                 .placeholder = cay_str(placeholder),
                                                 .value = cay_secret_view(&value)};
        cay_egress_secrets_add(out_secrets, &secret);
    }
}

bool cay_network_has_secrets(const struct cay_session *session)
{
    return session->spec->secrets.count > 0;
}

void cay_network_secret_used(const struct cay_session *session, struct cay_str placeholder)
{
    const struct cay_v1_secret_binding_array *bindings = &session->spec->secrets;
    for (size_t i = 0; i < bindings->count; i++) {
        char own[CAY_PLACEHOLDER_SIZE];
        cay_binding_placeholder(session, &bindings->items[i], own);
        struct cay_vault_entry *entry =
            cay_str_is(placeholder, own)
                ? cay_vault_find(&session->host->vault, session->owner, bindings->items[i].secret)
                : NULL;
        if (entry)
            cay_vault_used(entry);
    }
}
