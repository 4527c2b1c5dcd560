/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/cay_v1.h"
#include "host/service/service.h"
#include "host/service/service_internal.h"

/* The keys of the host behind the hallway, called without a door. */

struct fixture {
    struct cay_loop *loop;
    struct cay_host *host;
    struct cay_host_settings settings;
    char dir[64];
};

struct asked {
    struct cay_call call; /* first */
    struct cay_loop *loop;
    bool is_done;
    bool is_ok;
    struct cay_error err;
    char text[128]; /* a key's id, or a page token */
    char secret[64];
    size_t count;
};

static int remove_one(const char *path, const struct stat *, int, struct FTW *)
{
    return remove(path);
}

static struct cay_host_options host_options(struct fixture *self)
{
    self->settings = (struct cay_host_settings){.data_dir = self->dir,
                                                .run_dir = self->dir,
                                                .store = "fake",
                                                .runtime = "fake",
                                                .cgroup_parent = "",
                                                .default_base = "host",
                                                .snapshot_prefix = "turn",
                                                .port_bind = "127.0.0.1",
                                                .network_pool = "100.96.0.0/16"};
    return (struct cay_host_options){.settings = &self->settings, .init_path = "/nonexistent"};
}

static void open_host(struct fixture *self)
{
    struct cay_error err = {};
    const struct cay_host_options options = host_options(self);
    assert_int_equal(cay_loop_create(&self->loop), 0);
    if (!cay_host_create(self->loop, &options, &self->host, &err))
        fail_msg("%s", err.text);
}

static void close_host(struct fixture *self)
{
    cay_loop_finish_jobs(self->loop);
    cay_host_destroy(self->host);
    cay_loop_destroy(self->loop);
}

static int setup(void **state)
{
    struct fixture *self = cay_new(struct fixture);
    snprintf(self->dir, sizeof(self->dir), "/tmp/cay-test-XXXXXX");
    assert_non_null(mkdtemp(self->dir));
    open_host(self);
    *state = self;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *self = *state;
    close_host(self);
    assert_int_equal(nftw(self->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
    free(self);
    return 0;
}

static void keep(char *out, size_t size, struct cay_str text)
{
    snprintf(out, size, "%.*s", (int)text.len, text.len ? text.ptr : "");
}

static void on_done(struct cay_call *call, const void *response)
{
    struct asked *asked = (struct asked *)call;
    asked->is_done = asked->is_ok = true;
    if (call->method->index == CAY_V1_KEY_SERVICE_CREATE_KEY) {
        const struct cay_v1_create_key_response *created = response;
        keep(asked->text, sizeof(asked->text), created->key->id);
        keep(asked->secret, sizeof(asked->secret), created->secret);
    } else if (call->method->index == CAY_V1_KEY_SERVICE_LIST_KEYS) {
        const struct cay_v1_list_keys_response *list = response;
        keep(asked->text, sizeof(asked->text), list->next_page_token);
        asked->count = list->keys.count;
    }
    cay_loop_stop(asked->loop);
}

static void on_fail(struct cay_call *call, const struct cay_error *err)
{
    struct asked *asked = (struct asked *)call;
    asked->is_done = true;
    asked->err = *err;
    cay_loop_stop(asked->loop);
}

static const struct cay_call_ops call_ops = {.done = on_done, .fail = on_fail};

static struct asked ask(struct fixture *self, unsigned method, const void *request,
                        enum cay_role role, const char *owner)
{
    struct asked asked = {.loop = self->loop};
    asked.call.ops = &call_ops;
    asked.call.method = &cay_v1_methods[method];
    asked.call.request = request;
    asked.call.caller.role = role;
    snprintf(asked.call.caller.owner, sizeof(asked.call.caller.owner), "%s", owner);
    cay_arena_init(&asked.call.arena, 1 << 20);
    cay_service_call(cay_host_service(self->host), &asked.call);
    while (!asked.is_done)
        cay_loop_run(self->loop);
    cay_arena_finish(&asked.call.arena);
    return asked;
}

static struct asked create(struct fixture *self, const char *owner)
{
    const struct cay_v1_create_key_request request = {.owner = cay_str(owner)};
    return ask(self, CAY_V1_KEY_SERVICE_CREATE_KEY, &request, CAY_ROLE_ADMIN, "local");
}

static bool is_opened;

static void answered(struct cay_whois *, const struct cay_caller *caller, const struct cay_error *)
{
    is_opened = caller != NULL;
}

static bool opens(struct fixture *self, const char *secret)
{
    struct cay_whois whois = {.answered = answered};
    cay_service_authenticate(cay_host_service(self->host), cay_str(secret), &whois);
    assert_null(whois.service); /* the host knows its keys by heart */
    return is_opened;
}

static void keys_are_made_used_and_revoked(void **state)
{
    struct fixture *self = *state;
    struct asked made = create(self, "alice");
    assert_true(made.is_ok);
    assert_true(opens(self, made.secret));
    const struct cay_v1_revoke_key_request revoke = {.key_id = cay_str(made.text)};
    assert_true(ask(self, CAY_V1_KEY_SERVICE_REVOKE_KEY, &revoke, CAY_ROLE_ADMIN, "local").is_ok);
    assert_false(opens(self, made.secret));
    close_host(self);
    open_host(self);
    assert_false(opens(self, made.secret));
    /* Again is as good as once. */
    assert_true(ask(self, CAY_V1_KEY_SERVICE_REVOKE_KEY, &revoke, CAY_ROLE_ADMIN, "local").is_ok);
}

/* When a key was last used is written down behind the calls, on behalf of nobody's call. */
static void the_use_of_a_key_is_written_down_in_the_background(void **state)
{
    struct fixture *self = *state;
    struct asked made = create(self, "alice");
    assert_true(opens(self, made.secret));
    cay_host_flush_keys(self->host, false);
    cay_loop_finish_jobs(self->loop);
    assert_true(opens(self, made.secret));
}

static void a_user_sees_only_its_own(void **state)
{
    struct fixture *self = *state;
    struct asked alice = create(self, "alice");
    struct asked bob = create(self, "bob");
    const struct cay_v1_list_keys_request all = {};
    assert_int_equal(ask(self, CAY_V1_KEY_SERVICE_LIST_KEYS, &all, CAY_ROLE_ADMIN, "local").count,
                     2);
    assert_int_equal(ask(self, CAY_V1_KEY_SERVICE_LIST_KEYS, &all, CAY_ROLE_USER, "bob").count, 1);
    assert_int_equal(ask(self, CAY_V1_KEY_SERVICE_LIST_KEYS, &all, CAY_ROLE_USER, "eve").count, 0);
    const struct cay_v1_list_keys_request of_alice = {.owner = CAY_STR("alice")};
    assert_int_equal(ask(self, CAY_V1_KEY_SERVICE_LIST_KEYS, &of_alice, CAY_ROLE_USER, "bob").count,
                     0);
    const struct cay_v1_revoke_key_request revoke = {.key_id = cay_str(alice.text)};
    struct asked denied = ask(self, CAY_V1_KEY_SERVICE_REVOKE_KEY, &revoke, CAY_ROLE_USER, "bob");
    /* As if it were not there. */
    assert_int_equal(denied.err.reason, CAY_R_KEY_NOT_FOUND);
    assert_true(opens(self, alice.secret));
    const struct cay_v1_create_key_request request = {.role = CAY_V1_KEY_ROLE_ADMIN};
    denied = ask(self, CAY_V1_KEY_SERVICE_CREATE_KEY, &request, CAY_ROLE_USER, "bob");
    assert_int_equal(denied.err.reason, CAY_R_PERMISSION_DENIED);
    /* Nor does a user take an admin's key away, though it has the same owner. */
    struct asked admin = ask(self, CAY_V1_KEY_SERVICE_CREATE_KEY, &request, CAY_ROLE_ADMIN, "bob");
    const struct cay_v1_revoke_key_request revoke_admin = {.key_id = cay_str(admin.text)};
    denied = ask(self, CAY_V1_KEY_SERVICE_REVOKE_KEY, &revoke_admin, CAY_ROLE_USER, "bob");
    assert_int_equal(denied.err.reason, CAY_R_PERMISSION_DENIED);
    assert_true(opens(self, admin.secret));
    assert_true(opens(self, bob.secret));
}

static void pages_come_one_after_the_other(void **state)
{
    struct fixture *self = *state;
    for (int i = 0; i < 7; i++)
        create(self, i % 2 ? "odd" : "even");
    struct cay_v1_list_keys_request request = {.page_size = 3};
    size_t counts[] = {3, 3, 1};
    char token[128] = "";
    for (size_t i = 0; i < CAY_COUNT(counts); i++) {
        request.page_token = cay_str(token);
        struct asked page =
            ask(self, CAY_V1_KEY_SERVICE_LIST_KEYS, &request, CAY_ROLE_ADMIN, "local");
        assert_int_equal(page.count, counts[i]);
        assert_int_equal(*page.text == '\0', i == CAY_COUNT(counts) - 1);
        memcpy(token, page.text, sizeof(token));
    }
    static const struct cay_v1_list_keys_request bad[] = {
        {.page_size = -1}, {.page_size = 1001}, {.page_token = CAY_STR("nonsense")}};
    for (size_t i = 0; i < CAY_COUNT(bad); i++)
        assert_int_equal(
            ask(self, CAY_V1_KEY_SERVICE_LIST_KEYS, &bad[i], CAY_ROLE_ADMIN, "local").err.reason,
            CAY_R_INVALID_ARGUMENT);
}

static void requests_that_make_no_sense_are_refused(void **state)
{
    struct fixture *self = *state;
    char long_text[200];
    memset(long_text, 'x', sizeof(long_text));
    struct google_protobuf_timestamp past = {.seconds = 1};
    struct google_protobuf_timestamp never = {.seconds = INT64_MAX};
    const struct cay_v1_create_key_request bad[] = {
        {.owner = CAY_STR("..")},   {.owner = CAY_STR("a b")},   {.owner = CAY_STR("-a")},
        {.owner = CAY_STR("a\0b")}, {.owner = {long_text, 129}}, {.name = {long_text, 129}},
        {.name = CAY_STR("a\nb")},  {.name = CAY_STR("\xFF")},   {.role = (enum cay_v1_key_role)7},
        {.expires_at = &past},      {.expires_at = &never},
    };
    for (size_t i = 0; i < CAY_COUNT(bad); i++) {
        struct asked asked =
            ask(self, CAY_V1_KEY_SERVICE_CREATE_KEY, &bad[i], CAY_ROLE_ADMIN, "local");
        assert_int_equal(asked.err.reason, CAY_R_INVALID_ARGUMENT);
    }
    const struct cay_v1_create_key_request good = {.owner = {long_text, 128},
                                                   .name = {long_text, 128}};
    assert_true(ask(self, CAY_V1_KEY_SERVICE_CREATE_KEY, &good, CAY_ROLE_ADMIN, "local").is_ok);
}

static void verbs_that_nothing_implements_say_so(void **state)
{
    struct fixture *self = *state;
    const struct cay_service_ops *ops = cay_host_service(self->host)->ops;
    for (size_t i = 0; i < ops->method_count; i++) {
        if (ops->verbs[i])
            continue;
        struct asked asked = ask(self, (unsigned)i, NULL, CAY_ROLE_ADMIN, "local");
        assert_int_equal(asked.err.reason, CAY_R_UNIMPLEMENTED);
        assert_non_null(strstr(asked.err.text, cay_v1_methods[i].name));
    }
}

static void one_daemon_per_directory(void **state)
{
    struct fixture *self = *state;
    struct cay_error err = {};
    struct cay_host *second = NULL;
    const struct cay_host_options options = host_options(self);
    assert_false(cay_host_create(self->loop, &options, &second, &err));
    assert_int_equal(err.reason, CAY_R_ALREADY_EXISTS);
    assert_non_null(strstr(err.text, self->dir));
    assert_null(second);
}

static void a_directory_open_to_others_is_refused(void **state)
{
    struct fixture *self = *state;
    close_host(self);
    struct cay_error err = {};
    const struct cay_host_options options = host_options(self);
    chmod(self->dir, 0750);
    assert_int_equal(cay_loop_create(&self->loop), 0);
    assert_false(cay_host_create(self->loop, &options, &self->host, &err));
    assert_non_null(strstr(err.text, "chmod 700"));
    cay_loop_destroy(self->loop);
    chmod(self->dir, 0700);
    open_host(self);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(keys_are_made_used_and_revoked),
        CASE(the_use_of_a_key_is_written_down_in_the_background),
        CASE(a_user_sees_only_its_own),
        CASE(pages_come_one_after_the_other),
        CASE(requests_that_make_no_sense_are_refused),
        CASE(verbs_that_nothing_implements_say_so),
        CASE(one_daemon_per_directory),
        CASE(a_directory_open_to_others_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
