/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "egress/egress.h"

/*
 * What the daemon is told of connections and questions. What was not allowed is told at once, so
 * that it is known before a command ends for it; all else within a tick. What is like one that
 * waits is counted there, and what finds no place is only in the totals: somebody who tries again
 * and again, or a lot, costs a bounded number of frames.
 */

void egress_receipts_finish(struct egress_receipts *receipts)
{
    free(cay_take_ptr(receipts->items));
    *receipts = (struct egress_receipts){};
}

static bool is_like(const struct cay_egress_receipt *a, const struct cay_egress_receipt *b)
{
    return a->verdict == b->verdict && a->why == b->why && a->is_question == b->is_question &&
           a->family == b->family && a->port == b->port &&
           memcmp(a->address, b->address, sizeof(a->address)) == 0 && a->status == b->status &&
           cay_str_equal(a->name, b->name) && cay_str_equal(a->rule, b->rule) &&
           cay_str_equal(a->method, b->method) && cay_str_equal(a->path, b->path);
}

static struct cay_str keep_text(char *place, struct cay_str text, size_t max)
{
    size_t len = CAY_MIN(text.len, max);
    if (len)
        memcpy(place, text.ptr, len);
    return (struct cay_str){place, len};
}

static struct kept_receipt *place_of(struct egress_receipts *receipts, size_t at)
{
    return &receipts->items[(receipts->first + at) % EGRESS_RECEIPTS_MAX];
}

/* NULL: there is no place. */
static struct kept_receipt *place_for(struct egress_receipts *receipts,
                                      const struct cay_egress_receipt *receipt)
{
    size_t denial_count = 0;
    if (!receipts->items)
        receipts->items = cay_alloc(EGRESS_RECEIPTS_MAX * sizeof(*receipts->items));
    for (size_t i = 0; i < receipts->count; i++) {
        struct kept_receipt *old = place_of(receipts, i);
        if (is_like(&old->what, receipt) && old->what.count < UINT32_MAX)
            return old;
        denial_count += old->what.verdict != CAY_EGRESS_ALLOWED;
    }
    if (receipts->count == EGRESS_RECEIPTS_MAX ||
        (receipt->verdict != CAY_EGRESS_ALLOWED && denial_count >= EGRESS_DENIALS_MAX))
        return NULL;
    struct kept_receipt *place = place_of(receipts, receipts->count++);
    place->what = *receipt;
    place->what.name = keep_text(place->name, receipt->name, sizeof(place->name));
    place->what.rule = keep_text(place->rule, receipt->rule, sizeof(place->rule));
    place->what.method = keep_text(place->method, receipt->method, sizeof(place->method));
    place->what.path = keep_text(place->path, receipt->path, sizeof(place->path));
    place->what.count = place->what.duration_ms = 0;
    place->what.sent_bytes = place->what.received_bytes = 0;
    place->told_count = 0;
    return place;
}

static uint32_t ago(const struct egress *egress, uint64_t time_ms)
{
    return (uint32_t)CAY_MIN(egress->now_ms - time_ms, (uint64_t)UINT32_MAX);
}

static bool send_receipt(struct egress *egress, const struct cay_egress_receipt *receipt,
                         uint64_t began_ms, uint64_t ended_ms)
{
    struct cay_egress_frame frame = {.kind = CAY_EGRESS_RECEIPT, .receipt = *receipt};
    frame.receipt.began_ago_ms = ago(egress, began_ms);
    frame.receipt.ended_ago_ms = ago(egress, ended_ms);
    return egress_send(egress, &frame, NULL, 0);
}

void egress_note(struct egress *egress, const struct cay_egress_receipt *receipt)
{
    struct egress_receipts *receipts = &egress->receipts;
    cay_egress_totals_count(&receipts->totals, receipt);
    struct kept_receipt *place = place_for(receipts, receipt);
    if (!place) {
        receipts->totals.lost += receipt->count;
        return;
    }
    uint64_t began_ms = egress->now_ms - receipt->duration_ms;
    if (receipt->verdict != CAY_EGRESS_ALLOWED && !place->what.count &&
        place->told_count < EGRESS_DENIALS_AT_ONCE &&
        send_receipt(egress, receipt, began_ms, egress->now_ms)) {
        place->told_count++;
        return;
    }
    place->began_ms = place->what.count ? CAY_MIN(place->began_ms, began_ms) : began_ms;
    place->ended_ms = egress->now_ms;
    place->what.count += receipt->count;
    place->what.sent_bytes += receipt->sent_bytes;
    place->what.received_bytes += receipt->received_bytes;
    place->what.duration_ms = CAY_MAX(place->what.duration_ms, receipt->duration_ms);
}

static bool are_same(const struct cay_egress_totals *a, const struct cay_egress_totals *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

void egress_flush(struct egress *egress)
{
    struct egress_receipts *receipts = &egress->receipts;
    if (!are_same(&receipts->totals, &receipts->kept))
        egress_names_keep_totals(&egress->names, &receipts->totals);
    receipts->kept = receipts->totals;
    while (receipts->count) {
        const struct kept_receipt *first = place_of(receipts, 0);
        if (first->what.count &&
            !send_receipt(egress, &first->what, first->began_ms, first->ended_ms))
            return;
        receipts->first = (receipts->first + 1) % EGRESS_RECEIPTS_MAX;
        receipts->count--;
    }
    const struct cay_egress_frame frame = {.kind = CAY_EGRESS_TOTALS, .totals = receipts->totals};
    if (!are_same(&receipts->totals, &receipts->told) && egress_send(egress, &frame, NULL, 0))
        receipts->told = receipts->totals;
}

bool egress_has_news(const struct egress *egress)
{
    const struct egress_receipts *receipts = &egress->receipts;
    return !are_same(&receipts->totals, &receipts->kept) ||
           (egress->control.fd >= 0 &&
            (receipts->count || !are_same(&receipts->totals, &receipts->told)));
}
