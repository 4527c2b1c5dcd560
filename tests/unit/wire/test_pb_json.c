/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <string.h>

#include "tests/proto/cay_test_v1.h"
#include "wire/pb/pb.h"

enum { MEMORY_BYTES_MAX = 1 << 20 };

static const struct cay_pb_message *const any_types[] = {
    &cay_test_v1_limits_desc, &google_protobuf_duration_desc, &google_protobuf_any_desc};
static const struct cay_pb_json_options with_any = {any_types, CAY_COUNT(any_types), false};

/* Reads `in` and expects `out` when it is written again. */
struct row {
    const struct cay_pb_message *desc;
    const char *in;
    const char *out;
};

/* clang-format off */
#define SCALARS(in, out)    {&cay_test_v1_scalars_desc, in, out}
#define OPTIONALS(in, out)  {&cay_test_v1_optionals_desc, in, out}
#define REPEATED(in, out)   {&cay_test_v1_repeated_desc, in, out}
#define MAPS(in, out)       {&cay_test_v1_maps_desc, in, out}
#define ONEOFS(in, out)     {&cay_test_v1_oneofs_desc, in, out}
#define WELL_KNOWN(in, out) {&cay_test_v1_well_known_desc, in, out}
#define LIMITS(in, out)     {&cay_test_v1_limits_desc, in, out}

static const struct row good[] = {
    SCALARS("{}", "{}"),
    SCALARS(" { \"fInt32\" : 5 } ", "{\"fInt32\":5}"),
    SCALARS("{\"f_int32\":5}", "{\"fInt32\":5}"),
    SCALARS("{\"fInt32\":\"-5\",\"fUint32\":\"4294967295\"}", "{\"fInt32\":-5,\"fUint32\":4294967295}"),
    SCALARS("{\"fInt32\":1e3,\"fUint32\":1.0}", "{\"fInt32\":1000,\"fUint32\":1}"),
    SCALARS("{\"fInt64\":9007199254740993,\"fUint64\":18446744073709551615}",
            "{\"fInt64\":\"9007199254740993\",\"fUint64\":\"18446744073709551615\"}"),
    SCALARS("{\"fInt64\":\"-9223372036854775808\"}", "{\"fInt64\":\"-9223372036854775808\"}"),
    SCALARS("{\"fInt32\":0,\"fString\":\"\",\"fBool\":false,\"fBytes\":\"\",\"fColor\":0}", "{}"),
    SCALARS("{\"fInt32\":null,\"fString\":null,\"fColor\":null}", "{}"),
    SCALARS("{\"fDouble\":\"NaN\",\"fFloat\":\"-Infinity\"}", "{\"fDouble\":\"NaN\",\"fFloat\":\"-Infinity\"}"),
    SCALARS("{\"fDouble\":\"1.5\",\"fFloat\":0.1}", "{\"fDouble\":1.5,\"fFloat\":0.1}"),
    SCALARS("{\"fDouble\":-0.0}", "{\"fDouble\":-0.0}"),
    SCALARS("{\"fBytes\":\"-_8\"}", "{\"fBytes\":\"+/8=\"}"),
    SCALARS("{\"fBytes\":\"AA==\"}", "{\"fBytes\":\"AA==\"}"),
    SCALARS("{\"fColor\":\"COLOR_FAR\"}", "{\"fColor\":\"COLOR_FAR\"}"),
    SCALARS("{\"fColor\":2,\"fAlias\":\"ALIAS_SECOND\"}", "{\"fColor\":\"COLOR_GREEN\",\"fAlias\":\"ALIAS_FIRST\"}"),
    SCALARS("{\"fColor\":77}", "{\"fColor\":77}"),
    SCALARS("{\"fString\":\"\\u0000\\ud83d\\ude00\"}", "{\"fString\":\"\\u0000\xF0\x9F\x98\x80\"}"),
    SCALARS("{\"unknown\":{\"a\":[1,2]},\"fBool\":true}", "{\"fBool\":true}"),
    OPTIONALS("{\"oInt32\":0,\"oString\":\"\",\"oColor\":\"COLOR_UNSPECIFIED\",\"oMessage\":{}}",
              "{\"oInt32\":0,\"oString\":\"\",\"oColor\":\"COLOR_UNSPECIFIED\",\"oMessage\":{}}"),
    OPTIONALS("{\"oNull\":null,\"oInt32\":null}", "{\"oNull\":null}"),
    REPEATED("{\"rInt32\":[],\"rString\":null}", "{}"),
    REPEATED("{\"rInt64\":[1,\"2\"],\"rMessage\":[{},{\"fInt32\":1}]}",
             "{\"rInt64\":[\"1\",\"2\"],\"rMessage\":[{},{\"fInt32\":1}]}"),
    REPEATED("{\"rValue\":[null,1,\"a\",[],{}]}", "{\"rValue\":[null,1,\"a\",[],{}]}"),
    MAPS("{\"mStringString\":{\"\":\"a\",\"k\":\"\"}}", "{\"mStringString\":{\"\":\"a\",\"k\":\"\"}}"),
    MAPS("{\"mInt32Int64\":{\"-1\":1},\"mUint64Bytes\":{\"18446744073709551615\":\"AA==\"}}",
         "{\"mInt32Int64\":{\"-1\":\"1\"},\"mUint64Bytes\":{\"18446744073709551615\":\"AA==\"}}"),
    MAPS("{\"mBoolString\":{\"true\":\"t\",\"false\":\"f\"}}", "{\"mBoolString\":{\"true\":\"t\",\"false\":\"f\"}}"),
    MAPS("{\"mStringMessage\":{\"a\":{}},\"mStringValue\":{\"n\":null}}",
         "{\"mStringMessage\":{\"a\":{}},\"mStringValue\":{\"n\":null}}"),
    MAPS("{\"mStringTimestamp\":{\"t\":\"1970-01-01T00:00:01Z\"}}", "{\"mStringTimestamp\":{\"t\":\"1970-01-01T00:00:01Z\"}}"),
    ONEOFS("{\"text\":null,\"number\":0}", "{\"number\":\"0\"}"),
    ONEOFS("{\"nothing\":null}", "{\"nothing\":null}"),
    ONEOFS("{\"value\":null}", "{\"value\":null}"),
    ONEOFS("{\"text\":\"\",\"b\":\"x\"}", "{\"text\":\"\",\"b\":\"x\"}"),
    LIMITS("{\"default\":1,\"errno\":2,\"aB\":3,\"field1X\":4,\"other\":5}",
           "{\"default\":1,\"errno\":2,\"aB\":3,\"field1X\":4,\"other\":5}"),
    LIMITS("{\"a__b\":3,\"field_1_x\":4,\"renamed\":5}", "{\"aB\":3,\"field1X\":4,\"other\":5}"),
    WELL_KNOWN("{\"timestamp\":\"2024-02-29T23:59:59.5+02:00\"}", "{\"timestamp\":\"2024-02-29T21:59:59.500Z\"}"),
    WELL_KNOWN("{\"timestamp\":\"0001-01-01T00:00:00Z\"}", "{\"timestamp\":\"0001-01-01T00:00:00Z\"}"),
    WELL_KNOWN("{\"timestamp\":\"9999-12-31T23:59:59.999999999Z\"}", "{\"timestamp\":\"9999-12-31T23:59:59.999999999Z\"}"),
    WELL_KNOWN("{\"timestamp\":\"1969-12-31T23:59:59.000001Z\"}", "{\"timestamp\":\"1969-12-31T23:59:59.000001Z\"}"),
    WELL_KNOWN("{\"duration\":\"1.5s\"}", "{\"duration\":\"1.500s\"}"),
    WELL_KNOWN("{\"duration\":\"-0.000000001s\"}", "{\"duration\":\"-0.000000001s\"}"),
    WELL_KNOWN("{\"duration\":\"315576000000s\"}", "{\"duration\":\"315576000000s\"}"),
    WELL_KNOWN("{\"struct\":{\"a\":[1,{\"b\":null}],\"c\":true}}", "{\"struct\":{\"a\":[1,{\"b\":null}],\"c\":true}}"),
    WELL_KNOWN("{\"value\":null,\"list\":[1.5,\"x\"]}", "{\"value\":null,\"list\":[1.5,\"x\"]}"),
    WELL_KNOWN("{\"struct\":{},\"list\":[],\"empty\":{}}", "{\"struct\":{},\"list\":[],\"empty\":{}}"),
    WELL_KNOWN("{\"mask\":\"fooBar.baz,x\"}", "{\"mask\":\"fooBar.baz,x\"}"),
    WELL_KNOWN("{\"mask\":\"\"}", "{\"mask\":\"\"}"),
    WELL_KNOWN("{\"int64Value\":\"7\",\"boolValue\":false,\"stringValue\":\"\",\"bytesValue\":\"AA\"}",
               "{\"int64Value\":\"7\",\"boolValue\":false,\"stringValue\":\"\",\"bytesValue\":\"AA==\"}"),
    WELL_KNOWN("{\"int32Value\":null,\"doubleValue\":\"NaN\"}", "{\"doubleValue\":\"NaN\"}"),
    WELL_KNOWN("{\"any\":{}}", "{\"any\":{}}"),
    WELL_KNOWN("{\"any\":{\"memoryBytes\":5,\"@type\":\"x/cay.test.v1.Limits\",\"default\":1}}",
               "{\"any\":{\"@type\":\"x/cay.test.v1.Limits\",\"memoryBytes\":\"5\",\"default\":1}}"),
    WELL_KNOWN("{\"any\":{\"@type\":\"x/google.protobuf.Duration\",\"value\":\"1s\"}}",
               "{\"any\":{\"@type\":\"x/google.protobuf.Duration\",\"value\":\"1s\"}}"),
    WELL_KNOWN("{\"any\":{\"value\":{\"@type\":\"a/cay.test.v1.Limits\"},\"@type\":\"x/google.protobuf.Any\"}}",
               "{\"any\":{\"@type\":\"x/google.protobuf.Any\",\"value\":{\"@type\":\"a/cay.test.v1.Limits\"}}}"),
    {&google_protobuf_timestamp_desc, "\"1970-01-01T00:00:00Z\"", "\"1970-01-01T00:00:00Z\""},
    {&google_protobuf_value_desc, "[1,2]", "[1,2]"},
    {&google_protobuf_empty_desc, "{\"x\":1}", "{}"},
};

/* `out` is the error here. */
#define ALL(in, out) {&cay_test_v1_all_types_desc, in, out}
static const struct row bad[] = {
    ALL("{\"limits\":{\"memoryBytes\":true}}", "limits.memory_bytes: expected an integer, found true"),
    ALL("{\"limits\":{\"memoryBytes\":\"x\"}}", "limits.memory_bytes: expected an integer, found a string that is none"),
    ALL("{\"limits\":{\"memoryBytes\":1.5}}", "limits.memory_bytes: expected an integer, found a number that is none"),
    ALL("{\"limits\":{\"memoryBytes\":9223372036854775808}}", "limits.memory_bytes: the integer is out of range"),
    ALL("{\"limits\":{\"default\":2147483648}}", "limits.default: the integer is out of range"),
    ALL("{\"limits\":5}", "limits: expected an object, found a number"),
    ALL("{\"limits\":{\"aB\":1,\"a__b\":1}}", "limits.a__b: the field is there twice"),
    ALL("{\"limits\":null,\"limits\":null}", "limits: the field is there twice"),
    ALL("[]", "expected an object, found an array"),
    ALL("null", "expected an object, found null"),
    ALL("", "bad JSON at byte 0: expected a value, found the end"),
    ALL("{} x", "bad JSON at byte 3: something follows the value"),
    ALL("{\"limits\":{\"default\":01}}", "limits.default: bad JSON at byte 21: bad number"),
    ALL("{\"unknown\":[1,}", "bad JSON at byte 14: expected a value"),
    ALL("{\"scalars\":{\"fUint32\":-1}}", "scalars.f_uint32: the integer is out of range"),
    ALL("{\"scalars\":{\"fUint64\":-1}}", "scalars.f_uint64: the integer is out of range"),
    ALL("{\"scalars\":{\"fUint64\":1e20}}", "scalars.f_uint64: the integer is out of range"),
    ALL("{\"scalars\":{\"fInt32\":\" 1\"}}", "scalars.f_int32: expected an integer, found a string that is none"),
    ALL("{\"scalars\":{\"fInt32\":\"\"}}", "scalars.f_int32: expected an integer, found a string that is none"),
    ALL("{\"scalars\":{\"fDouble\":\"nan\"}}", "scalars.f_double: expected a number, found a string"),
    ALL("{\"scalars\":{\"fDouble\":1e999}}", "scalars.f_double: the number is out of range"),
    ALL("{\"scalars\":{\"fFloat\":1e39}}", "scalars.f_float: the number is out of range"),
    ALL("{\"scalars\":{\"fBool\":\"true\"}}", "scalars.f_bool: expected true or false, found a string"),
    ALL("{\"scalars\":{\"fBool\":1}}", "scalars.f_bool: expected true or false, found a number"),
    ALL("{\"scalars\":{\"fString\":1}}", "scalars.f_string: expected a string, found a number"),
    ALL("{\"scalars\":{\"fBytes\":\"!\"}}", "scalars.f_bytes: the string is not base64"),
    ALL("{\"scalars\":{\"fColor\":\"RED\"}}", "scalars.f_color: 'RED' is not a value of cay.test.v1.Color; did you mean 'COLOR_RED'?"),
    ALL("{\"scalars\":{\"fColor\":true}}", "scalars.f_color: expected the name of an enum value, found true"),
    ALL("{\"repeated\":{\"rInt32\":5}}", "repeated.r_int32: expected an array, found a number"),
    ALL("{\"repeated\":{\"rInt32\":[1,null]}}", "repeated.r_int32[1]: null is not allowed in an array"),
    ALL("{\"repeated\":{\"rMessage\":[{},{\"fInt32\":[]}]}}", "repeated.r_message[1].f_int32: expected an integer, found an array"),
    ALL("{\"maps\":{\"mStringString\":[]}}", "maps.m_string_string: expected an object, found an array"),
    ALL("{\"maps\":{\"mStringString\":{\"a\":\"\",\"a\":\"\"}}}", "maps.m_string_string: a key is there twice"),
    ALL("{\"maps\":{\"mInt32Int64\":{\"1\":1,\"1.0\":1}}}", "maps.m_int32_int64: a key is there twice"),
    ALL("{\"maps\":{\"mInt32Int64\":{\"x\":1}}}", "maps.m_int32_int64[\"x\"]: expected an integer, found a string that is none"),
    ALL("{\"maps\":{\"mBoolString\":{\"TRUE\":\"\"}}}", "maps.m_bool_string[\"TRUE\"]: the key is neither \"true\" nor \"false\""),
    ALL("{\"maps\":{\"mStringMessage\":{\"a\":null}}}", "maps.m_string_message[\"a\"]: null is not allowed in a map"),
    ALL("{\"maps\":{\"mStringMessage\":{\"a\\n\\u00e9\":{\"fInt32\":{}}}}}", "maps.m_string_message[\"a???\"].f_int32: expected an integer, found an object"),
    ALL("{\"oneofs\":{\"text\":\"\",\"number\":1}}", "oneofs.number: another field of the same oneof is set already"),
    ALL("{\"wellKnown\":{\"timestamp\":\"2023-02-29T00:00:00Z\"}}", "well_known.timestamp: expected a time such as \"2024-01-31T12:00:00Z\"; this one is out of range"),
    ALL("{\"wellKnown\":{\"timestamp\":\"0001-01-01T00:00:00+00:01\"}}", "well_known.timestamp: expected a time such as \"2024-01-31T12:00:00Z\"; this one is out of range"),
    ALL("{\"wellKnown\":{\"timestamp\":\"2024-01-01 00:00:00Z\"}}", "well_known.timestamp: expected a time such as \"2024-01-31T12:00:00Z\""),
    ALL("{\"wellKnown\":{\"timestamp\":\"2024-01-01T00:00:00\"}}", "well_known.timestamp: expected a time such as \"2024-01-31T12:00:00Z\""),
    ALL("{\"wellKnown\":{\"timestamp\":\"2024-01-01T00:00:00.Z\"}}", "well_known.timestamp: expected a time such as \"2024-01-31T12:00:00Z\""),
    ALL("{\"wellKnown\":{\"timestamp\":\"2024-01-01T00:00:00.1234567890Z\"}}", "well_known.timestamp: expected a time such as \"2024-01-31T12:00:00Z\""),
    ALL("{\"wellKnown\":{\"timestamp\":5}}", "well_known.timestamp: expected a time such as \"2024-01-31T12:00:00Z\", found a number"),
    ALL("{\"wellKnown\":{\"duration\":\"1\"}}", "well_known.duration: expected a duration such as \"1.5s\""),
    ALL("{\"wellKnown\":{\"duration\":\".5s\"}}", "well_known.duration: expected a duration such as \"1.5s\""),
    ALL("{\"wellKnown\":{\"duration\":\"1.s\"}}", "well_known.duration: expected a duration such as \"1.5s\""),
    ALL("{\"wellKnown\":{\"duration\":\"-s\"}}", "well_known.duration: expected a duration such as \"1.5s\""),
    ALL("{\"wellKnown\":{\"duration\":\"315576000001s\"}}", "well_known.duration: expected a duration such as \"1.5s\"; this one is out of range"),
    ALL("{\"wellKnown\":{\"mask\":\"foo_bar\"}}", "well_known.mask: expected field paths such as \"name,limits.memoryBytes\""),
    ALL("{\"wellKnown\":{\"mask\":\"a,,b\"}}", "well_known.mask: expected field paths such as \"name,limits.memoryBytes\""),
    ALL("{\"wellKnown\":{\"struct\":[]}}", "well_known.struct: expected an object, found an array"),
    ALL("{\"wellKnown\":{\"struct\":{\"a\":1,\"a\":2}}}", "well_known.struct: a key is there twice"),
    ALL("{\"wellKnown\":{\"list\":{}}}", "well_known.list: expected an array, found an object"),
    ALL("{\"wellKnown\":{\"value\":1e999}}", "well_known.value: the number is out of range"),
    ALL("{\"wellKnown\":{\"int32Value\":\"x\"}}", "well_known.int32_value: expected an integer, found a string that is none"),
    ALL("{\"wellKnown\":{\"any\":{\"a\":1}}}", "well_known.any: \"@type\" is missing"),
    ALL("{\"wellKnown\":{\"any\":{\"@type\":\"x/unknown.Type\"}}}", "well_known.any: the type in \"@type\" is not known here"),
    ALL("{\"wellKnown\":{\"any\":{\"@type\":5}}}", "well_known.any: expected a string as \"@type\", found a number"),
    ALL("{\"wellKnown\":{\"any\":{\"@type\":\"x/google.protobuf.Duration\"}}}", "well_known.any: \"value\" is missing"),
    ALL("{\"wellKnown\":{\"any\":{\"@type\":\"x/cay.test.v1.Limits\",\"default\":{}}}}", "well_known.any.default: expected an integer, found an object"),
};
/* clang-format on */

static union {
    struct cay_test_v1_all_types all;
    struct cay_test_v1_repeated repeated;
    struct cay_test_v1_maps maps;
    struct cay_test_v1_scalars scalars;
    struct cay_test_v1_optionals optionals;
    struct cay_test_v1_well_known well_known;
} message;

static void json_is_read_and_written_as_the_mapping_says(void **)
{
    for (size_t i = 0; i < CAY_COUNT(good); i++) {
        cay_auto(cay_arena_finish) struct cay_arena arena;
        cay_auto(cay_buf_finish) struct cay_buf buf;
        char error[200] = "";
        cay_arena_init(&arena, MEMORY_BYTES_MAX);
        cay_buf_init(&buf, MEMORY_BYTES_MAX);
        memset(&message, 0xA5, sizeof(message));
        int r = cay_pb_json_read(good[i].desc, cay_str(good[i].in), &with_any, &arena, &message,
                                 error, sizeof(error));
        if (r < 0)
            fail_msg("'%s': %s", good[i].in, error);
        assert_int_equal(cay_pb_json_write(good[i].desc, &message, &with_any, &buf), 0);
        if (!cay_str_is(cay_buf_str(&buf), good[i].out))
            fail_msg("'%s' became '%.*s'", good[i].in, (int)buf.len, buf.data);
    }
}

static void bad_json_is_refused_with_the_path(void **)
{
    for (size_t i = 0; i < CAY_COUNT(bad); i++) {
        cay_auto(cay_arena_finish) struct cay_arena arena;
        char error[200] = "";
        cay_arena_init(&arena, MEMORY_BYTES_MAX);
        int r = cay_pb_json_read(bad[i].desc, cay_str(bad[i].in), &with_any, &arena, &message,
                                 error, sizeof(error));
        if (r != -EBADMSG || strcmp(error, bad[i].out) != 0)
            fail_msg("'%s': %d, '%s'", bad[i].in, r, error);
    }
}

static void unknown_fields_can_be_refused(void **)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    struct cay_pb_json_options strict = with_any;
    char error[200] = "";
    strict.reject_unknown_fields = true;
    cay_arena_init(&arena, MEMORY_BYTES_MAX);
    assert_int_equal(cay_pb_json_read(&cay_test_v1_all_types_desc,
                                      CAY_STR("{\"limits\":{\"memory\":1}}"), &strict, &arena,
                                      &message, error, sizeof(error)),
                     -ENOKEY);
    assert_string_equal(error, "limits: there is no field 'memory'; did you mean 'memory_bytes'?");
    assert_int_equal(cay_pb_json_read(&google_protobuf_any_desc,
                                      CAY_STR("{\"@type\":\"x/cay.test.v1.Limits\"}"), &strict,
                                      &arena, &message, error, sizeof(error)),
                     0);
}

static void errors_fit_a_small_buffer(void **)
{
    for (size_t size = 1; size < 60; size++) {
        cay_auto(cay_arena_finish) struct cay_arena arena;
        char error[64];
        cay_arena_init(&arena, MEMORY_BYTES_MAX);
        memset(error, '#', sizeof(error));
        assert_int_equal(cay_pb_json_read(&cay_test_v1_all_types_desc,
                                          CAY_STR("{\"limits\":{\"memoryBytes\":true}}"), NULL,
                                          &arena, &message, error, size),
                         -EBADMSG);
        assert_true(strnlen(error, size) < size);
        assert_int_equal(error[size], '#');
    }
}

static void nesting_is_bounded(void **)
{
    for (size_t depth = 63; depth <= 65; depth++) {
        cay_auto(cay_arena_finish) struct cay_arena arena;
        cay_auto(cay_buf_finish) struct cay_buf text;
        struct cay_test_v1_node node;
        char error[400] = "";
        cay_arena_init(&arena, MEMORY_BYTES_MAX);
        cay_buf_init(&text, MEMORY_BYTES_MAX);
        for (size_t i = 1; i < depth; i++)
            cay_buf_append_text(&text, "{\"left\":");
        cay_buf_append_text(&text, "{}");
        for (size_t i = 1; i < depth; i++)
            cay_buf_append_text(&text, "}");
        int r = cay_pb_json_read(&cay_test_v1_node_desc, cay_buf_str(&text), NULL, &arena, &node,
                                 error, sizeof(error));
        assert_int_equal(r, depth > CAY_PB_DEPTH_MAX ? -EBADMSG : 0);
    }
}

static void what_json_may_nest_binary_may_nest_too(void **)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_auto(cay_buf_finish) struct cay_buf bytes;
    struct google_protobuf_value value;
    char error[400] = "";
    cay_arena_init(&arena, MEMORY_BYTES_MAX);
    cay_buf_init(&text, MEMORY_BYTES_MAX);
    cay_buf_init(&bytes, MEMORY_BYTES_MAX);
    size_t depth = 0;
    for (bool ok = true; ok; depth++) {
        cay_buf_clear(&text, MEMORY_BYTES_MAX);
        for (size_t i = 0; i < depth; i++)
            cay_buf_append_text(&text, "{\"a\":");
        cay_buf_append_text(&text, "1");
        for (size_t i = 0; i < depth; i++)
            cay_buf_append_text(&text, "}");
        ok = cay_pb_json_read(&google_protobuf_value_desc, cay_buf_str(&text), NULL, &arena, &value,
                              error, sizeof(error)) == 0;
        if (!ok)
            break;
        cay_buf_clear(&bytes, MEMORY_BYTES_MAX);
        assert_int_equal(cay_pb_encode(&google_protobuf_value_desc, &value, &bytes), 0);
        assert_int_equal(
            cay_pb_decode(&google_protobuf_value_desc, cay_buf_str(&bytes), &arena, &value), 0);
    }
    assert_in_range(depth, 31, 33);
    assert_non_null(strstr(error, "nested too deeply"));
}

static void a_full_arena_is_told_apart(void **)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    char error[200] = "";
    cay_arena_init(&arena, 600);
    assert_int_equal(cay_pb_json_read(&cay_test_v1_all_types_desc,
                                      CAY_STR("{\"repeated\":{\"rMessage\":[{},{},{}]}}"), NULL,
                                      &arena, &message, error, sizeof(error)),
                     -ENOMEM);
    assert_non_null(strstr(error, ": the message needs too much memory"));
}

static void what_has_no_json_form_is_refused_and_leaves_nothing(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf buf;
    struct google_protobuf_timestamp late = {.seconds = 253402300800};
    struct google_protobuf_duration torn = {.seconds = 1, .nanos = -1};
    struct google_protobuf_value nan = {
        .which_kind = GOOGLE_PROTOBUF_VALUE_KIND_NUMBER_VALUE,
        .kind.number_value = __builtin_nan(""),
    };
    struct google_protobuf_any any = {.type_url = CAY_STR("x/unknown.Type")};
    struct cay_str path = CAY_STR("fooBar");
    struct google_protobuf_field_mask mask = {.paths = {&path, 1}};
    cay_buf_init(&buf, MEMORY_BYTES_MAX);
    cay_buf_append_text(&buf, "kept");
    struct cay_test_v1_well_known rows[] = {
        {.timestamp = &late}, {.duration = &torn}, {.value = &nan}, {.any = &any}, {.mask = &mask}};
    for (size_t i = 0; i < CAY_COUNT(rows); i++) {
        assert_int_equal(cay_pb_json_write(&cay_test_v1_well_known_desc, &rows[i], &with_any, &buf),
                         -EINVAL);
        assert_int_equal(buf.len, 4);
    }
    cay_auto(cay_buf_finish) struct cay_buf small;
    struct cay_test_v1_scalars scalars = {.f_string = CAY_STR("0123456789")};
    cay_buf_init(&small, 20);
    assert_int_equal(cay_pb_json_write(&cay_test_v1_scalars_desc, &scalars, NULL, &small),
                     -ENOBUFS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_is_read_and_written_as_the_mapping_says),
        cmocka_unit_test(bad_json_is_refused_with_the_path),
        cmocka_unit_test(unknown_fields_can_be_refused),
        cmocka_unit_test(errors_fit_a_small_buffer),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(what_json_may_nest_binary_may_nest_too),
        cmocka_unit_test(a_full_arena_is_told_apart),
        cmocka_unit_test(what_has_no_json_form_is_refused_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
