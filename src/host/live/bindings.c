/* SPDX-License-Identifier: Apache-2.0 */
#include "host/live/bindings.h"

#include "egress/rules/rules.h"
#include "host/keys/tokens.h"
#include "host/live/trust.h"
#include "host/session/host.h"
#include "wire/egress/secrets.h"

enum { VARIABLE_BYTES_MAX = 128 };

static bool is_variable(struct cay_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!is_letter && (i == 0 || c < '0' || c > '9'))
            return false;
    }
    return text.len && text.len <= VARIABLE_BYTES_MAX;
}

static struct cay_str lower(struct cay_str text, struct cay_arena *arena)
{
    char *copy = cay_arena_alloc(arena, text.len);
    for (size_t i = 0; copy && i < text.len; i++)
        copy[i] = (char)(text.ptr[i] >= 'A' && text.ptr[i] <= 'Z' ? text.ptr[i] + ('a' - 'A')
                                                                  : text.ptr[i]);
    return (struct cay_str){copy, copy ? text.len : 0};
}

/* Written in one way: names in lower case, and a header. */
static bool read_one(const struct cay_v1_secret_binding *wanted, struct cay_arena *arena,
                     struct cay_v1_secret_binding *out, struct cay_error *err)
{
    char host[CAY_NAME_SIZE];
    const char *why = NULL;
    if (!is_variable(wanted->variable))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "secrets: a variable is a letter or '_', then letters, digits and '_', %d "
                        "bytes at most",
                        VARIABLE_BYTES_MAX);
    if (!cay_id_check(wanted->secret, "secrets: the name of a secret", err))
        return false;
    if (!cay_name_normalise(wanted->host, host, &why))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "secrets: '%.*s' needs the one name of a host, like api.example.org: %s",
                        (int)wanted->variable.len, wanted->variable.ptr, why);
    *out = (struct cay_v1_secret_binding){
        .variable = wanted->variable,
        .secret = wanted->secret,
        .host = cay_arena_str(arena, cay_str(host)),
        .header = wanted->header.len ? lower(wanted->header, arena) : CAY_STR("authorization"),
    };
    const struct cay_egress_secret told = {.host = out->host,
                                           .header = out->header,
                                           .placeholder = CAY_STR("cay-secret-0000000000"),
                                           .value = CAY_STR("x")};
    why = cay_egress_secret_fault(&told);
    return !why ||
           cay_fail(err, CAY_R_INVALID_ARGUMENT, "secrets: '%.*s' cannot be used in that way: %s",
                    (int)wanted->variable.len, wanted->variable.ptr, why);
}

static struct cay_v1_secret_binding *find(const struct cay_v1_secret_binding_array *list,
                                          struct cay_str variable)
{
    for (size_t i = 0; i < list->count; i++) {
        if (cay_str_equal(list->items[i].variable, variable))
            return &list->items[i];
    }
    return NULL;
}

static bool is_in(struct cay_pb_strs list, struct cay_str text)
{
    for (size_t i = 0; i < list.count; i++) {
        if (cay_str_equal(list.items[i], text))
            return true;
    }
    return false;
}

static bool put(struct cay_v1_secret_binding_array *list,
                const struct cay_v1_secret_binding *binding)
{
    struct cay_v1_secret_binding *known = find(list, binding->variable);
    if (!known && list->count == CAY_EGRESS_SECRETS_MAX)
        return false;
    *(known ?: &list->items[list->count++]) = *binding;
    return true;
}

bool cay_bindings_choose(const struct cay_v1_secret_binding_array *now,
                         const struct cay_v1_secret_binding_array *set, struct cay_pb_strs remove,
                         const struct cay_v1_network_policy *network, struct cay_arena *arena,
                         struct cay_v1_secret_binding_array *out_bindings, struct cay_error *err)
{
    struct cay_v1_secret_binding_array list = {
        .items = cay_arena_array(arena, CAY_EGRESS_SECRETS_MAX, sizeof(*list.items))};
    if (!list.items)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    for (size_t i = 0; i < now->count; i++) {
        if (!is_in(remove, now->items[i].variable))
            (void)put(&list, &now->items[i]);
    }
    for (size_t i = 0; i < set->count; i++) {
        struct cay_v1_secret_binding binding;
        if (!read_one(&set->items[i], arena, &binding, err))
            return false;
        if (!put(&list, &binding))
            return cay_fail(err, CAY_R_INVALID_ARGUMENT, "secrets: a session has %d at most",
                            CAY_EGRESS_SECRETS_MAX);
    }
    if (list.count && (!network || network->mode != CAY_V1_NETWORK_MODE_FILTERED))
        return cay_fail(err, CAY_R_FAILED_PRECONDITION,
                        "secrets need a network that is filtered, for no other puts them into "
                        "requests; give the session one ('--network filtered'), or remove '%.*s'",
                        (int)list.items[0].variable.len, list.items[0].variable.ptr);
    *out_bindings = list;
    return true;
}

struct cay_str cay_binding_rule(const struct cay_v1_secret_binding *binding,
                                struct cay_arena *arena)
{
    const char *text = cay_arena_printf(arena, "%.*s:%d", (int)binding->host.len, binding->host.ptr,
                                        CAY_BINDING_PORT);
    return text ? cay_str(text) : (struct cay_str){};
}

void cay_binding_placeholder(const struct cay_session *session,
                             const struct cay_v1_secret_binding *binding,
                             char out[CAY_PLACEHOLDER_SIZE])
{
    cay_token_placeholder(&session->host->tokens, session->id, session->created_ns,
                          binding->variable, out);
}

bool cay_bindings_env(const struct cay_session *session, struct cay_arena *arena,
                      struct cay_pb_pairs *out_env)
{
    const struct cay_v1_secret_binding_array *bindings = &session->spec->secrets;
    *out_env = (struct cay_pb_pairs){};
    if (!cay_trust_is_needed(session->host, session->spec))
        return true;
    struct cay_pb_pair *items =
        cay_arena_array(arena, bindings->count + CAY_TRUST_VARIABLES_MAX, sizeof(*items));
    if (!items)
        return false;
    size_t count = cay_trust_env(session, items);
    for (size_t i = 0; i < bindings->count; i++) {
        char placeholder[CAY_PLACEHOLDER_SIZE];
        cay_binding_placeholder(session, &bindings->items[i], placeholder);
        items[count++] = (struct cay_pb_pair){.key = bindings->items[i].variable,
                                              .value = cay_arena_str(arena, cay_str(placeholder))};
    }
    *out_env = (struct cay_pb_pairs){items, count};
    return true;
}
