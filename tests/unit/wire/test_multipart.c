/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "wire/e2b/multipart.h"

/* What a body says, fed `step` bytes at a time: "name|filename|content;" per part, then "end". */
static int parse(const char *type, struct cay_str body, size_t step, struct cay_buf *out)
{
    static struct cay_multipart reader;
    int opened = cay_multipart_init(&reader, cay_str(type));
    if (opened < 0)
        return opened;
    size_t at = 0;
    size_t end = 0;
    for (;;) {
        enum cay_multipart_event event = CAY_MULTIPART_MORE;
        struct cay_str piece;
        ssize_t used = cay_multipart_feed(&reader, body.ptr + at, end - at, &event, &piece);
        if (used < 0)
            return (int)used;
        at += (size_t)used;
        if (event == CAY_MULTIPART_PART)
            cay_buf_printf(out, "%.*s|%.*s|", (int)reader.name.len,
                           reader.name.len ? reader.name.ptr : "", (int)reader.filename.len,
                           reader.filename.ptr ? reader.filename.ptr : "none");
        else if (event == CAY_MULTIPART_DATA)
            cay_buf_append(out, piece.ptr, piece.len);
        else if (event == CAY_MULTIPART_PART_END)
            cay_buf_append_text(out, ";");
        else if (event == CAY_MULTIPART_END)
            cay_buf_append_text(out, "end");
        else if (at == end && end == body.len)
            return cay_multipart_is_over(&reader) ? 0 : -ENODATA;
        else if (at == end)
            end = CAY_MIN(end + step, body.len);
    }
}

static void check(const char *body, const char *expected)
{
    for (size_t step = 1; step <= strlen(body); step++) {
        cay_auto(cay_buf_finish) struct cay_buf out;
        cay_buf_init(&out, 1 << 20);
        assert_int_equal(parse("multipart/form-data; boundary=b", cay_str(body), step, &out), 0);
        assert_int_equal(out.len, strlen(expected));
        assert_memory_equal(out.data, expected, out.len);
    }
}

static void refuse(const char *body, int status)
{
    for (size_t step = 1; step <= strlen(body); step++) {
        cay_auto(cay_buf_finish) struct cay_buf out;
        cay_buf_init(&out, 1 << 20);
        assert_int_equal(parse("multipart/form-data; boundary=b", cay_str(body), step, &out),
                         status);
    }
}

#define HEAD(rest) "Content-Disposition: form-data; name=\"file\"" rest "\r\n\r\n"

static void parts_come_whole_however_they_are_cut(void **)
{
    check("--b--", "end");
    check("--b\r\n" HEAD("; filename=\"a/b.txt\"") "content\r\n--b--\r\n",
          "file|a/b.txt|content;end");
    check(
        "before\r\n--b\r\nX: y\r\n" HEAD("") "1\r\n--b\r\n" HEAD("; filename=x") "2\r\n--b--after",
        "file||1;file|x|2;end");
    check("--b\r\n" HEAD("") "\r\n--b--", "file||;end");
    check("--b\r\n" HEAD("") "\r\n\r\n--\r\n--a\r\n-\r\r\n--b--",
          "file||\r\n\r\n--\r\n--a\r\n-\r;end");
    check("--b \t\r\n" HEAD("") "1\r\n--b--", "file||1;end");
    check(
        "--b\r\ncontent-DISPOSITION:form-data;name=note;filename=\"q\\\"\\\\%22%0D%0A%2f\"\r\n\r\n"
        "\r\n--b--",
        "note|q\"\\\"\r\n%2f|;end");
}

static void what_is_no_form_is_refused(void **)
{
    refuse("--b\r\n\r\nx\r\n--b--", -EBADMSG);
    refuse("--b\r\nX: y\r\n\r\nx\r\n--b--", -EBADMSG);
    refuse("--b\r\nContent-Disposition: attachment\r\n\r\nx\r\n--b--", -EBADMSG);
    refuse("--b\r\nContent-Disposition: form-data; name=\"open\r\n\r\nx\r\n--b--", -EBADMSG);
    refuse("--bx\r\n" HEAD("") "1\r\n--b--", -EBADMSG);
    refuse("--b\r\n" HEAD("") "1\r\n--b-x", -EBADMSG);
    refuse("--b\r\n" HEAD("") "no end", -ENODATA);
    refuse("nothing", -ENODATA);
}

static void types_without_a_boundary_are_refused(void **)
{
    struct cay_multipart reader;
    static const char *const good[] = {"multipart/form-data; boundary=x",
                                       "Multipart/Form-Data;charset=utf-8; Boundary=\"a b\""};
    static const char *const bad[] = {
        "",
        "text/plain; boundary=x",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"x",
        "multipart/form-data; boundary=a\"b",
        "multipart/form-data; boundary="
        "00000000001111111111222222222233333333334444444444555555555566666666667"};
    for (size_t i = 0; i < CAY_COUNT(good); i++)
        assert_int_equal(cay_multipart_init(&reader, cay_str(good[i])), 0);
    for (size_t i = 0; i < CAY_COUNT(bad); i++)
        assert_int_equal(cay_multipart_init(&reader, cay_str(bad[i])), -EINVAL);
}

static void a_head_has_a_limit(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_auto(cay_buf_finish) struct cay_buf out;
    cay_buf_init(&body, 1 << 20);
    cay_buf_init(&out, 1 << 20);
    cay_buf_append_text(&body, "--b\r\nX: ");
    for (int i = 0; i < CAY_MULTIPART_HEAD_BYTES_MAX; i++)
        cay_buf_append_text(&body, "x");
    assert_int_equal(parse("multipart/form-data; boundary=b", cay_buf_str(&body), 100, &out),
                     -EMSGSIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_come_whole_however_they_are_cut),
        cmocka_unit_test(what_is_no_form_is_refused),
        cmocka_unit_test(types_without_a_boundary_are_refused),
        cmocka_unit_test(a_head_has_a_limit),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
