/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay_v1.h"
#include "api/limits.h"
#include "base/clock.h"
#include "base/quantity.h"
#include "cli/command.h"
#include "wire/pb/pb_wkt.h"

enum { KEYS_MAX = 100'000 }; /* of one listing: bounds what a daemon can make us hold */

static const char *role_name(const struct cay_v1_key *key)
{
    bool is_admin = key->role == CAY_V1_KEY_ROLE_ADMIN;
    if (key->may_vouch)
        return is_admin ? "admin, vouches" : "user, vouches";
    return is_admin ? "admin" : "user";
}

/* "30d" from now, or a time. */
static bool read_expiry(const char *text, struct google_protobuf_timestamp *out_time,
                        struct cay_error *err)
{
    int64_t ms = 0;
    if (cay_duration_parse(cay_str(text), &ms) == 0 && ms > 0) {
        int64_t now_ns = cay_clock_wall_ns();
        *out_time = (struct google_protobuf_timestamp){
            .seconds = now_ns / CAY_NS_PER_SEC + ms / 1000,
            .nanos = 0,
        };
        return true;
    }
    if (cay_pb_timestamp_parse(cay_str(text), out_time) == 0)
        return true;
    return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "--expires '%.40s' is neither a duration (12h, 30d) nor a time "
                    "(2030-01-31T00:00:00Z)",
                    text);
}

static void print_created(struct cay_output *out, const struct cay_v1_create_key_response *response)
{
    const struct cay_v1_key *key = response->key;
    if (key) {
        char expires[CAY_WHEN_BYTES];
        cay_output_when(key->expires_at, cay_clock_wall_ns(), expires);
        cay_output_printf(out, "A new %s key for owner ", role_name(key));
        cay_output_text(out, CAY_STYLE_BOLD, key->owner);
        cay_output_printf(out, " (id ");
        cay_output_text(out, CAY_STYLE_PLAIN, key->id);
        cay_output_printf(out, ", expires %s):\n\n", expires);
    }
    cay_output_printf(out, "  ");
    cay_output_text(out, CAY_STYLE_GOOD, response->secret);
    cay_output_printf(out, "\n\nIt is shown only this once. To use it:\n\n"
                           "  read -rs CAY_API_KEY && export CAY_API_KEY   # and paste it\n");
}

static bool run_create(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_args *args = &cli->args;
    struct google_protobuf_timestamp expires = {};
    struct cay_v1_create_key_response response = {};
    struct cay_v1_create_key_request request = {
        .owner = cay_str(cay_args_text(args, "owner")),
        .name = cay_str(cay_args_text(args, "name")),
        .e2b = cay_args_has(args, "e2b"),
        .may_vouch = cay_args_has(args, "vouch"),
        .role = cay_args_has(args, "admin") ? CAY_V1_KEY_ROLE_ADMIN : CAY_V1_KEY_ROLE_USER,
    };
    const char *expiry = cay_args_text(args, "expires");
    if (expiry) {
        if (!read_expiry(expiry, &expires, err))
            return false;
        request.expires_at = &expires;
    }
    if (!cay_cli_call(cli, CAY_V1_KEY_SERVICE_CREATE_KEY, &request, &response, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_create_key_response_desc, &response, err);
    if (cli->out.is_terminal) {
        print_created(&cli->out, &response);
    } else {
        /* For `KEY=$(cay key create)`. */
        cay_output_text(&cli->out, CAY_STYLE_PLAIN, response.secret);
        cay_output_printf(&cli->out, "\n");
    }
    return true;
}

static bool add_page(struct cay_cli *cli, struct cay_v1_key_array *keys,
                     const struct cay_v1_key_array *page, struct cay_error *err)
{
    struct cay_v1_key *items =
        cay_arena_array(&cli->arena, keys->count + page->count, sizeof(*items));
    if (!items || keys->count + page->count > KEYS_MAX)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "there are too many keys to list; use --owner");
    if (keys->count)
        memcpy(items, keys->items, keys->count * sizeof(*items));
    if (page->count)
        memcpy(items + keys->count, page->items, page->count * sizeof(*items));
    keys->items = items;
    keys->count += page->count;
    return true;
}

static bool list_all(struct cay_cli *cli, struct cay_v1_key_array *keys, struct cay_error *err)
{
    struct cay_v1_list_keys_request request = {
        .owner = cay_str(cay_args_text(&cli->args, "owner")),
        .include_revoked = cay_args_has(&cli->args, "all"),
        .page_size = CAY_LIMIT_PAGE_SIZE,
    };
    do {
        struct cay_v1_list_keys_response page = {};
        if (!cay_cli_call(cli, CAY_V1_KEY_SERVICE_LIST_KEYS, &request, &page, err) ||
            !add_page(cli, keys, &page.keys, err))
            return false;
        if (page.next_page_token.len && !page.keys.count)
            return cay_fail(err, CAY_R_INTERNAL, "the daemon's list of keys does not end");
        request.page_token = page.next_page_token;
    } while (request.page_token.len);
    return true;
}

static void print_keys(struct cay_output *out, const struct cay_v1_key_array *keys)
{
    static const char *const titles[] = {"ID",      "OWNER",     "ROLE",    "NAME", "SECRET",
                                         "CREATED", "LAST USED", "EXPIRES", "STATE"};
    int64_t now_ns = cay_clock_wall_ns();
    cay_auto(cay_table_finish) struct cay_table table;
    cay_table_init(&table, titles, CAY_COUNT(titles));
    for (size_t i = 0; i < keys->count; i++) {
        const struct cay_v1_key *key = &keys->items[i];
        char when[CAY_WHEN_BYTES];
        bool is_expired = key->expires_at && key->expires_at->seconds < now_ns / CAY_NS_PER_SEC;
        char secret[64];
        snprintf(secret, sizeof(secret), "%.*s…", (int)CAY_MIN(key->prefix.len, (size_t)40),
                 key->prefix.ptr ? key->prefix.ptr : "");
        cay_table_cell(&table, CAY_STYLE_PLAIN, key->id);
        cay_table_cell(&table, CAY_STYLE_PLAIN, key->owner);
        cay_table_cell(&table,
                       key->role == CAY_V1_KEY_ROLE_ADMIN || key->may_vouch ? CAY_STYLE_WARN : 0,
                       cay_str(role_name(key)));
        cay_table_cell(&table, CAY_STYLE_PLAIN, key->name);
        cay_table_cell(&table, CAY_STYLE_DIM, cay_str(secret));
        cay_output_when(key->created_at, now_ns, when);
        cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(when));
        cay_output_when(key->last_used_at, now_ns, when);
        cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(when));
        cay_output_when(key->expires_at, now_ns, when);
        cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(when));
        if (key->revoked || is_expired)
            cay_table_cell(&table, CAY_STYLE_BAD, cay_str(key->revoked ? "revoked" : "expired"));
        else
            cay_table_cell(&table, CAY_STYLE_GOOD, CAY_STR("active"));
    }
    cay_table_print(&table, out);
}

static bool run_ls(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_list_keys_response all = {};
    if (!list_all(cli, &all.keys, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_list_keys_response_desc, &all, err);
    if (all.keys.count)
        print_keys(&cli->out, &all.keys);
    else if (cli->out.is_terminal)
        cay_output_printf(&cli->out, "There are no keys; 'cay key create' makes one.\n");
    return true;
}

static bool run_revoke(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_revoke_key_request request = {.key_id = cay_str(cli->args.words[0])};
    struct cay_v1_revoke_key_response response = {};
    if (!cay_cli_call(cli, CAY_V1_KEY_SERVICE_REVOKE_KEY, &request, &response, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_revoke_key_response_desc, &response, err);
    cay_output_printf(&cli->out, "revoked ");
    cay_output_text(&cli->out, CAY_STYLE_PLAIN, request.key_id);
    cay_output_printf(&cli->out, "\n");
    return true;
}

static const struct cay_flag create_flags[] = {
    {.name = "owner",
     .value = "OWNER",
     .help = "who owns what is made with the key; the owner that you call as otherwise"},
    {.name = "name", .value = "NAME", .help = "a name to recognise the key by"},
    {.name = "admin", .help = "let the key do everything, for all owners"},
    {.name = "vouch",
     .help = "for a gateway: trust it to say on whose behalf it calls; with --admin, anybody's"},
    {.name = "e2b", .help = "give the key the form that E2B clients expect (e2b_…)"},
    {.name = "expires",
     .value = "WHEN",
     .help = "when it expires: after 12h, 30d …, or at 2030-01-31T00:00:00Z"},
    {},
};

static const struct cay_flag ls_flags[] = {
    {.name = "all", .help = "list keys that were revoked or have expired, too"},
    {.name = "owner", .value = "OWNER", .help = "only the keys of this owner"},
    {},
};

const struct cay_command cay_command_key_create = {
    .name = "key create",
    .arguments = "",
    .summary = "Make an API key and print its secret",
    .details =
        "The secret is shown only this once: the daemon keeps a hash of it. When the output\n"
        "is not a terminal, the secret is all that is printed. The command needs an admin key,\n"
        "or the daemon's Unix socket as root.",
    .examples = "  cay key create --owner alice --expires 30d\n"
                "  CAY_API_KEY=$(cay key create --owner ci --name runner-7)",
    .flags = create_flags,
    .group = CAY_GROUP_HOST,
    .run = run_create,
};

const struct cay_command cay_command_key_ls = {
    .name = "key ls",
    .arguments = "",
    .summary = "List API keys, newest first",
    .details = "The list has the first characters of each secret, never all of it.",
    .flags = ls_flags,
    .group = CAY_GROUP_HOST,
    .run = run_ls,
};

const struct cay_command cay_command_key_revoke = {
    .name = "key revoke",
    .arguments = "ID",
    .summary = "Make an API key useless at once",
    .details =
        "ID is the one that 'cay key ls' shows, not the secret. Revoking it again does no harm.",
    .group = CAY_GROUP_HOST,
    .words_min = 1,
    .words_max = 1,
    .run = run_revoke,
};
