/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/keys/keys.h"
#include "tests/unit/host/db_files.h"

struct fixture {
    char dir[64];
    char path[96];
    struct cay_db *db;
    struct cay_keys keys;
};

static void open_keys(struct fixture *self)
{
    struct cay_error err = {};
    assert_true(cay_db_open(self->path, &self->db, &err));
    assert_true(cay_keys_init(&self->keys, self->db, &err));
}

static void close_keys(struct fixture *self)
{
    cay_keys_finish(&self->keys);
    cay_db_close(cay_take_ptr(self->db));
}

static int setup(void **state)
{
    struct fixture *self = cay_new(struct fixture);
    snprintf(self->dir, sizeof(self->dir), "/tmp/cay-test-XXXXXX");
    assert_non_null(mkdtemp(self->dir));
    snprintf(self->path, sizeof(self->path), "%s/cay.db", self->dir);
    open_keys(self);
    *state = self;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *self = *state;
    close_keys(self);
    remove_database(self->path);
    assert_int_equal(rmdir(self->dir), 0);
    free(self);
    return 0;
}

static struct cay_key *make(struct fixture *self, enum cay_role role, int64_t expires_ns,
                            char out_secret[CAY_KEY_SECRET_BYTES])
{
    struct cay_error err = {};
    struct cay_key *key = cay_key_make("owner", role, "a name", false, expires_ns, out_secret);
    assert_true(cay_key_insert(key, self->db, &err));
    cay_keys_add(&self->keys, key);
    return key;
}

static void secrets_are_random_and_kept_as_digests_only(void **state)
{
    struct fixture *self = *state;
    char one[CAY_KEY_SECRET_BYTES];
    char two[CAY_KEY_SECRET_BYTES];
    const struct cay_key *key = make(self, CAY_ROLE_USER, 0, one);
    make(self, CAY_ROLE_USER, 0, two);
    assert_memory_equal(one, "cay_", 4);
    assert_int_equal(strlen(one), 44);
    assert_int_equal(strspn(one + 4, "0123456789abcdef"), 40);
    assert_string_not_equal(one, two);
    assert_memory_equal(key->prefix, one, 8);
    assert_int_equal(strlen(key->prefix), 8);
    char e2b[CAY_KEY_SECRET_BYTES];
    free(cay_key_make("o", CAY_ROLE_USER, "", true, 0, e2b));
    assert_memory_equal(e2b, "e2b_", 4);
    /* The secret stands nowhere in the database's files. */
    close_keys(self);
    FILE *file = fopen(self->path, "re");
    assert_non_null(file);
    static char bytes[1 << 20];
    size_t len = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    assert_true(len > 0);
    assert_non_null(memmem(bytes, len, "a name", 6));
    assert_null(memmem(bytes, len, one + 8, 20));
    open_keys(self);
}

static bool authenticate(struct fixture *self, const char *secret, struct cay_caller *out_caller,
                         struct cay_error *err)
{
    *err = (struct cay_error){};
    *out_caller = (struct cay_caller){};
    return cay_keys_authenticate(&self->keys, cay_str(secret), out_caller, err);
}

static void a_key_opens_as_its_owner(void **state)
{
    struct fixture *self = *state;
    struct cay_caller caller;
    struct cay_error err;
    char user[CAY_KEY_SECRET_BYTES];
    char admin[CAY_KEY_SECRET_BYTES];
    const struct cay_key *key = make(self, CAY_ROLE_USER, 0, user);
    make(self, CAY_ROLE_ADMIN, 0, admin);
    assert_true(authenticate(self, user, &caller, &err));
    assert_int_equal(caller.role, CAY_ROLE_USER);
    assert_string_equal(caller.owner, "owner");
    assert_string_equal(caller.key_id, key->id);
    assert_true(key->is_dirty);
    assert_true(key->last_used_ns > 0);
    assert_true(authenticate(self, admin, &caller, &err));
    assert_int_equal(caller.role, CAY_ROLE_ADMIN);
}

static void every_refusal_is_the_same(void **state)
{
    struct fixture *self = *state;
    struct cay_caller caller;
    struct cay_error unknown;
    struct cay_error err;
    char revoked[CAY_KEY_SECRET_BYTES];
    char expired[CAY_KEY_SECRET_BYTES];
    make(self, CAY_ROLE_ADMIN, 0, revoked)->revoked_ns = 1;
    make(self, CAY_ROLE_ADMIN, cay_clock_wall_ns() - 1, expired);
    assert_false(
        authenticate(self, "cay_0000000000000000000000000000000000000000", &caller, &unknown));
    assert_int_equal(unknown.reason, CAY_R_UNAUTHENTICATED);
    const char *const bad[] = {"", "cay_", revoked, expired, "x"};
    for (size_t i = 0; i < CAY_COUNT(bad); i++) {
        assert_false(authenticate(self, bad[i], &caller, &err));
        assert_memory_equal(&err, &unknown, sizeof(err));
        assert_int_equal(caller.role, 0);
        assert_string_equal(caller.owner, "");
    }
    /* Almost right is wrong. */
    char secret[CAY_KEY_SECRET_BYTES];
    make(self, CAY_ROLE_USER, 0, secret);
    for (size_t i = 0; i < strlen(secret); i++) {
        secret[i] ^= 1;
        assert_false(authenticate(self, secret, &caller, &err));
        secret[i] ^= 1;
    }
    struct cay_str longer = {secret, sizeof(secret)}; /* with the NUL */
    assert_false(cay_keys_authenticate(&self->keys, longer, &caller, &err));
    longer.len -= 2;
    assert_false(cay_keys_authenticate(&self->keys, longer, &caller, &err));
    assert_true(authenticate(self, secret, &caller, &err));
}

static void keys_survive_a_reopen_as_they_were(void **state)
{
    struct fixture *self = *state;
    struct cay_caller caller;
    struct cay_error err = {};
    char good[CAY_KEY_SECRET_BYTES];
    char revoked[CAY_KEY_SECRET_BYTES];
    char later[CAY_KEY_SECRET_BYTES];
    struct cay_key before = *make(self, CAY_ROLE_ADMIN, 0, good);
    struct cay_key *gone = make(self, CAY_ROLE_USER, 0, revoked);
    int64_t expires_ns = cay_clock_wall_ns() + INT64_C(3600) * CAY_NS_PER_SEC;
    make(self, CAY_ROLE_USER, expires_ns, later);
    char trusted[CAY_KEY_SECRET_BYTES];
    struct cay_key *voucher = cay_key_make("gateway", CAY_ROLE_USER, "", false, 0, trusted);
    voucher->may_vouch = true;
    assert_true(cay_key_insert(voucher, self->db, &err));
    cay_keys_add(&self->keys, voucher);
    gone->revoked_ns = cay_clock_wall_ns();
    assert_true(cay_key_update(gone, self->db, &err));
    close_keys(self);
    open_keys(self);
    assert_true(authenticate(self, good, &caller, &err));
    assert_int_equal(caller.role, CAY_ROLE_ADMIN);
    assert_false(caller.may_vouch);
    assert_true(authenticate(self, trusted, &caller, &err));
    assert_true(caller.may_vouch);
    assert_true(authenticate(self, later, &caller, &err));
    assert_false(authenticate(self, revoked, &caller, &err));
    const struct cay_key *after = cay_keys_find(&self->keys, cay_str(before.id));
    assert_non_null(after);
    assert_string_equal(after->name, before.name);
    assert_string_equal(after->prefix, before.prefix);
    assert_int_equal(after->created_ns, before.created_ns);
    /* Newest first. */
    int64_t newest = INT64_MAX;
    cay_list_for_each (struct cay_key, key, &self->keys.list, in_keys) {
        assert_true(key->created_ns <= newest);
        newest = key->created_ns;
    }
}

/* Writes run on workers, in any order: one that began before the revocation may end after it. */
static void a_late_write_does_not_undo_a_revocation(void **state)
{
    struct fixture *self = *state;
    struct cay_caller caller;
    struct cay_error err = {};
    char secret[CAY_KEY_SECRET_BYTES];
    struct cay_key *key = make(self, CAY_ROLE_USER, 0, secret);
    struct cay_key used = *key;
    used.last_used_ns = 1000;
    key->revoked_ns = 2000;
    key->last_used_ns = 3000;
    assert_true(cay_key_update(key, self->db, &err));
    assert_true(cay_key_update(&used, self->db, &err));
    char id[sizeof(used.id)];
    memcpy(id, used.id, sizeof(id));
    close_keys(self);
    open_keys(self);
    const struct cay_key *after = cay_keys_find(&self->keys, cay_str(id));
    assert_int_equal(after->revoked_ns, 2000);
    assert_int_equal(after->last_used_ns, 3000);
    assert_false(authenticate(self, secret, &caller, &err));
}

static void a_damaged_row_opens_nothing(void **state)
{
    struct fixture *self = *state;
    struct cay_error err = {};
    struct cay_db_query query;
    cay_db_begin(&query, self->db,
                 "INSERT INTO keys VALUES ('key-x', x'00', 'p', 'o', 2, 'n', 0, 1, 0, 0, 0, 0),"
                 " ('key-y', zeroblob(32), 'cay_1234567890', hex(zeroblob(300)), 7,"
                 "  hex(zeroblob(300)), 0, 1, 0, 0, 0, 7)");
    assert_true(cay_db_end(&query, &err));
    close_keys(self);
    open_keys(self);
    assert_null(cay_keys_find(&self->keys, CAY_STR("key-x")));
    const struct cay_key *key = cay_keys_find(&self->keys, CAY_STR("key-y"));
    assert_non_null(key);
    assert_int_equal(key->role, CAY_ROLE_USER);
    assert_int_equal(strlen(key->owner), sizeof(key->owner) - 1);
}

static void the_same_key_is_not_inserted_twice(void **state)
{
    struct fixture *self = *state;
    struct cay_error err = {};
    char secret[CAY_KEY_SECRET_BYTES];
    const struct cay_key *key = make(self, CAY_ROLE_USER, 0, secret);
    assert_false(cay_key_insert(key, self->db, &err));
    assert_non_null(strstr(err.text, "record the key"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(secrets_are_random_and_kept_as_digests_only),
        CASE(a_key_opens_as_its_owner),
        CASE(every_refusal_is_the_same),
        CASE(keys_survive_a_reopen_as_they_were),
        CASE(a_late_write_does_not_undo_a_revocation),
        CASE(a_damaged_row_opens_nothing),
        CASE(the_same_key_is_not_inserted_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
