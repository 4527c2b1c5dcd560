/* SPDX-License-Identifier: Apache-2.0 */
#include "host/event/journal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/noun.h"
#include "base/clock.h"
#include "base/id.h"

enum { EVENT_BYTES_MAX = 64 * 1024, KINDS = CAY_V1_EVENT_KIND_HOST + 1 };

struct entry {
    char *bytes;
    size_t len;
};

struct cay_journal {
    uint64_t life;                                /* of this daemon, at random */
    uint64_t first;                               /* number of the oldest entry */
    uint64_t next;                                /* of the one to come */
    struct entry entries[CAY_JOURNAL_EVENTS_MAX]; /* by number modulo their count */
    size_t bytes;
    uint64_t counts[KINDS];
    struct cay_list readers;
};

struct cay_journal *cay_journal_create(void)
{
    struct cay_journal *journal = cay_new(struct cay_journal);
    cay_random_bytes(&journal->life, sizeof(journal->life));
    journal->first = 1;
    journal->next = 1;
    cay_list_init(&journal->readers);
    return journal;
}

static void drop_oldest(struct cay_journal *journal)
{
    struct entry *entry = &journal->entries[journal->first++ % CAY_JOURNAL_EVENTS_MAX];
    journal->bytes -= entry->len;
    free(entry->bytes);
    *entry = (struct entry){};
}

void cay_journal_destroy(struct cay_journal *journal)
{
    if (!journal)
        return;
    while (journal->first < journal->next)
        drop_oldest(journal);
    free(journal);
}

void cay_journal_cursor(const struct cay_journal *journal, uint64_t number,
                        char out[CAY_CURSOR_BYTES])
{
    snprintf(out, CAY_CURSOR_BYTES, "%016" PRIx64 "-%" PRIu64, journal->life, number);
}

bool cay_journal_parse(const struct cay_journal *journal, struct cay_str cursor,
                       uint64_t *out_number, bool *out_is_lost)
{
    enum { LIFE_DIGITS = 16 };
    char own[CAY_CURSOR_BYTES];
    uint64_t number = 0;
    if (cursor.len <= LIFE_DIGITS + 1 || cursor.ptr[LIFE_DIGITS] != '-' ||
        cay_str_to_u64((struct cay_str){cursor.ptr + LIFE_DIGITS + 1, cursor.len - LIFE_DIGITS - 1},
                       INT64_MAX, &number) < 0)
        return false;
    cay_journal_cursor(journal, number, own);
    bool is_own = memcmp(own, cursor.ptr, LIFE_DIGITS) == 0 && number < journal->next;
    *out_is_lost = !is_own || number + 1 < journal->first;
    *out_number = *out_is_lost ? journal->first : number + 1;
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
    if (journal->next - journal->first == CAY_JOURNAL_EVENTS_MAX)
        drop_oldest(journal);
    while (journal->first < journal->next && journal->bytes + bytes.len > CAY_JOURNAL_BYTES_MAX)
        drop_oldest(journal);
    struct entry *entry = &journal->entries[journal->next % CAY_JOURNAL_EVENTS_MAX];
    entry->bytes = cay_alloc(bytes.len + 1);
    entry->len = bytes.len;
    memcpy(entry->bytes, bytes.data, bytes.len);
    journal->bytes += bytes.len;
    journal->next++;
    if ((unsigned)event->kind < KINDS)
        journal->counts[event->kind]++;
    event->time = NULL;
    event->cursor = CAY_STR("");
    cay_list_for_each (struct cay_journal_reader, reader, &journal->readers, in_journal)
        reader->news(reader);
}

void cay_journal_follow(struct cay_journal *journal, struct cay_journal_reader *reader)
{
    cay_list_push_back(&journal->readers, &reader->in_journal);
}

void cay_journal_unfollow(struct cay_journal_reader *reader)
{
    cay_list_remove(&reader->in_journal);
}

bool cay_journal_is_followed(const struct cay_journal *journal)
{
    cay_list_for_each (struct cay_journal_reader, reader, &journal->readers, in_journal) {
        if (!reader->skips_looks)
            return true;
    }
    return false;
}

uint64_t cay_journal_first(const struct cay_journal *journal)
{
    return journal->first;
}

uint64_t cay_journal_next(const struct cay_journal *journal)
{
    return journal->next;
}

struct cay_str cay_journal_get(const struct cay_journal *journal, uint64_t number)
{
    const struct entry *entry = &journal->entries[number % CAY_JOURNAL_EVENTS_MAX];
    return (struct cay_str){entry->bytes, entry->len};
}

uint64_t cay_journal_count(const struct cay_journal *journal, enum cay_v1_event_kind kind)
{
    return (unsigned)kind < KINDS ? journal->counts[kind] : 0;
}
