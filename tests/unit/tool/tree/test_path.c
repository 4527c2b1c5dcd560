/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tool/world.h"

#include "base/id.h"
#include "base/utf8.h"
#include "tool/tree/path.h"

static void assert_carried(struct cay_str bytes, const char *text)
{
    char encoded[64] = "";
    size_t len = cay_path_encoded_len(bytes);
    assert_true(len < sizeof(encoded));
    cay_path_encode(bytes, encoded);
    assert_string_equal(encoded, text);
    struct cay_path back;
    struct cay_error err;
    assert_true(cay_path_decode((struct cay_str){encoded, len}, &back, &err));
    assert_int_equal(back.len, bytes.len);
    assert_memory_equal(back.bytes, bytes.ptr, bytes.len);
}

static void bytes_that_are_not_utf8_travel_as_private_characters(void **)
{
    assert_carried(CAY_STR("plain/name"), "plain/name");
    assert_carried(CAY_STR("gr\xC3\xBC\xC3\x9F"), "gr\xC3\xBC\xC3\x9F");
    assert_carried(CAY_STR("a\xFF"), "a\xEE\xBF\xBF");               /* U+EFFF */
    assert_carried(CAY_STR("\x80z"), "\xEE\xBE\x80z");               /* U+EF80 */
    assert_carried(CAY_STR("\xE2\x82"), "\xEE\xBF\xA2\xEE\xBE\x82"); /* cut in the middle */
    assert_carried(CAY_STR("\xC0\xAF"), "\xEE\xBF\x80\xEE\xBE\xAF"); /* an overlong slash */
}

static void the_carrying_characters_themselves_are_carried_byte_by_byte(void **)
{
    /* U+EF80 as a name: its bytes EE BE 80 as U+EFEE U+EFBE U+EF80. */
    assert_carried(CAY_STR("\xEE\xBE\x80"), "\xEE\xBF\xAE\xEE\xBE\xBE\xEE\xBE\x80");
    /* Its neighbours U+EF7F and U+F000 are ordinary. */
    assert_carried(CAY_STR("\xEE\xBD\xBF\xEF\x80\x80"), "\xEE\xBD\xBF\xEF\x80\x80");
}

static void any_bytes_come_back_and_travel_as_valid_utf8(void **)
{
    for (int round = 0; round < 20000; round++) {
        unsigned char bytes[24];
        cay_random_bytes(bytes, sizeof(bytes));
        for (size_t i = 0; i < sizeof(bytes); i++) {
            if (round % 2) /* many carriers and halves of them */
                bytes[i] =
                    (unsigned char[]){0xEE, 0xBE, 0xBF, 0x80, 'a', 0xEF, 0xFF, '/'}[bytes[i] % 8];
            if (!bytes[i])
                bytes[i] = 1;
        }
        struct cay_str name = {(const char *)bytes, sizeof(bytes)};
        char text[128];
        size_t len = cay_path_encoded_len(name);
        cay_path_encode(name, text);
        assert_true(cay_utf8_valid((struct cay_str){text, len}));
        struct cay_path back;
        struct cay_error err;
        assert_true(cay_path_decode((struct cay_str){text, len}, &back, &err));
        assert_int_equal(back.len, name.len);
        assert_memory_equal(back.bytes, name.ptr, name.len);
    }
}

static void assert_resolved(struct world *world, const char *text, const char *path)
{
    struct cay_path out;
    if (!cay_path_resolve(&world->tree, cay_str(text), &out, &world->err))
        fail_msg("%s: %s", text, world->err.text);
    assert_string_equal(out.bytes, path);
    assert_int_equal(out.len, strlen(path));
}

static void paths_begin_at_the_root_the_cwd_or_the_home(void **state)
{
    struct world *world = *state;
    assert_resolved(world, "/a//b/./c", "/a/b/c");
    assert_resolved(world, "a.txt", "/workspace/a.txt");
    assert_resolved(world, "./a/../b", "/workspace/a/../b");
    assert_resolved(world, "/", "/");
    assert_resolved(world, "/.", "/");
    assert_resolved(world, "dir/", "/workspace/dir/");
    assert_resolved(world, ".", "/workspace");
    assert_resolved(world, "~x/y", "/workspace/~x/y");
    if (world->is_root) {
        assert_resolved(world, "~", "/homes/user");
        assert_resolved(world, "~/x", "/homes/user/x");
        world->tree.uid = 4242;
        assert_resolved(world, "~/x", "/x");
        world->tree.uid = 0;
        assert_resolved(world, "~", "/root");
    }
    world->tree.cwd = (struct cay_str){};
    assert_resolved(world, "x", "/workspace/x");
}

static void bad_paths_are_refused(void **state)
{
    struct world *world = *state;
    struct cay_path out;
    char text[5000];
    memset(text, 'a', sizeof(text));
    struct cay_str bad[] = {{}, CAY_STR("a\0b"), {text, sizeof(text)}, {text, 4090}, {text, 4096}};
    for (size_t i = 0; i < CAY_COUNT(bad); i++) {
        assert_false(cay_path_resolve(&world->tree, bad[i], &out, &world->err));
        assert_int_equal(world->err.reason, CAY_R_INVALID_PATH);
    }
}

static void names_are_shown_on_one_line_and_cut_in_the_middle(void **)
{
    char shown[64];
    cay_path_excerpt(CAY_STR("a\nb\tc\x01 \xFF"), shown, sizeof(shown));
    assert_string_equal(shown, "a\\nb\\tc\\x01 \xEE\xBF\xBF");
    char text[300];
    memset(text, 'x', sizeof(text));
    memcpy(text + sizeof(text) - 3, "end", 3);
    cay_path_excerpt((struct cay_str){text, sizeof(text)}, shown, sizeof(shown));
    assert_int_equal(strlen(shown), sizeof(shown) - 1);
    assert_memory_equal(shown, "...", 3);
    assert_string_equal(shown + sizeof(shown) - 4, "end");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_that_are_not_utf8_travel_as_private_characters),
        cmocka_unit_test(the_carrying_characters_themselves_are_carried_byte_by_byte),
        cmocka_unit_test(any_bytes_come_back_and_travel_as_valid_utf8),
        world_test(paths_begin_at_the_root_the_cwd_or_the_home),
        world_test(bad_paths_are_refused),
        cmocka_unit_test(names_are_shown_on_one_line_and_cut_in_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
