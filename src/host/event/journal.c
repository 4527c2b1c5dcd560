/* SPDX-License-Identifier: Apache-2.0 */
#include "host/event/journal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/noun.h"
#include "base/clock.h"
#include "base/id.h"
#include "host/event/journal_file.h"

enum {
    EVENT_BYTES_MAX = 64 * 1024,
    KINDS = CAY_V1_EVENT_KIND_NETWORK + 1,
    LIVES_MAX = 64,    /* of daemons whose cursors are known */
    TELL_AGAIN_MS = 1, /* with 0 it would be in the same turn of the loop */
};

/* Numbers go on from daemon to daemon. What the last one did not come to write down is not in the
 * journal, and the next one gives its number to something else: so each has a mark of its own. */
struct life {
    uint64_t mark;  /* at random */
    uint64_t first; /* number of its first event */
};

struct cay_journal {
    struct life lives[LIVES_MAX]; /* oldest first; the last is ours */
    size_t life_count;
    struct cay_journal_file *file; /* or NULL */
    uint64_t next;                 /* number of the event to come */
    uint64_t floor; /* of those below it, some were not written down by earlier daemons */
    struct cay_shelf shelf;
    uint64_t counts[KINDS];
    struct cay_list readers; /* those who were told the least come first */
    size_t looking_count;    /* of those who care for what changed nothing */
    struct cay_timer telling;
};

static void begin_life(struct cay_journal *journal, uint64_t mark)
{
    if (journal->life_count == LIVES_MAX)
        memmove(journal->lives, journal->lives + 1,
                --journal->life_count * sizeof(journal->lives[0]));
    journal->lives[journal->life_count++] = (struct life){mark, journal->next};
}

/* An event of an earlier daemon. */
static void take_old(void *context, const struct cay_journal_old *old)
{
    struct cay_journal *journal = context;
    if (old->number < journal->next)
        return; /* a file was about to be replaced */
    if (old->number != journal->next)
        journal->floor = journal->next = old->number;
    if (!journal->life_count || journal->lives[journal->life_count - 1].mark != old->mark)
        begin_life(journal, old->mark);
    cay_shelf_add(&journal->shelf, journal->next++, old->owner, old->is_receipt, old->bytes);
}

static void tell_some(struct cay_timer *timer)
{
    struct cay_journal *journal = CAY_CONTAINER_OF(timer, struct cay_journal, telling);
    for (int i = 0; i < CAY_JOURNAL_READERS_PER_TURN; i++) {
        struct cay_journal_reader *reader =
            CAY_LIST_ITEM(cay_list_first(&journal->readers), struct cay_journal_reader, in_journal);
        if (!reader || reader->told == journal->next)
            return;
        cay_list_remove(&reader->in_journal);
        cay_list_push_back(&journal->readers, &reader->in_journal);
        reader->told = journal->next;
        reader->news(reader); /* it may leave */
    }
    cay_timer_start(&journal->telling, TELL_AGAIN_MS, 0);
}

struct cay_journal *cay_journal_create(struct cay_loop *loop, int dir_fd)
{
    struct cay_journal *journal = cay_new(struct cay_journal);
    uint64_t mark = 0;
    journal->next = 1;
    cay_shelf_init(&journal->shelf, CAY_JOURNAL_BYTES_MAX);
    cay_list_init(&journal->readers);
    cay_timer_open(&journal->telling, loop, tell_some);
    journal->file = cay_journal_file_open(loop, dir_fd, take_old, journal);
    cay_random_bytes(&mark, sizeof(mark));
    begin_life(journal, mark);
    return journal;
}

void cay_journal_destroy(struct cay_journal *journal)
{
    if (!journal)
        return;
    cay_timer_close(&journal->telling);
    cay_journal_file_close(journal->file);
    cay_shelf_finish(&journal->shelf);
    free(journal);
}

void cay_journal_cursor(const struct cay_journal *journal, uint64_t number,
                        char out[CAY_CURSOR_BYTES])
{
    size_t at = journal->life_count - 1;
    while (at > 0 && journal->lives[at].first > number)
        at--;
    snprintf(out, CAY_CURSOR_BYTES, "%016" PRIx64 "-%" PRIu64, journal->lives[at].mark, number);
}

bool cay_journal_parse(const struct cay_journal *journal, struct cay_str cursor,
                       uint64_t *out_number, bool *out_is_lost)
{
    uint64_t mark = 0;
    uint64_t number = 0;
    if (!cay_journal_cursor_read(cursor, &mark, &number))
        return false;
    *out_is_lost = true;
    *out_number = cay_journal_first(journal);
    for (size_t i = 0; i < journal->life_count; i++) {
        if (journal->lives[i].mark != mark)
            continue;
        /* Beyond what is known of that daemon, something was not written down. */
        uint64_t end = i + 1 < journal->life_count ? journal->lives[i + 1].first : journal->next;
        *out_is_lost = number >= end;
        *out_number = CAY_MIN(number + 1, end);
    }
    return true;
}

void cay_journal_add(struct cay_journal *journal, struct cay_v1_event *event)
{
    char cursor[CAY_CURSOR_BYTES];
    int64_t now_ns = cay_clock_wall_ns();
    struct google_protobuf_timestamp now = {.seconds = now_ns / CAY_NS_PER_SEC,
                                            .nanos = (int32_t)(now_ns % CAY_NS_PER_SEC)};
    cay_auto(cay_buf_finish) struct cay_buf bytes;
    cay_buf_init(&bytes, EVENT_BYTES_MAX);
    cay_journal_cursor(journal, journal->next, cursor);
    event->cursor = cay_str(cursor);
    event->time = &now;
    if (cay_pb_encode(&cay_v1_event_desc, event, &bytes) < 0)
        event->data = NULL; /* too much to say: the fact itself stays */
    if (bytes.failed) {
        cay_buf_clear(&bytes, SIZE_MAX);
        if (cay_pb_encode(&cay_v1_event_desc, event, &bytes) < 0)
            return;
    }
    cay_shelf_add(&journal->shelf, journal->next++, event->owner, event->network != NULL,
                  cay_buf_str(&bytes));
    cay_journal_file_add(journal->file, cay_buf_str(&bytes));
    if ((unsigned)event->kind < KINDS)
        journal->counts[event->kind]++;
    event->time = NULL;
    event->cursor = CAY_STR("");
    if (!cay_list_empty(&journal->readers))
        cay_timer_start(&journal->telling, 0, 0);
}

void cay_journal_follow(struct cay_journal *journal, struct cay_journal_reader *reader)
{
    reader->journal = journal;
    reader->told = journal->next;
    journal->looking_count += !reader->skips_looks;
    cay_list_push_back(&journal->readers, &reader->in_journal);
}

void cay_journal_unfollow(struct cay_journal_reader *reader)
{
    reader->journal->looking_count -= !reader->skips_looks;
    cay_list_remove(&reader->in_journal);
}

bool cay_journal_is_followed(const struct cay_journal *journal)
{
    return journal->looking_count > 0;
}

uint64_t cay_journal_first(const struct cay_journal *journal)
{
    const struct cay_shelf_event *event = cay_shelf_from(&journal->shelf, 0);
    return event ? event->number : journal->next;
}

uint64_t cay_journal_next(const struct cay_journal *journal)
{
    return journal->next;
}

const struct cay_shelf_event *cay_journal_from(const struct cay_journal *journal, uint64_t number)
{
    return cay_shelf_from(&journal->shelf, number);
}

static uint64_t lost_of(const struct cay_journal *journal, struct cay_str owner)
{
    uint64_t unwritten = journal->floor ? journal->floor - 1 : 0;
    uint64_t lost = CAY_MAX(cay_shelf_lost(&journal->shelf, owner, false),
                            cay_shelf_lost(&journal->shelf, owner, true));
    return CAY_MAX(lost, unwritten);
}

void cay_journal_place_at_end(const struct cay_journal *journal, struct cay_journal_place *place)
{
    place->next = journal->next;
    place->lost = lost_of(journal, place->owner);
    for (size_t i = 0; i < CAY_COUNT(place->seen); i++) {
        place->seen[i].count = cay_shelf_owner_count(&journal->shelf, place->owner, i);
        place->seen[i].is_known = place->owner.ptr != NULL;
    }
}

void cay_journal_place_pass(struct cay_journal_place *place, const struct cay_shelf_event *event)
{
    place->next = event->number + 1;
    if (place->owner.ptr && cay_str_equal(place->owner, cay_shelf_owner(event))) {
        place->seen[cay_shelf_is_receipt(event)].count = event->nth;
        place->seen[cay_shelf_is_receipt(event)].is_known = true;
    }
}

/* How many of its owner's; 0: that is not known. */
static uint64_t count_lost(const struct cay_shelf *shelf, struct cay_journal_place *place)
{
    uint64_t missed = 0;
    bool is_known = true;
    for (size_t i = 0; i < CAY_COUNT(place->seen); i++) {
        uint64_t lost_count = cay_shelf_lost_count(shelf, place->owner, i);
        is_known = is_known && (place->seen[i].is_known || !lost_count);
        if (lost_count > place->seen[i].count) {
            missed += lost_count - place->seen[i].count;
            place->seen[i].count = lost_count;
        }
    }
    return is_known ? missed : 0;
}

bool cay_journal_place_lost(const struct cay_journal *journal, struct cay_journal_place *place,
                            uint64_t *out_missed)
{
    const struct cay_shelf *shelf = &journal->shelf;
    uint64_t lost = lost_of(journal, place->owner);
    if (lost < place->next || lost <= place->lost)
        return false;
    *out_missed = place->owner.ptr
                      ? count_lost(shelf, place)
                      : cay_shelf_missing(shelf, CAY_MAX(place->next, place->lost + 1), lost);
    place->lost = lost;
    return true;
}

uint64_t cay_journal_count(const struct cay_journal *journal, enum cay_v1_event_kind kind)
{
    return (unsigned)kind < KINDS ? journal->counts[kind] : 0;
}
