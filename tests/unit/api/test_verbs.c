/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <stdlib.h>

#include "api/cay_v1.h"

static const struct cay_pb_field *field_named(const struct cay_pb_message *desc, const char *name)
{
    for (size_t i = 0; i < desc->field_count; i++) {
        if (!strcmp(desc->fields[i].name, name))
            return &desc->fields[i];
    }
    return NULL;
}

/* New sessions get their id there; it is nobody's yet. */
static bool makes_sessions(const struct cay_pb_method *method)
{
    return method == &cay_v1_methods[CAY_V1_SANDBOX_SERVICE_CREATE_SESSION];
}

static void every_verb_says_whose_session_it_is(void **)
{
    for (size_t i = 0; i < CAY_V1_METHOD_COUNT; i++) {
        const struct cay_pb_method *method = &cay_v1_methods[i];
        bool has_id = field_named(method->input, "session_id") && !makes_sessions(method);
        if (has_id != (method->session && !strcmp(method->session, "session_id")) &&
            !(method->session && strchr(method->session, '.')))
            fail_msg("%s: its request and its option differ about the session", method->name);
        if (method->takes_token && !method->session)
            fail_msg("%s: a token of which session?", method->name);
        if (method->no_side_effects && !method->is_repeatable)
            fail_msg("%s: what changes nothing may be repeated", method->name);
    }
}

static void the_session_is_found_in_any_request(void **)
{
    struct cay_v1_get_session_request plain = {.session_id = CAY_STR("one")};
    const struct cay_pb_method *get = &cay_v1_methods[CAY_V1_SANDBOX_SERVICE_GET_SESSION];
    assert_true(cay_str_is(cay_pb_text_at(get->input, &plain, get->session), "one"));

    struct cay_v1_write_file_open open = {.session_id = CAY_STR("two")};
    struct cay_v1_write_file_request first = {.which_frame = CAY_V1_WRITE_FILE_REQUEST_FRAME_OPEN,
                                              .frame.open = &open};
    const struct cay_pb_method *write = &cay_v1_methods[CAY_V1_FILE_SERVICE_WRITE_FILE];
    assert_true(cay_str_is(cay_pb_text_at(write->input, &first, write->session), "two"));

    struct cay_v1_write_file_request other = {.which_frame = CAY_V1_WRITE_FILE_REQUEST_FRAME_DATA,
                                              .frame.data = CAY_STR("open")};
    assert_int_equal(cay_pb_text_at(write->input, &other, write->session).len, 0);
    struct cay_v1_write_file_request none = {};
    assert_int_equal(cay_pb_text_at(write->input, &none, write->session).len, 0);
    assert_int_equal(cay_pb_text_at(get->input, &plain, "session_id.more").len, 0);
    assert_int_equal(cay_pb_text_at(get->input, &plain, "no_such_field").len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_verb_says_whose_session_it_is),
        cmocka_unit_test(the_session_is_found_in_any_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
