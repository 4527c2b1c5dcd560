/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/hello.h"

#include <assert.h>

enum {
    RECORD_HEAD = 5,
    RECORD_FIRST = 20, /* kinds of records: change of cipher, alert, */
    RECORD_HANDSHAKE = 22,
    RECORD_LAST = 24, /* data, heartbeat */
    RECORD_BYTES_MAX = 1 << 14,
    VERSION_MAJOR = 3,

    MESSAGE_HEAD = 4,
    CLIENT_HELLO = 1,
    RANDOM_BYTES = 32,
    SESSION_BYTES_MAX = 32,

    EXTENSION_NAME = 0,
    EXTENSION_PROTOCOLS = 16,
    EXTENSION_ECH_DRAFTS = 0xfe08, /* to EXTENSION_ECH */
    EXTENSION_ECH = 0xfe0d,
    EXTENSION_ESNI = 0xffce,
    NAME_OF_HOST = 0,
};

/* What is left of a message; once something is missing, nothing is left. */
struct reader {
    const uint8_t *at;
    size_t left;
    bool is_bad;
};

static const uint8_t *take(struct reader *reader, size_t len)
{
    const uint8_t *taken = reader->at;
    if (len > reader->left) {
        *reader = (struct reader){.is_bad = true};
        return NULL;
    }
    if (len) {
        reader->at += len;
        reader->left -= len;
    }
    return taken;
}

static unsigned take_number(struct reader *reader, size_t bytes)
{
    unsigned value = 0;
    const uint8_t *at = take(reader, bytes);
    for (size_t i = 0; at && i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

/* A part with its length before it. */
static struct reader take_part(struct reader *reader, size_t length_bytes)
{
    struct reader part = {.left = take_number(reader, length_bytes)};
    part.at = take(reader, part.left);
    if (reader->is_bad)
        part = (struct reader){.is_bad = true};
    return part;
}

static bool read_name(struct reader part, struct cay_hello *out)
{
    struct reader list = take_part(&part, 2);
    unsigned kind = take_number(&list, 1);
    struct reader name = take_part(&list, 2);
    if (part.left || part.is_bad || list.left || list.is_bad || kind != NAME_OF_HOST ||
        out->name[0] || name.left == 0 || name.left >= CAY_HELLO_NAME_SIZE)
        return false;
    for (size_t i = 0; i < name.left; i++) {
        uint8_t c = name.at[i];
        if (c <= ' ' || c >= 0x7F)
            return false;
        out->name[i] = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    }
    return true;
}

static bool read_protocols(struct reader part, struct cay_hello *out)
{
    struct reader list = take_part(&part, 2);
    struct reader all = list;
    if (part.left || part.is_bad || list.left == 0 || out->protocols_len ||
        list.left > CAY_HELLO_PROTOCOLS_MAX)
        return false;
    while (list.left) {
        if (take_part(&list, 1).left == 0)
            return false;
    }
    memcpy(out->protocols, all.at, all.left);
    out->protocols_len = all.left;
    return !list.is_bad;
}

static bool read_extensions(struct reader *extensions, struct cay_hello *out)
{
    while (extensions->left) {
        unsigned kind = take_number(extensions, 2);
        struct reader part = take_part(extensions, 2);
        if (part.is_bad || (kind == EXTENSION_NAME && !read_name(part, out)) ||
            (kind == EXTENSION_PROTOCOLS && !read_protocols(part, out)))
            return false;
        if ((kind >= EXTENSION_ECH_DRAFTS && kind <= EXTENSION_ECH) || kind == EXTENSION_ESNI)
            out->is_encrypted = true;
    }
    return !extensions->is_bad;
}

static bool read_message(struct reader message, struct cay_hello *out)
{
    *out = (struct cay_hello){};
    (void)take(&message, MESSAGE_HEAD);
    unsigned major = take_number(&message, 2) >> 8;
    (void)take(&message, RANDOM_BYTES);
    struct reader session = take_part(&message, 1);
    struct reader ciphers = take_part(&message, 2);
    struct reader compressions = take_part(&message, 1);
    if (message.is_bad || major != VERSION_MAJOR || session.left > SESSION_BYTES_MAX ||
        ciphers.left == 0 || ciphers.left % 2 || compressions.left == 0)
        return false;
    if (message.left == 0)
        return true; /* of old */
    struct reader extensions = take_part(&message, 2);
    return !message.is_bad && message.left == 0 && read_extensions(&extensions, out);
}

static size_t number_at(const uint8_t *bytes, size_t at)
{
    return (size_t)bytes[at] << 8 | bytes[at + 1];
}

/* The message alone, out of its records. */
static void assemble(const uint8_t *bytes, size_t wanted, uint8_t *out)
{
    size_t at = 0;
    for (size_t got = 0; got < wanted;) {
        size_t len = number_at(bytes, at + 3);
        memcpy(out + got, bytes + at + RECORD_HEAD, len);
        got += len;
        at += RECORD_HEAD + len;
    }
}

/* Some servers take alerts and other records before a hello: those are refused, not passed on as
 * another protocol. */
static enum cay_hello_state judge_head(const uint8_t *head, size_t len)
{
    if (len > 0 && (head[0] < RECORD_FIRST || head[0] > RECORD_LAST))
        return CAY_HELLO_OTHER;
    if (len > 1 && head[1] != VERSION_MAJOR)
        return CAY_HELLO_OTHER;
    if (len > 0 && head[0] != RECORD_HANDSHAKE)
        return len > 1 ? CAY_HELLO_BAD : CAY_HELLO_MORE;
    if (len < RECORD_HEAD)
        return CAY_HELLO_MORE;
    size_t bytes = number_at(head, 3);
    return bytes == 0 || bytes > RECORD_BYTES_MAX ? CAY_HELLO_BAD : CAY_HELLO_WHOLE;
}

/* The head of the message may come in several records itself. */
static void note_head(struct cay_hello_look *look, const uint8_t *bytes, uint8_t *head)
{
    size_t at = 0;
    size_t got = 0;
    while (got < MESSAGE_HEAD && at < look->record_at) {
        size_t len = number_at(bytes, at + 3);
        for (size_t i = 0; i < len && got < MESSAGE_HEAD; i++)
            head[got++] = bytes[at + RECORD_HEAD + i];
        at += RECORD_HEAD + len;
    }
    if (got == MESSAGE_HEAD)
        look->wanted = MESSAGE_HEAD + ((size_t)head[1] << 16 | number_at(head, 2));
}

enum cay_hello_state cay_hello_look(struct cay_hello_look *look, const uint8_t *bytes, size_t len,
                                    struct cay_hello *out)
{
    uint8_t message[CAY_HELLO_BYTES_MAX];
    assert(look->record_at <= len);
    while (!look->wanted || look->got < look->wanted) {
        const uint8_t *record = bytes + look->record_at;
        size_t left = len - look->record_at;
        uint8_t head[MESSAGE_HEAD] = {};
        enum cay_hello_state state = judge_head(record, left);
        if (state != CAY_HELLO_WHOLE) /* behind the first record nothing else may come */
            return state == CAY_HELLO_OTHER && look->record_at ? CAY_HELLO_BAD : state;
        size_t record_len = number_at(record, 3);
        if (look->record_at + RECORD_HEAD + record_len > CAY_HELLO_BYTES_MAX ||
            (look->got == 0 && left > RECORD_HEAD && record[RECORD_HEAD] != CLIENT_HELLO))
            return CAY_HELLO_BAD;
        if (left < RECORD_HEAD + record_len)
            return CAY_HELLO_MORE;
        look->got += record_len;
        look->record_at += RECORD_HEAD + record_len;
        if (!look->wanted)
            note_head(look, bytes, head);
        if (look->wanted > CAY_HELLO_BYTES_MAX || (look->wanted && look->got > look->wanted))
            return CAY_HELLO_BAD;
    }
    assemble(bytes, look->wanted, message);
    const struct reader reader = {.at = message, .left = look->wanted};
    return read_message(reader, out) ? CAY_HELLO_WHOLE : CAY_HELLO_BAD;
}

bool cay_hello_offers(const struct cay_hello *hello, const char *protocol)
{
    for (size_t at = 0; at < hello->protocols_len; at += 1 + (size_t)hello->protocols[at]) {
        const struct cay_str one = {(const char *)hello->protocols + at + 1, hello->protocols[at]};
        if (cay_str_is(one, protocol))
            return true;
    }
    return false;
}
