/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/proto/cay_test_v1.h"
#include "wire/pb/pb.h"

enum { MEMORY_BYTES_MAX = 1 << 20 };

struct fixture {
    struct cay_arena arena;
    struct cay_buf buf;
};

static int set_up(void **state)
{
    struct fixture *f = cay_new(struct fixture);
    cay_arena_init(&f->arena, MEMORY_BYTES_MAX);
    cay_buf_init(&f->buf, MEMORY_BYTES_MAX);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    cay_arena_finish(&f->arena);
    cay_buf_finish(&f->buf);
    free(f);
    return 0;
}

static void assert_encodes(struct fixture *f, const struct cay_pb_message *desc,
                           const void *message, struct cay_str golden)
{
    cay_buf_clear(&f->buf, SIZE_MAX);
    assert_int_equal(cay_pb_encode(desc, message, &f->buf), 0);
    assert_int_equal(f->buf.len, golden.len);
    if (golden.len)
        assert_memory_equal(f->buf.data, golden.ptr, golden.len);
}

static void scalars_have_their_golden_bytes(void **state)
{
    struct fixture *f = *state;
    struct cay_test_v1_scalars in = {
        .f_double = 1.5,
        .f_float = -2.0f,
        .f_int32 = -1,
        .f_int64 = 300,
        .f_uint32 = UINT32_MAX,
        .f_uint64 = UINT64_MAX,
        .f_sint32 = -1,
        .f_sint64 = INT64_MIN,
        .f_fixed32 = 1,
        .f_fixed64 = 2,
        .f_sfixed32 = -1,
        .f_sfixed64 = -2,
        .f_bool = true,
        .f_string = CAY_STR("h\xC3\xA9"),
        .f_bytes = CAY_STR("\0\xFF"),
        .f_color = CAY_TEST_V1_COLOR_NEGATIVE,
        .f_far = CAY_STR("x"),
    };
    struct cay_str golden = CAY_STR("\x09\0\0\0\0\0\0\xF8\x3F"
                                    "\x15\0\0\0\xC0"
                                    "\x18\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"
                                    "\x20\xAC\x02"
                                    "\x28\xFF\xFF\xFF\xFF\x0F"
                                    "\x30\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"
                                    "\x38\x01"
                                    "\x40\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"
                                    "\x4D\x01\0\0\0"
                                    "\x51\x02\0\0\0\0\0\0\0"
                                    "\x5D\xFF\xFF\xFF\xFF"
                                    "\x61\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF"
                                    "\x68\x01"
                                    "\x72\x03h\xC3\xA9"
                                    "\x7A\x02\0\xFF"
                                    "\x80\x01\xFB\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"
                                    "\xFA\xFF\xFF\xFF\x0F\x01x");
    struct cay_test_v1_scalars out;
    memset(&out, 0xA5, sizeof(out));
    assert_encodes(f, &cay_test_v1_scalars_desc, &in, golden);
    assert_int_equal(cay_pb_decode(&cay_test_v1_scalars_desc, golden, &f->arena, &out), 0);
    assert_encodes(f, &cay_test_v1_scalars_desc, &out, golden);
    assert_true(out.f_sint64 == INT64_MIN && out.f_sint32 == -1 && out.f_int32 == -1);
    assert_true(cay_str_is(out.f_string, "h\xC3\xA9"));
    assert_ptr_equal(out.f_far.ptr, golden.ptr + golden.len - 1);
}

static void defaults_are_left_out_and_presence_is_kept(void **state)
{
    struct fixture *f = *state;
    struct cay_test_v1_scalars zero = {};
    struct cay_test_v1_scalars minus_zero = {.f_double = -0.0};
    struct cay_test_v1_optionals there = {.has_o_int32 = true, .has_o_string = true};
    struct cay_test_v1_optionals out;
    assert_encodes(f, &cay_test_v1_scalars_desc, &zero, CAY_STR(""));
    assert_encodes(f, &cay_test_v1_scalars_desc, &minus_zero, CAY_STR("\x09\0\0\0\0\0\0\0\x80"));
    assert_encodes(f, &cay_test_v1_optionals_desc, &there, CAY_STR("\x18\0\x3A\0"));
    assert_int_equal(
        cay_pb_decode(&cay_test_v1_optionals_desc, cay_buf_str(&f->buf), &f->arena, &out), 0);
    assert_true(out.has_o_int32 && out.has_o_string && !out.has_o_bool && !out.o_message);
    assert_int_equal(cay_pb_decode(&cay_test_v1_optionals_desc, CAY_STR("\x52\0"), &f->arena, &out),
                     0);
    assert_non_null(out.o_message);
}

static void packed_and_unpacked_are_both_read(void **state)
{
    struct fixture *f = *state;
    struct cay_test_v1_repeated out;
    /* r_int32 packed, then single, then packed again; u_int32 packed although declared unpacked. */
    struct cay_str bytes = CAY_STR("\x1A\x03\x01\xAC\x02"
                                   "\x18\x05"
                                   "\x1A\0"
                                   "\x1A\x01\x07"
                                   "\x92\x01\x02\x08\x09");
    assert_int_equal(cay_pb_decode(&cay_test_v1_repeated_desc, bytes, &f->arena, &out), 0);
    assert_int_equal(out.r_int32.count, 4);
    assert_int_equal(out.r_int32.items[1], 300);
    assert_int_equal(out.r_int32.items[3], 7);
    assert_int_equal(out.u_int32.count, 2);
    assert_encodes(f, &cay_test_v1_repeated_desc, &out,
                   CAY_STR("\x1A\x05\x01\xAC\x02\x05\x07"
                           "\x90\x01\x08\x90\x01\x09"));
}

static void long_lists_grow_and_keep_their_order(void **state)
{
    struct fixture *f = *state;
    struct cay_test_v1_repeated in = {};
    struct cay_test_v1_repeated out;
    struct cay_str strings[1000];
    struct cay_test_v1_scalars messages[100] = {};
    char names[1000][8];
    for (size_t i = 0; i < CAY_COUNT(strings); i++) {
        snprintf(names[i], sizeof(names[i]), "%zu", i);
        strings[i] = cay_str(names[i]);
        messages[i / 10].f_int64 = (int64_t)i;
    }
    in.r_string = (struct cay_pb_strs){strings, CAY_COUNT(strings)};
    in.r_message = (struct cay_test_v1_scalars_array){messages, CAY_COUNT(messages)};
    assert_int_equal(cay_pb_encode(&cay_test_v1_repeated_desc, &in, &f->buf), 0);
    assert_int_equal(
        cay_pb_decode(&cay_test_v1_repeated_desc, cay_buf_str(&f->buf), &f->arena, &out), 0);
    assert_int_equal(out.r_string.count, CAY_COUNT(strings));
    for (size_t i = 0; i < CAY_COUNT(strings); i++)
        assert_true(cay_str_is(out.r_string.items[i], names[i]));
    assert_int_equal(out.r_message.count, CAY_COUNT(messages));
    assert_int_equal(out.r_message.items[99].f_int64, 999);
}

static void the_last_of_a_scalar_wins_and_messages_merge(void **state)
{
    struct fixture *f = *state;
    struct cay_test_v1_all_types out;
    struct cay_str bytes = CAY_STR("\x0A\x04\x18\x01\x20\x02"         /* scalars {3:1 4:2} */
                                   "\x0A\x04\x18\x07\x68\x01"         /* scalars {3:7 13:true} */
                                   "\x2A\x06\x32\x04\x18\x01\x20\x02" /* oneofs.message {3:1 4:2} */
                                   "\x2A\x04\x32\x02\x18\x05");       /* oneofs.message {3:5} */
    assert_int_equal(cay_pb_decode(&cay_test_v1_all_types_desc, bytes, &f->arena, &out), 0);
    assert_int_equal(out.scalars->f_int32, 7);
    assert_int_equal(out.scalars->f_int64, 2);
    assert_true(out.scalars->f_bool);
    assert_int_equal(out.oneofs->which_kind, CAY_TEST_V1_ONEOFS_KIND_MESSAGE);
    assert_int_equal(out.oneofs->kind.message->f_int32, 5);
    assert_int_equal(out.oneofs->kind.message->f_int64, 2);
}

static void the_last_member_of_a_oneof_wins(void **state)
{
    struct fixture *f = *state;
    struct cay_test_v1_oneofs out;
    assert_int_equal(cay_pb_decode(&cay_test_v1_oneofs_desc,
                                   CAY_STR("\x0A\x01x\x32\x02\x18\x01\x10\x05"), &f->arena, &out),
                     0);
    assert_int_equal(out.which_kind, CAY_TEST_V1_ONEOFS_KIND_NUMBER);
    assert_int_equal(out.kind.number, 5);
    /* A string before a message must not be taken for a pointer to merge into. */
    assert_int_equal(cay_pb_decode(&cay_test_v1_oneofs_desc, CAY_STR("\x0A\x01x\x32\x02\x18\x01"),
                                   &f->arena, &out),
                     0);
    assert_int_equal(out.kind.message->f_int32, 1);
    /* A default value inside a oneof is still a value. */
    struct cay_test_v1_oneofs set = {.which_kind = CAY_TEST_V1_ONEOFS_KIND_FLAG};
    assert_encodes(f, &cay_test_v1_oneofs_desc, &set, CAY_STR("\x18\0"));
}

static void map_keys_are_unique_and_the_last_wins(void **state)
{
    struct fixture *f = *state;
    struct cay_test_v1_maps out;
    struct cay_str bytes = CAY_STR("\x0A\x06\x0A\x01\x61\x12\x01\x31" /* a: 1 */
                                   "\x0A\x06\x0A\x01\x62\x12\x01\x32" /* b: 2 */
                                   "\x0A\x06\x12\x01\x33\x0A\x01\x61" /* a: 3, value first */
                                   "\x0A\0"                           /* "": "" */
                                   "\x6A\x03\x0A\x01\x6B");           /* k: no message */
    assert_int_equal(cay_pb_decode(&cay_test_v1_maps_desc, bytes, &f->arena, &out), 0);
    assert_int_equal(out.m_string_string.count, 3);
    assert_true(cay_str_is(out.m_string_string.items[0].key, "b"));
    assert_true(cay_str_is(out.m_string_string.items[1].value, "3"));
    assert_int_equal(out.m_string_string.items[2].key.len, 0);
    assert_int_equal(out.m_string_message.count, 1);
    assert_non_null(out.m_string_message.items[0].value);
    assert_encodes(f, &cay_test_v1_maps_desc, &out,
                   CAY_STR("\x0A\x06\x0A\x01\x62\x12\x01\x32"
                           "\x0A\x06\x0A\x01\x61\x12\x01\x33"
                           "\x0A\x04\x0A\0\x12\0"
                           "\x6A\x05\x0A\x01\x6B\x12\0"));
}

static void large_maps_are_made_unique_too(void **state)
{
    struct fixture *f = *state;
    struct cay_test_v1_maps out;
    for (unsigned i = 0; i < 1000; i++) {
        unsigned char entry[] = {
            0x12, 4, 0x08, (unsigned char)(i % 100), 0x10, (unsigned char)(i / 100)};
        cay_buf_append(&f->buf, entry, sizeof(entry));
    }
    assert_int_equal(cay_pb_decode(&cay_test_v1_maps_desc, cay_buf_str(&f->buf), &f->arena, &out),
                     0);
    assert_int_equal(out.m_int32_int64.count, 100);
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(out.m_int32_int64.items[i].key, i);
        assert_int_equal(out.m_int32_int64.items[i].value, 9);
    }
}

static void unknown_fields_and_other_wire_types_are_skipped(void **state)
{
    struct fixture *f = *state;
    struct cay_test_v1_limits out;
    struct cay_str bytes = CAY_STR("\xA0\x06\x01"             /* 100: varint */
                                   "\xA1\x06\0\0\0\0\0\0\0\0" /* 100: 64 bits */
                                   "\xA2\x06\x02zz"           /* 100: bytes */
                                   "\xA5\x06\0\0\0\0"         /* 100: 32 bits */
                                   "\x0A\x01x"                /* 1 as bytes, not an integer */
                                   "\x10\x02");
    assert_int_equal(cay_pb_decode(&cay_test_v1_limits_desc, bytes, &f->arena, &out), 0);
    assert_int_equal(out.memory_bytes, 0);
    assert_int_equal(out.default_, 2);
}

static void an_unknown_enum_number_is_kept(void **state)
{
    struct fixture *f = *state;
    struct cay_test_v1_scalars out;
    struct cay_str bytes = CAY_STR("\x80\x01\x4D");
    assert_int_equal(cay_pb_decode(&cay_test_v1_scalars_desc, bytes, &f->arena, &out), 0);
    assert_int_equal(out.f_color, 77);
    assert_encodes(f, &cay_test_v1_scalars_desc, &out, bytes);
    assert_null(cay_pb_enum_name(&cay_test_v1_color_desc, 77));
    assert_string_equal(cay_pb_enum_name(&cay_test_v1_color_desc, 1000), "COLOR_FAR");
    assert_string_equal(cay_pb_enum_name(&cay_test_v1_alias_desc, 1), "ALIAS_FIRST");
    int32_t number = 0;
    assert_true(cay_pb_enum_number(&cay_test_v1_alias_desc, CAY_STR("ALIAS_LOWEST"), &number));
    assert_int_equal(number, INT32_MIN);
}

static void bad_bytes_are_refused(void **state)
{
    struct fixture *f = *state;
    static const struct cay_str rows[] = {
        CAY_STR("\x08"),                                             /* a tag and no value */
        CAY_STR("\x80"),                                             /* half a tag */
        CAY_STR("\x00\x01"),                                         /* field number 0 */
        CAY_STR("\x20\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02"),     /* beyond 64 bits */
        CAY_STR("\x20\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x81\x00"), /* eleven bytes */
        CAY_STR("\xFA\xFF\xFF\xFF\x1F\x00"),                         /* a tag beyond 32 bits */
        CAY_STR("\x72\x02x"),                                        /* a string cut short */
        CAY_STR("\x72\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7Fx"),        /* a huge length */
        CAY_STR("\x72\x02\xC3\x28"),                                 /* bad UTF-8 */
        CAY_STR("\x72\x03\xED\xA0\x80"),                             /* a surrogate */
        CAY_STR("\x09\0\0\0\0\0\0\0"),                               /* seven of eight bytes */
        CAY_STR("\x15\0\0\0"),                                       /* three of four bytes */
        CAY_STR("\x0B\x0C"),                                         /* a group, known number */
        CAY_STR("\xA3\x06\xA4\x06"),                                 /* a group, unknown number */
        CAY_STR("\x0C"),                                             /* the end of a group */
        CAY_STR("\x0E\x00"),                                         /* wire type 6 */
        CAY_STR("\xA2\x06\x05x"),                                    /* unknown, cut short */
    };
    for (size_t i = 0; i < CAY_COUNT(rows); i++) {
        struct cay_test_v1_scalars out;
        int r = cay_pb_decode(&cay_test_v1_scalars_desc, rows[i], &f->arena, &out);
        if (r != -EBADMSG)
            fail_msg("row %zu: %d", i, r);
    }
    struct cay_test_v1_repeated out;
    assert_int_equal(
        cay_pb_decode(&cay_test_v1_repeated_desc, CAY_STR("\x1A\x01\x80"), &f->arena, &out),
        -EBADMSG);
    assert_int_equal(cay_pb_decode(&cay_test_v1_repeated_desc, CAY_STR("\x0A\x07\0\0\0\0\0\0\0"),
                                   &f->arena, &out),
                     -EBADMSG);
}

static void nesting_is_bounded_both_ways(void **state)
{
    struct fixture *f = *state;
    struct cay_test_v1_node nodes[CAY_PB_DEPTH_MAX + 1] = {};
    struct cay_test_v1_node out;
    for (size_t i = 0; i < CAY_PB_DEPTH_MAX; i++)
        nodes[i].left = &nodes[i + 1];
    assert_int_equal(cay_pb_encode(&cay_test_v1_node_desc, &nodes[0], &f->buf), -EMSGSIZE);
    assert_int_equal(cay_pb_encode(&cay_test_v1_node_desc, &nodes[1], &f->buf), 0);
    assert_int_equal(cay_pb_decode(&cay_test_v1_node_desc, cay_buf_str(&f->buf), &f->arena, &out),
                     0);
    /* One more level around it by hand. */
    cay_auto(cay_buf_finish) struct cay_buf deeper;
    cay_buf_init(&deeper, MEMORY_BYTES_MAX);
    cay_buf_append_byte(&deeper, 0x12);
    assert_true(f->buf.len < 0x4000);
    cay_buf_append_byte(&deeper, (unsigned char)(0x80 | (f->buf.len & 0x7F)));
    cay_buf_append_byte(&deeper, (unsigned char)(f->buf.len >> 7));
    cay_buf_append_str(&deeper, cay_buf_str(&f->buf));
    assert_int_equal(cay_pb_decode(&cay_test_v1_node_desc, cay_buf_str(&deeper), &f->arena, &out),
                     -EBADMSG);
}

static void the_arenas_ceiling_bounds_a_small_message_with_large_structs(void **state)
{
    struct fixture *f = *state;
    cay_auto(cay_arena_finish) struct cay_arena small;
    struct cay_test_v1_repeated out;
    cay_arena_init(&small, 4096);
    for (size_t i = 0; i < 100; i++)
        cay_buf_append(&f->buf, "\x8A\x01\0", 3); /* an empty r_message */
    assert_int_equal(cay_pb_decode(&cay_test_v1_repeated_desc, cay_buf_str(&f->buf), &small, &out),
                     -ENOMEM);
    assert_true(small.used_bytes <= 4096);
}

static void text_that_is_not_utf8_is_repaired_on_the_way_out(void **state)
{
    struct fixture *f = *state;
    struct cay_test_v1_scalars in = {.f_string = CAY_STR("a\xFF"
                                                         "b"),
                                     .f_bytes = CAY_STR("\xFF")};
    /* Three bad bytes in one part: the repaired text is as long as the bad one. */
    struct cay_test_v1_scalars same_len = {.f_string = CAY_STR("\xF0\x9F\x98")};
    assert_encodes(f, &cay_test_v1_scalars_desc, &in,
                   CAY_STR("\x72\x05\x61\xEF\xBF\xBD\x62\x7A\x01\xFF"));
    assert_encodes(f, &cay_test_v1_scalars_desc, &same_len, CAY_STR("\x72\x03\xEF\xBF\xBD"));
}

static void a_full_buffer_is_left_as_it_was(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf small;
    struct cay_test_v1_scalars in = {.f_string = CAY_STR("0123456789")};
    cay_buf_init(&small, 11);
    assert_int_equal(cay_pb_encode(&cay_test_v1_scalars_desc, &in, &small), -ENOBUFS);
    assert_int_equal(small.len, 0);
    assert_int_equal(cay_pb_encoded_size(&cay_test_v1_scalars_desc, &in), 12);
}

static void methods_are_found_by_path(void **)
{
    const struct cay_pb_method *method = cay_pb_method_by_path(
        cay_test_v1_methods, CAY_TEST_V1_METHOD_COUNT, CAY_STR("/cay.test.v1.EchoService/Echo"));
    assert_non_null(method);
    assert_int_equal(method->index, CAY_TEST_V1_ECHO_SERVICE_ECHO);
    assert_string_equal(method->service, "cay.test.v1.EchoService");
    assert_true(method->no_side_effects && !method->client_streaming && !method->server_streaming);
    assert_ptr_equal(method->input, &cay_test_v1_all_types_desc);
    method = &cay_test_v1_methods[CAY_TEST_V1_ECHO_SERVICE_UPLOAD];
    assert_true(method->client_streaming && !method->server_streaming && !method->no_side_effects);
    assert_ptr_equal(method->output, &google_protobuf_empty_desc);
    assert_true(cay_test_v1_methods[CAY_TEST_V1_ECHO_SERVICE_WATCH].server_streaming);
    assert_int_equal(CAY_TEST_V1_METHOD_COUNT, 5);
    assert_null(cay_pb_method_by_path(cay_test_v1_methods, CAY_TEST_V1_METHOD_COUNT,
                                      CAY_STR("/cay.test.v1.EchoService/echo")));
}

int main(void)
{
#define WITH_FIXTURE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(scalars_have_their_golden_bytes),
        WITH_FIXTURE(defaults_are_left_out_and_presence_is_kept),
        WITH_FIXTURE(packed_and_unpacked_are_both_read),
        WITH_FIXTURE(long_lists_grow_and_keep_their_order),
        WITH_FIXTURE(the_last_of_a_scalar_wins_and_messages_merge),
        WITH_FIXTURE(the_last_member_of_a_oneof_wins),
        WITH_FIXTURE(map_keys_are_unique_and_the_last_wins),
        WITH_FIXTURE(large_maps_are_made_unique_too),
        WITH_FIXTURE(unknown_fields_and_other_wire_types_are_skipped),
        WITH_FIXTURE(an_unknown_enum_number_is_kept),
        WITH_FIXTURE(bad_bytes_are_refused),
        WITH_FIXTURE(nesting_is_bounded_both_ways),
        WITH_FIXTURE(the_arenas_ceiling_bounds_a_small_message_with_large_structs),
        WITH_FIXTURE(text_that_is_not_utf8_is_repaired_on_the_way_out),
        cmocka_unit_test(a_full_buffer_is_left_as_it_was),
        cmocka_unit_test(methods_are_found_by_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
