/* SPDX-License-Identifier: Apache-2.0 */
#include "host/base/base_keep.h"

#include "api/noun.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/log.h"
#include "base/stop.h"
#include "host/base/base_record.h"
#include "host/owner/account.h"
#include "host/session/host.h"
#include "host/session/request.h"
#include "host/session/session.h"
#include "host/store/base.h"

static bool is_own(const char *key)
{
    return strcmp(key, "host") == 0 || strncmp(key, "host-", 5) == 0;
}

bool cay_base_check_name(const struct cay_host *host, const struct cay_caller *caller,
                         struct cay_str name, const char *field,
                         char out_key[static CAY_STORE_NAME_SIZE], struct cay_error *err)
{
    if (!cay_base_key(name, out_key) || !cay_str_is(name, out_key) || is_own(out_key))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "%s: 1 to 128 letters, digits, '.', '_' or '-'; '/' and ':' are for "
                        "aliases, and host is Cay's own",
                        field);
    const struct cay_v1_base *old = cay_bases_record(host, out_key);
    if (caller->role == CAY_ROLE_ADMIN || (old && cay_str_is(old->owner, caller->owner)) ||
        cay_base_key_of_owner(caller->owner, name, out_key))
        return true;
    return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "%s: with '%.128s/' in front, as bases of yours are called, it is too long or "
                    "not a name; give a shorter one",
                    field, caller->owner);
}

bool cay_base_check_alias(struct cay_str alias, const char *field,
                          char out_key[static CAY_STORE_NAME_SIZE], struct cay_error *err)
{
    if (cay_base_key(alias, out_key) && !is_own(out_key))
        return true;
    return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "%s: 1 to 128 letters, digits, '.', '_' or '-'; host is Cay's own", field);
}

bool cay_base_check_owns_alias(const struct cay_caller *caller, struct cay_str alias,
                               struct cay_error *err)
{
    size_t len = strlen(caller->owner);
    if (caller->role == CAY_ROLE_ADMIN ||
        (cay_str_starts(alias, caller->owner) && alias.len > len && alias.ptr[len] == '/'))
        return true;
    return cay_fail(err, CAY_R_PERMISSION_DENIED,
                    "aliases: yours begin with '%.100s/'; only an admin key gives others",
                    caller->owner);
}

bool cay_base_check_settings(const struct cay_host *host,
                             const struct cay_v1_base_settings *settings, struct cay_error *err)
{
    struct cay_v1_resource_limits ignored;
    struct cay_runtime *runtime = NULL;
    if (!settings)
        return true;
    if (settings->ready_command.count && !settings->start_command.count)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "ready_command: it needs a start_command, which is missing");
    const struct cay_pb_pairs no_env = {};
    return (!settings->start_command.count ||
            cay_check_argv(settings->start_command, no_env, err)) &&
           (!settings->ready_command.count ||
            cay_check_argv(settings->ready_command, no_env, err)) &&
           cay_check_env(settings->env, err) && cay_check_user(settings->user, err) &&
           cay_check_cwd(settings->cwd, err) &&
           cay_runtimes_choose(&host->runtimes, settings->runtime, false, &runtime, err) &&
           cay_check_limits(settings->limits, &host->default_limits, &ignored, err);
}

bool cay_base_check_aliases(struct cay_pb_strs aliases, struct cay_arena *arena,
                            char (**out_keys)[CAY_STORE_NAME_SIZE], struct cay_error *err)
{
    if (aliases.count > CAY_BASE_ALIASES_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "aliases: %d at most", CAY_BASE_ALIASES_MAX);
    /* One more than that: an import may add one. */
    *out_keys = cay_arena_array(arena, aliases.count + 1, sizeof(**out_keys));
    if (!*out_keys)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    for (size_t i = 0; i < aliases.count; i++) {
        if (!cay_base_check_alias(aliases.items[i], "aliases", (*out_keys)[i], err))
            return false;
    }
    return true;
}

bool cay_base_check_free(struct cay_store *store, const char *key, struct cay_error *err)
{
    char found[CAY_STORE_NAME_SIZE];
    struct cay_error ignored = {};
    return !cay_store_base_resolve(store, key, found, &ignored) || cay_store_base_taken(err, key);
}

void cay_base_keeping_claim(struct cay_base_keeping *self, const struct cay_caller *caller,
                            const struct cay_session *from, int64_t makes_way_bytes)
{
    struct cay_host *host = self->host;
    const struct cay_v1_base *base = cay_bases_find(host, from->spec->base);
    if (caller->role == CAY_ROLE_ADMIN) /* what it makes is everybody's */
        return;
    bool is_own = base && cay_str_is(base->owner, caller->owner);
    /* Another base may have come in the place of the one that the session stands on. */
    bool is_same = base ? cay_noun_time_ns(base->created_at) <= from->created_ns &&
                              !(is_own && from->spec->parent_session_id.len)
                        : cay_str_starts(from->spec->base, "host");
    self->is_all_own = !is_same;
    self->inherited_bytes = is_own ? cay_base_own_bytes(base) : 0;
    cay_disk_claim_begin_base(&self->disk, host, caller, cay_account_of(host, caller->owner),
                              makes_way_bytes);
}

void cay_base_keeping_unclaim(struct cay_base_keeping *self)
{
    cay_disk_claim_end(&self->disk);
}

/* Others that share it may go. */
static int64_t whole_of(const struct cay_store_usage *usage)
{
    return (int64_t)(usage->whole_bytes ? usage->whole_bytes
                                        : usage->own_bytes + usage->history_bytes);
}

bool cay_base_keeping_measure(struct cay_base_keeping *self, const struct cay_store_ref *tree,
                              struct cay_error *err)
{
    struct cay_store *store = self->host->store;
    struct cay_store_usage usage;
    if (!self->disk.account || self->is_all_own)
        return true;
    if (!cay_store_usage(store, tree, &usage, err))
        return false;
    if (usage.is_behind &&
        (!cay_store_sync(store, err) || !cay_store_usage(store, tree, &usage, err)))
        return false;
    self->spec.has_own_bytes = true;
    self->spec.own_bytes = self->inherited_bytes + whole_of(&usage);
    return cay_disk_claim_take(&self->disk, self->spec.own_bytes, err);
}

static bool write_down(void *ctx, const struct cay_base_info *info, struct cay_error *err)
{
    struct cay_base_keeping *self = ctx;
    self->spec.name = cay_str(self->name);
    self->spec.digest = cay_arena_str(self->arena, cay_str(info->digest));
    self->spec.created_at = cay_noun_time(self->arena, cay_clock_wall_ns());
    memcpy(self->draft_id, info->id, sizeof(self->draft_id));
    self->is_recorded =
        self->replaces ? cay_base_record_begin_replace(self->host->db, info->id, &self->spec, err)
                       : cay_base_record_add(self->host->db, &self->spec, err);
    CAY_CRASH_POINT("base.recorded");
    return self->is_recorded;
}

bool cay_base_keeping_run(struct cay_base_keeping *self, struct cay_store_base_draft *draft,
                          struct cay_error *err)
{
    struct cay_store *store = self->host->store;
    struct cay_base_info info = {};
    struct cay_error ignored = {};
    const struct cay_base_options options = {.replaces = self->replaces,
                                             .skips_digest = self->skips_digest,
                                             .ready = write_down,
                                             .ready_ctx = self};
    if (!self->replaces && !cay_base_check_free(store, self->name, err)) {
        cay_store_base_abort(store, draft);
        return false;
    }
    self->is_named = cay_base_keep(store, draft, self->name, &options, &info, err);
    bool is_good = self->is_named;
    struct cay_store_usage usage;
    const struct cay_store_ref ref = {.base = self->name};
    if (is_good && cay_store_usage(store, &ref, &usage, &ignored)) {
        self->spec.size_bytes = (int64_t)usage.own_bytes;
        self->spec.entry_count = (int64_t)usage.entries;
        if (self->is_all_own) {
            self->spec.has_own_bytes = true;
            self->spec.own_bytes = whole_of(&usage);
            is_good = cay_disk_claim_take(&self->disk, self->spec.own_bytes, err);
        }
    }
    /* Then it may not have been measured. What stood there is gone, if it replaces that. */
    if (is_good && !self->replaces && cay_stop_asked())
        is_good = cay_fail(err, CAY_R_CANCELED, NULL);
    for (size_t i = 0; is_good && i < self->alias_count; i++)
        is_good = cay_store_base_alias(store, self->aliases[i], self->name, err);
    CAY_CRASH_POINT("base.kept");
    if (!is_good)
        cay_base_keeping_take_back(self);
    return is_good;
}

bool cay_base_keeping_confirm(struct cay_base_keeping *self, struct cay_error *err)
{
    return self->replaces
               ? cay_base_record_end_replace(self->host->db, self->draft_id, &self->spec, err)
               : cay_base_record_keep(self->host->db, &self->spec, err);
}

/* What stood there is gone for good: the new one stays, or it never came. */
static bool settle_replace(struct cay_base_keeping *self, struct cay_error *err)
{
    self->is_switched = self->is_named;
    if (self->is_named)
        return cay_base_keeping_confirm(self, err);
    return !self->is_recorded ||
           cay_base_record_abort_replace(self->host->db, self->draft_id, self->name, err);
}

static bool remove_both(struct cay_base_keeping *self, struct cay_error *err)
{
    if (self->is_named && !cay_store_base_remove(self->host->store, self->name, err))
        return false;
    return !self->is_recorded || cay_base_record_take_back(self->host->db, self->name, err);
}

/* What cannot be done now, the next start does. */
void cay_base_keeping_take_back(struct cay_base_keeping *self)
{
    struct cay_error left = {};
    if (!(self->replaces ? settle_replace : remove_both)(self, &left))
        cay_log(CAY_WARN, "base.undo_failed", CAY_S("base", self->name), CAY_ERR(&left));
    self->is_named = self->is_recorded = false;
}
