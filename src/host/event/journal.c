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
    KINDS = CAY_V1_EVENT_KIND_HOST + 1,
    LIVES_MAX = 64, /* of daemons whose cursors are known */
    LIFE_DIGITS = 16,
    TELL_AGAIN_MS = 1, /* with 0 it would be in the same turn of the loop */
};

/* Numbers go on from daemon to daemon. What the last one did not come to write down is not in the
 * journal, and the next one gives its number to something else: so each has a mark of its own. */
struct life {
    uint64_t mark;  /* at random */
    uint64_t first; /* number of its first event */
};

struct entry {
    char *bytes;
    size_t len;
};

struct cay_journal {
    struct life lives[LIVES_MAX]; /* oldest first; the last is ours */
    size_t life_count;
    struct cay_journal_file *file;                /* or NULL */
    uint64_t first;                               /* number of the oldest entry */
    uint64_t next;                                /* of the one to come */
    struct entry entries[CAY_JOURNAL_EVENTS_MAX]; /* by number modulo their count */
    size_t bytes;
    uint64_t counts[KINDS];
    struct cay_list readers; /* those who were told the least come first */
    size_t looking_count;    /* of those who care for what changed nothing */
    struct cay_timer telling;
};

static void drop_oldest(struct cay_journal *journal)
{
    struct entry *entry = &journal->entries[journal->first++ % CAY_JOURNAL_EVENTS_MAX];
    journal->bytes -= entry->len;
    free(entry->bytes);
    *entry = (struct entry){};
}

static void begin_life(struct cay_journal *journal, uint64_t mark)
{
    if (journal->life_count == LIVES_MAX)
        memmove(journal->lives, journal->lives + 1,
                --journal->life_count * sizeof(journal->lives[0]));
    journal->lives[journal->life_count++] = (struct life){mark, journal->next};
}

static void keep(struct cay_journal *journal, struct cay_str bytes)
{
    if (journal->next - journal->first == CAY_JOURNAL_EVENTS_MAX)
        drop_oldest(journal);
    while (journal->first < journal->next && journal->bytes + bytes.len > CAY_JOURNAL_BYTES_MAX)
        drop_oldest(journal);
    struct entry *entry = &journal->entries[journal->next % CAY_JOURNAL_EVENTS_MAX];
    entry->bytes = cay_alloc(bytes.len + 1);
    entry->len = bytes.len;
    memcpy(entry->bytes, bytes.ptr, bytes.len);
    journal->bytes += bytes.len;
    journal->next++;
}

static bool read_cursor(struct cay_str cursor, uint64_t *out_mark, uint64_t *out_number)
{
    char digits[LIFE_DIGITS + 1] = "";
    char *end = NULL;
    if (cursor.len <= LIFE_DIGITS + 1 || cursor.ptr[LIFE_DIGITS] != '-')
        return false;
    memcpy(digits, cursor.ptr, LIFE_DIGITS);
    *out_mark = strtoull(digits, &end, 16);
    return *end == '\0' && cay_str_to_u64((struct cay_str){cursor.ptr + LIFE_DIGITS + 1,
                                                           cursor.len - LIFE_DIGITS - 1},
                                          INT64_MAX, out_number) == 0;
}

/* An event of an earlier daemon. */
static void take_old(void *context, struct cay_str bytes)
{
    struct cay_journal *journal = context;
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, 1 << 20);
    struct cay_v1_event event = {};
    uint64_t mark = 0;
    uint64_t number = 0;
    if (bytes.len > EVENT_BYTES_MAX ||
        cay_pb_decode(&cay_v1_event_desc, bytes, &arena, &event) < 0 ||
        !read_cursor(event.cursor, &mark, &number) || !number)
        return;
    /* Some between could not be written down: what is before them is out of order. */
    if (number != journal->next) {
        while (journal->first < journal->next)
            drop_oldest(journal);
        journal->first = journal->next = number;
        journal->life_count = 0;
    }
    if (!journal->life_count || journal->lives[journal->life_count - 1].mark != mark)
        begin_life(journal, mark);
    keep(journal, bytes);
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
    journal->first = 1;
    journal->next = 1;
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
    while (journal->first < journal->next)
        drop_oldest(journal);
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
    if (!read_cursor(cursor, &mark, &number))
        return false;
    *out_is_lost = true;
    *out_number = journal->first;
    for (size_t i = 0; i < journal->life_count; i++) {
        if (journal->lives[i].mark != mark)
            continue;
        /* Beyond what is known of that daemon, something was not written down. */
        uint64_t end = i + 1 < journal->life_count ? journal->lives[i + 1].first : journal->next;
        *out_is_lost = number >= end || number + 1 < journal->first;
        *out_number = CAY_MAX(CAY_MIN(number + 1, end), journal->first);
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
    keep(journal, cay_buf_str(&bytes));
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
