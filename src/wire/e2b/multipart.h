/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * multipart/form-data as it comes: bytes in, parts out, nothing kept but the head of a part. A
 * part's content is given in pieces that point into the bytes just fed (or into the reader).
 *
 *     cay_multipart_init(&reader, content_type)
 *     while (bytes are left) {
 *         used = cay_multipart_feed(&reader, bytes, len, &event, &piece);
 *         PART: reader.name and reader.filename are set; DATA: piece; PART_END; END
 *
 * Each call gives at most one event; it may use no byte and still give one. Bytes after END are
 * ignored.
 */

#include "base/base.h"

enum {
    CAY_MULTIPART_BOUNDARY_MAX = 70,
    CAY_MULTIPART_HEAD_BYTES_MAX = 16 * 1024, /* of one part */
};

enum cay_multipart_event {
    CAY_MULTIPART_MORE = 0, /* feed more */
    CAY_MULTIPART_PART,
    CAY_MULTIPART_DATA,
    CAY_MULTIPART_PART_END,
    CAY_MULTIPART_END,
};

enum cay_multipart_state {
    CAY_MULTIPART_PREAMBLE = 0,
    CAY_MULTIPART_BORDER, /* after a boundary */
    CAY_MULTIPART_HEAD,
    CAY_MULTIPART_BODY,
    CAY_MULTIPART_CLOSED, /* a part's body is over; told next */
    CAY_MULTIPART_OVER,
};

struct cay_multipart {
    struct cay_str name;     /* of the part, in `head`; valid until its end */
    struct cay_str filename; /* the same; ptr is NULL when it has none */
    enum cay_multipart_state state;
    char delimiter[CAY_MULTIPART_BOUNDARY_MAX + 4]; /* CR LF - - boundary */
    size_t delimiter_len;
    size_t matched;    /* bytes of the delimiter that the last ones fed may be */
    size_t border_len; /* of what stands behind it */
    char border[2];
    size_t head_len;
    char head[CAY_MULTIPART_HEAD_BYTES_MAX];
};

/* -EINVAL when this is not the type of a multipart body with a boundary. */
[[nodiscard]] int cay_multipart_init(struct cay_multipart *reader, struct cay_str content_type);

/* How many bytes were used, and what happened; -EBADMSG for what is no such body, -EMSGSIZE for a
 * head that is too long. */
[[nodiscard]] ssize_t cay_multipart_feed(struct cay_multipart *reader, const char *bytes,
                                         size_t len, enum cay_multipart_event *out_event,
                                         struct cay_str *out_piece);

/* The closing boundary has come. */
static inline bool cay_multipart_is_over(const struct cay_multipart *reader)
{
    return reader->state == CAY_MULTIPART_OVER;
}
