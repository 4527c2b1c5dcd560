/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/cay_v1.h"
#include "wire/gzip.h"
#include "wire/http.h"
#include "wire/rpc.h"

/*
 * What a peer sizes may run out of memory: everything here is done again and again with the n-th
 * allocation failing, until none fails. It must say so, and neither crash nor leak. The linker
 * sends the calls of our own code through these (see meson.build).
 */

void *__real_malloc(size_t size);
void *__real_realloc(void *ptr, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_realloc(void *ptr, size_t size);

static int left = -1; /* allocations before the one that fails; -1: none does */
static bool has_failed;

static bool must_fail(void)
{
    if (left < 0 || left-- > 0)
        return false;
    has_failed = true;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return must_fail() ? NULL : __real_malloc(size);
}

void *__wrap_realloc(void *ptr, size_t size)
{
    return must_fail() ? NULL : __real_realloc(ptr, size);
}

/* Runs it with each allocation failing in turn; it returns whether it noticed something. */
static void try_all(bool (*run)(void))
{
    int failures = 0;
    do {
        has_failed = false;
        left = failures;
        bool noticed = run();
        left = -1;
        assert_int_equal(noticed, has_failed);
        failures++;
    } while (has_failed);
    assert_true(failures > 1);
}

static bool append(void)
{
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_buf_init(&buf, 1 << 20);
    for (int i = 0; i < 10000; i++)
        cay_buf_append_text(&buf, "0123456789");
    cay_buf_printf(&buf, "%0500d", 1);
    return buf.failed;
}

static void buffers_stay_failed(void **)
{
    try_all(append);
}

static bool query(void)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, 1 << 20);
    struct cay_str value;
    return !cay_http_query(CAY_STR("x=1&a=b%20c"), "a", &arena, &value);
}

static void queries_are_refused(void **)
{
    try_all(query);
}

static bool envelope(void)
{
    struct cay_envelope_reader reader = {.message.size_bytes_max = 1 << 20};
    static char bytes[70000] = "\0\0\1\0\0";
    bool is_complete = false;
    size_t used = 0;
    ssize_t got = 0;
    while (!is_complete && got >= 0) {
        got = cay_envelope_feed(&reader, bytes + used, 1000, &is_complete);
        used += got > 0 ? (size_t)got : 0;
    }
    cay_envelope_reader_finish(&reader);
    assert_true(got > 0 || got == -ENOMEM);
    return got < 0;
}

static void envelopes_say_so(void **)
{
    try_all(envelope);
}

static bool pack(void)
{
    static char bytes[100000];
    cay_auto(cay_buf_finish) struct cay_buf packed;
    cay_auto(cay_buf_finish) struct cay_buf plain;
    cay_buf_init(&packed, 1 << 20);
    cay_buf_init(&plain, 1 << 20);
    int status = cay_gzip((struct cay_str){bytes, sizeof(bytes)}, &packed);
    if (status == 0)
        status = cay_gunzip(cay_buf_str(&packed), &plain);
    assert_true(status == 0 || status == -ENOMEM);
    return status < 0;
}

static void packing_says_so(void **)
{
    try_all(pack);
}

static bool write_error(void)
{
    const struct cay_error err = {.reason = CAY_R_NOT_FOUND, .text = "there is no \"x\""};
    cay_auto(cay_buf_finish) struct cay_buf out;
    cay_buf_init(&out, 8192);
    cay_rpc_error_json(&out, &err);
    bool is_cut = out.failed;
    /* Without its detail the error is still one. */
    return is_cut || has_failed;
}

static void errors_are_written_or_failed(void **)
{
    try_all(write_error);
}

static bool read_json(void)
{
    static const char text[] = "{\"name\":\"\\u00e9x\",\"labels\":{\"a\":\"b\",\"c\":\"d\"},"
                               "\"env\":{\"A\":\"\\n\"},\"base\":\"host\"}";
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, 1 << 20);
    struct cay_v1_create_session_request request;
    char error[128];
    int status = cay_pb_json_read(&cay_v1_create_session_request_desc, cay_str(text), NULL, &arena,
                                  &request, error, sizeof(error));
    assert_true(status == 0 || status == -ENOMEM);
    cay_auto(cay_buf_finish) struct cay_buf out;
    cay_buf_init(&out, 1 << 20);
    if (status == 0)
        status = cay_pb_encode(&cay_v1_create_session_request_desc, &request, &out);
    assert_true(status == 0 || status == -ENOMEM || status == -ENOBUFS);
    struct cay_v1_create_session_request again;
    if (status == 0)
        status =
            cay_pb_decode(&cay_v1_create_session_request_desc, cay_buf_str(&out), &arena, &again);
    cay_auto(cay_buf_finish) struct cay_buf json;
    cay_buf_init(&json, 1 << 20);
    if (status == 0)
        status = cay_pb_json_write(&cay_v1_create_session_request_desc, &again, NULL, &json);
    assert_true(status == 0 || status == -ENOMEM || status == -ENOBUFS);
    return status < 0;
}

static void messages_say_so(void **)
{
    try_all(read_json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_stay_failed),
        cmocka_unit_test(queries_are_refused),
        cmocka_unit_test(envelopes_say_so),
        cmocka_unit_test(packing_says_so),
        cmocka_unit_test(errors_are_written_or_failed),
        cmocka_unit_test(messages_say_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
