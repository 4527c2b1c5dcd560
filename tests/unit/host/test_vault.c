/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/secrets/vault.h"
#include "tests/unit/host/db_files.h"

#define VALUE "sk-a-value-that-is-found-nowhere"

struct fixture {
    char dir[64];
    char path[96];
    char key_path[96];
    int dir_fd;
    struct cay_db *db;
    struct cay_vault vault;
};

static void open_vault(struct fixture *self)
{
    struct cay_error err = {};
    assert_true(cay_db_open(self->path, &self->db, &err));
    assert_true(cay_vault_init(&self->vault, self->db, self->dir_fd, NULL, &err));
}

static void close_vault(struct fixture *self)
{
    cay_vault_finish(&self->vault);
    cay_db_close(cay_take_ptr(self->db));
}

static int setup(void **state)
{
    struct fixture *self = cay_new(struct fixture);
    snprintf(self->dir, sizeof(self->dir), "/tmp/cay-test-XXXXXX");
    assert_non_null(mkdtemp(self->dir));
    snprintf(self->path, sizeof(self->path), "%s/cay.db", self->dir);
    snprintf(self->key_path, sizeof(self->key_path), "%s/secrets.key", self->dir);
    self->dir_fd = open(self->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    open_vault(self);
    *state = self;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *self = *state;
    close_vault(self);
    close(self->dir_fd);
    remove_database(self->path);
    unlink(self->key_path);
    assert_int_equal(rmdir(self->dir), 0);
    free(self);
    return 0;
}

static bool try_put(struct fixture *self, const char *owner, const char *name, const char *value,
                    struct cay_error *err)
{
    struct cay_vault_entry *entry = NULL;
    if (!cay_vault_entry_make(&self->vault, owner, name, cay_str(value), &entry, err))
        return false;
    if (cay_vault_put(entry, self->db, err)) {
        cay_vault_add(&self->vault, entry);
        return true;
    }
    cay_vault_entry_free(entry);
    return false;
}

static void put(struct fixture *self, const char *owner, const char *name, const char *value)
{
    struct cay_error err = {};
    assert_true(try_put(self, owner, name, value, &err));
}

static void assert_value(struct fixture *self, const char *owner, const char *name,
                         const char *value)
{
    struct cay_error err = {};
    cay_auto(cay_secret_finish) struct cay_secret secret = {};
    const struct cay_vault_entry *entry = cay_vault_find(&self->vault, owner, cay_str(name));
    assert_non_null(entry);
    assert_true(cay_vault_take(&self->vault, entry, &secret, &err));
    assert_true(cay_str_is(cay_secret_view(&secret), value));
}

static bool file_has(const char *path, const char *text)
{
    static char bytes[1 << 20];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : read(fd, bytes, sizeof(bytes));
    if (fd >= 0)
        close(fd);
    return len > 0 && memmem(bytes, (size_t)len, text, strlen(text));
}

static void values_are_kept_sealed(void **state)
{
    struct fixture *self = *state;
    put(self, "alice", "openai", VALUE);
    assert_value(self, "alice", "openai", VALUE);
    const struct cay_vault_entry *entry = cay_vault_find(&self->vault, "alice", CAY_STR("openai"));
    struct cay_str sealed = cay_buf_str(&entry->sealed);
    assert_null(memmem(sealed.ptr, sealed.len, VALUE, strlen(VALUE)));
    assert_false(file_has(self->path, VALUE));
    char wal[128];
    snprintf(wal, sizeof(wal), "%s-wal", self->path);
    assert_true(file_has(wal, "openai"));
    assert_false(file_has(wal, VALUE));
    close_vault(self);
    assert_true(file_has(self->path, "openai"));
    assert_false(file_has(self->path, VALUE));
    open_vault(self);
    assert_value(self, "alice", "openai", VALUE);
}

static void the_key_is_in_a_file_for_its_owner_only(void **state)
{
    struct fixture *self = *state;
    struct stat info;
    assert_int_equal(stat(self->key_path, &info), -1); /* nobody has needed one */
    put(self, "alice", "openai", VALUE);
    assert_int_equal(stat(self->key_path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    assert_int_equal(info.st_size, 32);
    close_vault(self);
    struct cay_error err = {};
    struct cay_vault other = {};
    assert_true(cay_db_open(self->path, &self->db, &err));
    assert_int_equal(chmod(self->key_path, 0640), 0);
    assert_false(cay_vault_init(&other, self->db, self->dir_fd, NULL, &err));
    assert_non_null(strstr(err.text, "mode 0600"));
    cay_vault_finish(&other);
    assert_int_equal(chmod(self->key_path, 0600), 0);
    assert_int_equal(truncate(self->key_path, 31), 0);
    assert_false(cay_vault_init(&other, self->db, self->dir_fd, NULL, &err));
    assert_int_equal(err.reason, CAY_R_DATA_LOSS);
    cay_vault_finish(&other);
    unlink(self->key_path);
    cay_db_close(cay_take_ptr(self->db));
    open_vault(self);
}

static void without_its_key_a_secret_is_lost_and_can_be_set_again(void **state)
{
    struct fixture *self = *state;
    put(self, "alice", "openai", VALUE);
    close_vault(self);
    unlink(self->key_path);
    open_vault(self);
    for (int i = 0; i < 2; i++) {
        struct cay_error err = {};
        struct cay_secret secret = {};
        const struct cay_vault_entry *entry =
            cay_vault_find(&self->vault, "alice", CAY_STR("openai"));
        assert_false(cay_vault_take(&self->vault, entry, &secret, &err));
        assert_int_equal(err.reason, CAY_R_DATA_LOSS);
        assert_null(secret.bytes);
        put(self, "alice", "other", "x"); /* makes a new key: the old value does not open by it */
    }
    put(self, "alice", "openai", "again");
    assert_value(self, "alice", "openai", "again");
}

static void a_record_of_another_name_does_not_open(void **state)
{
    struct fixture *self = *state;
    put(self, "alice", "one", VALUE);
    put(self, "bob", "one", "y");
    struct cay_vault_entry *stolen = cay_vault_find(&self->vault, "bob", CAY_STR("one"));
    const struct cay_vault_entry *entry = cay_vault_find(&self->vault, "alice", CAY_STR("one"));
    cay_buf_clear(&stolen->sealed, 0);
    cay_buf_append_str(&stolen->sealed, cay_buf_str(&entry->sealed));
    struct cay_error err = {};
    struct cay_secret secret = {};
    assert_false(cay_vault_take(&self->vault, stolen, &secret, &err));
    for (size_t len = 0; len < stolen->sealed.len; len++) {
        struct cay_str part = {stolen->sealed.data, len};
        assert_false(cay_seal_unwrap(&self->vault.seal, CAY_STR("alice/one"), part, &secret, &err));
    }
    assert_null(secret.bytes);
}

static void a_value_is_replaced(void **state)
{
    struct fixture *self = *state;
    put(self, "alice", "openai", "first");
    int64_t created_ns = cay_vault_find(&self->vault, "alice", CAY_STR("openai"))->created_ns;
    cay_vault_used(cay_vault_find(&self->vault, "alice", CAY_STR("openai")));
    put(self, "alice", "openai", "second");
    assert_value(self, "alice", "openai", "second");
    const struct cay_vault_entry *entry = cay_vault_find(&self->vault, "alice", CAY_STR("openai"));
    assert_int_equal(entry->created_ns, created_ns);
    assert_true(entry->changed_ns > created_ns);
    assert_true(entry->last_used_ns >= created_ns && entry->is_dirty);
    struct cay_error err = {};
    assert_true(cay_vault_write_use("alice", "openai", entry->last_used_ns, self->db, &err));
    int64_t used_ns = entry->last_used_ns;
    close_vault(self);
    open_vault(self);
    assert_value(self, "alice", "openai", "second");
    entry = cay_vault_find(&self->vault, "alice", CAY_STR("openai"));
    assert_int_equal(entry->last_used_ns, used_ns);
    assert_int_equal(entry->created_ns, created_ns);
}

static void owners_have_their_own_in_order(void **state)
{
    struct fixture *self = *state;
    static const char *const wanted[] = {"a", "b", "c"};
    put(self, "alice", "c", "1");
    put(self, "bob", "b", "2");
    put(self, "alice", "a", "3");
    put(self, "alice", "b", "4");
    const struct cay_vault_entry *entry = NULL;
    for (size_t i = 0; i < CAY_COUNT(wanted); i++) {
        entry = cay_vault_next(&self->vault, "alice", entry);
        assert_string_equal(entry->name, wanted[i]);
    }
    assert_null(cay_vault_next(&self->vault, "alice", entry));
    assert_null(cay_vault_find(&self->vault, "bob", CAY_STR("a")));
    assert_null(cay_vault_find(&self->vault, "alice", CAY_STR("../bob/b")));
    struct cay_error err = {};
    assert_true(cay_vault_delete("alice", "b", self->db, &err));
    cay_vault_remove(&self->vault, "alice", "b");
    assert_null(cay_vault_find(&self->vault, "alice", CAY_STR("b")));
    close_vault(self);
    open_vault(self);
    assert_null(cay_vault_find(&self->vault, "alice", CAY_STR("b")));
    assert_value(self, "bob", "b", "2");
}

static void there_are_limits(void **state)
{
    struct fixture *self = *state;
    struct cay_error err = {};
    static char large[CAY_VAULT_VALUE_BYTES_MAX + 2];
    memset(large, 'x', sizeof(large) - 1);
    static const char *const wrong[] = {"", " x", "x\t", "a\nb", "a\rb", "a\x7f", "\x01", large};
    for (size_t i = 0; i < CAY_COUNT(wrong); i++) {
        assert_false(try_put(self, "alice", "x", wrong[i], &err));
        assert_int_equal(err.reason, CAY_R_INVALID_ARGUMENT);
    }
    large[CAY_VAULT_VALUE_BYTES_MAX] = '\0';
    put(self, "alice", "0", large);
    assert_value(self, "alice", "0", large);
    for (int i = 1; i < CAY_VAULT_OWNER_MAX; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%d", i);
        put(self, "alice", name, "x");
    }
    assert_false(try_put(self, "alice", "more", "x", &err));
    assert_int_equal(err.reason, CAY_R_RESOURCE_EXHAUSTED);
    put(self, "alice", "7", "again");
    put(self, "bob", "more", "x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(values_are_kept_sealed, setup, teardown),
        cmocka_unit_test_setup_teardown(the_key_is_in_a_file_for_its_owner_only, setup, teardown),
        cmocka_unit_test_setup_teardown(without_its_key_a_secret_is_lost_and_can_be_set_again,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_record_of_another_name_does_not_open, setup, teardown),
        cmocka_unit_test_setup_teardown(a_value_is_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(owners_have_their_own_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(there_are_limits, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
