/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/egress/egress.h"

#include <assert.h>

/* Little-endian, without padding: one byte of kind and then the fields, texts with their length. */

struct writer {
    uint8_t *data;
    size_t len;
    bool is_full;
};

static void put(struct writer *writer, uint64_t value, size_t bytes)
{
    writer->is_full = writer->is_full || bytes > CAY_EGRESS_FRAME_BYTES_MAX - writer->len;
    for (size_t i = 0; i < bytes && !writer->is_full; i++)
        writer->data[writer->len++] = (uint8_t)(value >> 8 * i);
}

static void put_text(struct writer *writer, struct cay_str text, size_t max)
{
    writer->is_full = writer->is_full || text.len > max;
    put(writer, text.len, 2);
    writer->is_full = writer->is_full || text.len > CAY_EGRESS_FRAME_BYTES_MAX - writer->len;
    if (writer->is_full || !text.len)
        return;
    memcpy(writer->data + writer->len, text.ptr, text.len);
    writer->len += text.len;
}

static void put_receipt(struct writer *writer, const struct cay_egress_receipt *receipt)
{
    put(writer, receipt->verdict, 1);
    put(writer, receipt->why, 1);
    put(writer, receipt->is_question, 1);
    put(writer, receipt->family, 1);
    for (size_t i = 0; i < sizeof(receipt->address); i++)
        put(writer, receipt->address[i], 1);
    put(writer, receipt->port, 2);
    put(writer, receipt->count, 4);
    put(writer, receipt->duration_ms, 4);
    put(writer, receipt->began_ago_ms, 4);
    put(writer, receipt->ended_ago_ms, 4);
    put(writer, receipt->sent_bytes, 8);
    put(writer, receipt->received_bytes, 8);
    put_text(writer, receipt->name, CAY_EGRESS_NAME_BYTES_MAX);
    put_text(writer, receipt->rule, CAY_EGRESS_RULE_BYTES_MAX);
    put_text(writer, receipt->method, CAY_EGRESS_METHOD_BYTES_MAX);
    put_text(writer, receipt->path, CAY_EGRESS_PATH_BYTES_MAX);
    put(writer, receipt->status, 2);
}

static void put_totals(struct writer *writer, const struct cay_egress_totals *totals)
{
    put(writer, totals->allowed, 8);
    put(writer, totals->refused, 8);
    put(writer, totals->failed, 8);
    put(writer, totals->questions, 8);
    put(writer, totals->sent_bytes, 8);
    put(writer, totals->received_bytes, 8);
    put(writer, totals->lost, 8);
}

size_t cay_egress_encode(const struct cay_egress_frame *frame,
                         uint8_t out[static CAY_EGRESS_FRAME_BYTES_MAX])
{
    struct writer writer = {.data = out};
    put(&writer, frame->kind, 1);
    switch (frame->kind) {
    case CAY_EGRESS_START:
    case CAY_EGRESS_HELLO:
        put(&writer, frame->version, 4);
        put(&writer, frame->parts, 4);
        put(&writer, frame->intercepts, 1);
        break;
    case CAY_EGRESS_LEAF:
    case CAY_EGRESS_LEAF_WANTED:
    case CAY_EGRESS_USED: put_text(&writer, frame->name, CAY_EGRESS_NAME_BYTES_MAX); break;
    case CAY_EGRESS_POLICY:
        put(&writer, frame->serial, 8);
        put(&writer, frame->asks_ms, 4);
        break;
    case CAY_EGRESS_PING:
    case CAY_EGRESS_PONG: put(&writer, frame->serial, 8); break;
    case CAY_EGRESS_ANSWER:
        put(&writer, frame->ask.id, 4);
        put(&writer, frame->is_allowed, 1);
        break;
    case CAY_EGRESS_ASK:
        put(&writer, frame->ask.id, 4);
        put(&writer, frame->ask.left_ms, 4);
        put(&writer, frame->ask.count, 4);
        put(&writer, frame->ask.port, 2);
        put_text(&writer, frame->ask.name, CAY_EGRESS_NAME_BYTES_MAX);
        break;
    case CAY_EGRESS_APPLIED:
        put(&writer, frame->serial, 8);
        put(&writer, frame->count, 8);
        break;
    case CAY_EGRESS_TOTALS: put_totals(&writer, &frame->totals); break;
    case CAY_EGRESS_RECEIPT: put_receipt(&writer, &frame->receipt); break;
    case CAY_EGRESS_SECRETS:
    case CAY_EGRESS_QUIT: break;
    }
    return writer.is_full ? 0 : writer.len;
}

struct reader {
    const uint8_t *data;
    size_t left;
    bool is_short;
};

static uint64_t get(struct reader *reader, size_t bytes)
{
    uint64_t value = 0;
    reader->is_short = reader->is_short || bytes > reader->left;
    if (reader->is_short)
        return 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)reader->data[i] << 8 * i;
    reader->data += bytes;
    reader->left -= bytes;
    return value;
}

static bool get_flag(struct reader *reader, bool *out)
{
    uint64_t value = get(reader, 1);
    *out = value == 1;
    return value <= 1;
}

static struct cay_str get_text(struct reader *reader, size_t max)
{
    size_t len = (size_t)get(reader, 2);
    reader->is_short = reader->is_short || len > max || len > reader->left;
    if (reader->is_short || !len)
        return (struct cay_str){};
    struct cay_str text = {(const char *)reader->data, len};
    reader->data += len;
    reader->left -= len;
    return text;
}

static bool get_receipt(struct reader *reader, struct cay_egress_receipt *receipt)
{
    uint64_t verdict = get(reader, 1);
    uint64_t why = get(reader, 1);
    uint64_t is_question = get(reader, 1);
    uint64_t family = get(reader, 1);
    for (size_t i = 0; i < sizeof(receipt->address); i++)
        receipt->address[i] = (uint8_t)get(reader, 1);
    receipt->port = (uint16_t)get(reader, 2);
    receipt->count = (uint32_t)get(reader, 4);
    receipt->duration_ms = (uint32_t)get(reader, 4);
    receipt->began_ago_ms = (uint32_t)get(reader, 4);
    receipt->ended_ago_ms = (uint32_t)get(reader, 4);
    receipt->sent_bytes = get(reader, 8);
    receipt->received_bytes = get(reader, 8);
    receipt->name = get_text(reader, CAY_EGRESS_NAME_BYTES_MAX);
    receipt->rule = get_text(reader, CAY_EGRESS_RULE_BYTES_MAX);
    receipt->method = get_text(reader, CAY_EGRESS_METHOD_BYTES_MAX);
    receipt->path = get_text(reader, CAY_EGRESS_PATH_BYTES_MAX);
    receipt->status = (uint16_t)get(reader, 2);
    if (verdict < CAY_EGRESS_REFUSED || verdict > CAY_EGRESS_FAILED || why >= CAY_EGRESS_WHYS ||
        is_question > 1 || (family != 0 && family != 4 && family != 6) || !receipt->count)
        return false;
    receipt->verdict = (enum cay_egress_verdict)verdict;
    receipt->why = (enum cay_egress_why)why;
    receipt->is_question = is_question == 1;
    receipt->family = (uint8_t)family;
    return true;
}

static void get_totals(struct reader *reader, struct cay_egress_totals *totals)
{
    totals->allowed = get(reader, 8);
    totals->refused = get(reader, 8);
    totals->failed = get(reader, 8);
    totals->questions = get(reader, 8);
    totals->sent_bytes = get(reader, 8);
    totals->received_bytes = get(reader, 8);
    totals->lost = get(reader, 8);
}

bool cay_egress_decode(const uint8_t *bytes, size_t len, bool is_from_helper,
                       struct cay_egress_frame *out_frame)
{
    struct reader reader = {.data = bytes, .left = len};
    struct cay_egress_frame frame = {.kind = (enum cay_egress_kind)get(&reader, 1)};
    bool is_good = (frame.kind >= CAY_EGRESS_HELLO) == is_from_helper;
    switch (frame.kind) {
    case CAY_EGRESS_START:
    case CAY_EGRESS_HELLO:
        frame.version = (uint32_t)get(&reader, 4);
        frame.parts = (uint32_t)get(&reader, 4);
        is_good = is_good && frame.parts < UINT32_C(1) << CAY_EGRESS_PARTS &&
                  get_flag(&reader, &frame.intercepts);
        break;
    case CAY_EGRESS_LEAF:
    case CAY_EGRESS_LEAF_WANTED:
    case CAY_EGRESS_USED: frame.name = get_text(&reader, CAY_EGRESS_NAME_BYTES_MAX); break;
    case CAY_EGRESS_POLICY:
        frame.serial = get(&reader, 8);
        frame.asks_ms = (uint32_t)get(&reader, 4);
        break;
    case CAY_EGRESS_PING:
    case CAY_EGRESS_PONG: frame.serial = get(&reader, 8); break;
    case CAY_EGRESS_ANSWER:
        frame.ask.id = (uint32_t)get(&reader, 4);
        is_good = get_flag(&reader, &frame.is_allowed) && is_good && frame.ask.id;
        break;
    case CAY_EGRESS_ASK:
        frame.ask.id = (uint32_t)get(&reader, 4);
        frame.ask.left_ms = (uint32_t)get(&reader, 4);
        frame.ask.count = (uint32_t)get(&reader, 4);
        frame.ask.port = (uint16_t)get(&reader, 2);
        frame.ask.name = get_text(&reader, CAY_EGRESS_NAME_BYTES_MAX);
        is_good = is_good && frame.ask.id && frame.ask.name.len;
        break;
    case CAY_EGRESS_APPLIED:
        frame.serial = get(&reader, 8);
        frame.count = get(&reader, 8);
        break;
    case CAY_EGRESS_TOTALS: get_totals(&reader, &frame.totals); break;
    case CAY_EGRESS_RECEIPT: is_good = get_receipt(&reader, &frame.receipt) && is_good; break;
    case CAY_EGRESS_SECRETS:
    case CAY_EGRESS_QUIT: break;
    default: is_good = false; break;
    }
    if (!is_good || reader.is_short || reader.left)
        return false;
    *out_frame = frame;
    return true;
}

void cay_egress_totals_count(struct cay_egress_totals *totals,
                             const struct cay_egress_receipt *receipt)
{
    uint64_t *place = receipt->is_question                     ? &totals->questions
                      : receipt->verdict == CAY_EGRESS_ALLOWED ? &totals->allowed
                      : receipt->verdict == CAY_EGRESS_REFUSED ? &totals->refused
                                                               : &totals->failed;
    *place += receipt->count;
}

void cay_egress_totals_add(struct cay_egress_totals *totals, const struct cay_egress_totals *more)
{
    totals->allowed += more->allowed;
    totals->refused += more->refused;
    totals->failed += more->failed;
    totals->questions += more->questions;
    totals->sent_bytes += more->sent_bytes;
    totals->received_bytes += more->received_bytes;
    totals->lost += more->lost;
}

bool cay_egress_totals_subtract(struct cay_egress_totals *totals,
                                const struct cay_egress_totals *less)
{
    if (totals->allowed < less->allowed || totals->refused < less->refused ||
        totals->failed < less->failed || totals->questions < less->questions ||
        totals->sent_bytes < less->sent_bytes || totals->received_bytes < less->received_bytes ||
        totals->lost < less->lost)
        return false;
    totals->allowed -= less->allowed;
    totals->refused -= less->refused;
    totals->failed -= less->failed;
    totals->questions -= less->questions;
    totals->sent_bytes -= less->sent_bytes;
    totals->received_bytes -= less->received_bytes;
    totals->lost -= less->lost;
    return true;
}

void cay_egress_totals_write(const struct cay_egress_totals *totals,
                             uint8_t out[static CAY_EGRESS_TOTALS_BYTES])
{
    struct writer writer = {.data = out};
    put_totals(&writer, totals);
    assert(writer.len == CAY_EGRESS_TOTALS_BYTES);
}

void cay_egress_totals_read(const uint8_t bytes[static CAY_EGRESS_TOTALS_BYTES],
                            struct cay_egress_totals *out_totals)
{
    struct reader reader = {.data = bytes, .left = CAY_EGRESS_TOTALS_BYTES};
    get_totals(&reader, out_totals);
}

void cay_egress_rule_put(struct cay_buf *out, enum cay_egress_rule kind, struct cay_str text)
{
    const uint8_t head[] = {(uint8_t)kind, (uint8_t)text.len, (uint8_t)(text.len >> 8)};
    out->failed = out->failed || text.len > CAY_EGRESS_RULE_BYTES_MAX;
    cay_buf_append(out, head, sizeof(head));
    cay_buf_append_str(out, text);
}

bool cay_egress_rule_next(struct cay_str *rest, enum cay_egress_rule *out_kind,
                          struct cay_str *out_text)
{
    struct reader reader = {.data = (const uint8_t *)rest->ptr, .left = rest->len};
    uint64_t kind = get(&reader, 1);
    struct cay_str text = get_text(&reader, CAY_EGRESS_RULE_BYTES_MAX);
    if (reader.is_short || kind < CAY_EGRESS_ALLOW || kind > CAY_EGRESS_SET)
        return false;
    *out_kind = (enum cay_egress_rule)kind;
    *out_text = text;
    *rest = (struct cay_str){(const char *)reader.data, reader.left};
    return true;
}
