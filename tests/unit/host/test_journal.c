/* SPDX-License-Identifier: Apache-2.0 */
#include "host/event/journal.h"
#include "tests/unit/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/loop_internal.h"
#include "io/worker.h"

struct fixture {
    char dir[64];
    int dir_fd;
    struct cay_loop *loop;
    struct cay_timer alive; /* without anything to wait for, the loop would not turn */
    struct cay_journal *journal;
};

static void open_journal(struct fixture *self)
{
    assert_int_equal(cay_loop_create(&self->loop), 0);
    cay_timer_open(&self->alive, self->loop, NULL);
    cay_timer_start(&self->alive, 1 << 30, 0);
    self->journal = cay_journal_create(self->loop, self->dir_fd);
}

static void close_journal(struct fixture *self)
{
    cay_loop_finish_jobs(self->loop);
    cay_journal_destroy(self->journal);
    cay_timer_close(&self->alive);
    cay_loop_destroy(self->loop);
}

static int setup(void **state)
{
    struct fixture *self = cay_new(struct fixture);
    snprintf(self->dir, sizeof(self->dir), "%s/journal-XXXXXX", getenv("TMPDIR") ?: "/tmp");
    assert_non_null(mkdtemp(self->dir));
    self->dir_fd = open(self->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(self->dir_fd >= 0);
    open_journal(self);
    *state = self;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *self = *state;
    close_journal(self);
    DIR *dir = fdopendir(self->dir_fd);
    for (struct dirent *entry; (entry = readdir(dir));)
        (void)unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    assert_int_equal(rmdir(self->dir), 0);
    free(self);
    return 0;
}

static void add(struct fixture *self, const char *owner)
{
    struct cay_v1_event event = {.kind = CAY_V1_EVENT_KIND_SESSION,
                                 .type = CAY_STR("session.created"),
                                 .owner = cay_str(owner)};
    cay_journal_add(self->journal, &event);
}

struct listener {
    struct cay_journal_reader reader;
    size_t *heard;
};

static void on_news(struct cay_journal_reader *reader)
{
    ++*((struct listener *)reader)->heard;
}

/* Timers are looked at before and after the wait. */
enum { HEARD_PER_TURN = 2 * CAY_JOURNAL_READERS_PER_TURN };

/* Returns how many turns of the loop it took. */
static size_t hear(struct fixture *self, const size_t *heard, size_t wanted)
{
    size_t turns = 0;
    for (; *heard < wanted; turns++) {
        size_t before = *heard;
        uv_run(&self->loop->uv, UV_RUN_ONCE);
        assert_true(*heard - before <= HEARD_PER_TURN);
    }
    return turns;
}

static void many_readers_hear_of_it_a_few_at_a_time(void **state)
{
    enum { READERS = 10 * CAY_JOURNAL_READERS_PER_TURN };
    struct fixture *self = *state;
    struct listener *listeners = cay_alloc(READERS * sizeof(*listeners));
    size_t heard = 0;
    for (size_t i = 0; i < READERS; i++) {
        listeners[i] = (struct listener){.reader.news = on_news, .heard = &heard};
        cay_journal_follow(self->journal, &listeners[i].reader);
    }
    add(self, "a");
    assert_int_equal(heard, 0);
    assert_true(hear(self, &heard, READERS) >= READERS / HEARD_PER_TURN);
    assert_int_equal(heard, READERS);
    /* All hear of the next two, in whatever turn they come. */
    add(self, "a");
    (void)hear(self, &heard, READERS + 1);
    size_t twice = heard - READERS;
    add(self, "a");
    (void)hear(self, &heard, 2 * READERS + twice);
    for (size_t i = 0; i < READERS; i++)
        assert_true(listeners[i].reader.told == cay_journal_next(self->journal));
    for (size_t i = 0; i < READERS; i++)
        cay_journal_unfollow(&listeners[i].reader);
    free(listeners);
}

static void readers_that_skip_looks_are_not_asked_about_them(void **state)
{
    struct fixture *self = *state;
    struct cay_journal_reader skips = {.news = on_news, .skips_looks = true};
    struct cay_journal_reader looks = {.news = on_news};
    cay_journal_follow(self->journal, &skips);
    assert_false(cay_journal_is_followed(self->journal));
    cay_journal_follow(self->journal, &looks);
    assert_true(cay_journal_is_followed(self->journal));
    cay_journal_unfollow(&looks);
    assert_false(cay_journal_is_followed(self->journal));
    cay_journal_unfollow(&skips);
}

enum { FEW = 3, MANY = 3 * CAY_SHELF_EVENTS_MAX };

/* So many that they fill the memory and the files several times over. */
static void flood(struct fixture *self, enum cay_v1_event_kind kind)
{
    struct cay_v1_network_receipt receipt = {};
    char type[600];
    memset(type, 'x', sizeof(type) - 1);
    type[sizeof(type) - 1] = '\0';
    for (size_t i = 0; i < MANY; i++) {
        struct cay_v1_event event = {
            .kind = kind,
            .type = cay_str(type),
            .owner = CAY_STR("many"),
            .network = kind == CAY_V1_EVENT_KIND_NETWORK ? &receipt : NULL,
        };
        cay_journal_add(self->journal, &event);
        if (i % 500 == 0) {
            cay_workers_wait(self->loop->workers);
            uv_run(&self->loop->uv, UV_RUN_NOWAIT);
        }
    }
}

static size_t kept_of(const struct fixture *self, const char *owner)
{
    size_t count = 0;
    uint64_t number = 0;
    for (const struct cay_shelf_event *event; (event = cay_journal_from(self->journal, number));
         number = event->number + 1)
        count += cay_str_is(cay_shelf_owner(event), owner);
    return count;
}

static size_t plain_of(const struct fixture *self)
{
    size_t count = 0;
    uint64_t number = 0;
    for (const struct cay_shelf_event *event; (event = cay_journal_from(self->journal, number));
         number = event->number + 1)
        count += !cay_shelf_is_receipt(event);
    return count;
}

static void who_causes_many_pushes_out_its_own(void **state)
{
    struct fixture *self = *state;
    struct cay_journal_place few = {.owner = CAY_STR("few")};
    struct cay_journal_place many = {.owner = CAY_STR("many")};
    struct cay_journal_place all = {};
    uint64_t missed = 0;
    cay_journal_place_at_end(self->journal, &few);
    cay_journal_place_at_end(self->journal, &many);
    cay_journal_place_at_end(self->journal, &all);
    for (int i = 0; i < FEW; i++)
        add(self, "few");
    flood(self, CAY_V1_EVENT_KIND_TOOL);
    assert_int_equal(kept_of(self, "few"), FEW);
    size_t kept = kept_of(self, "many");
    assert_in_range(kept, 1000, CAY_SHELF_EVENTS_MAX);
    /* Who has lost some is told how many, once; who has not, hears of no loss. */
    assert_false(cay_journal_place_lost(self->journal, &few, &missed));
    assert_true(cay_journal_place_lost(self->journal, &many, &missed));
    assert_int_equal(missed, MANY - kept);
    assert_false(cay_journal_place_lost(self->journal, &many, &missed));
    assert_true(cay_journal_place_lost(self->journal, &all, &missed));
    assert_int_equal(missed, MANY - kept);
    assert_false(cay_journal_place_lost(self->journal, &all, &missed));
}

static void so_it_does_on_the_disk(void **state)
{
    struct fixture *self = *state;
    char cursor[CAY_CURSOR_BYTES];
    for (int i = 0; i < FEW; i++)
        add(self, "few");
    flood(self, CAY_V1_EVENT_KIND_TOOL);
    uint64_t next = cay_journal_next(self->journal);
    cay_journal_cursor(self->journal, next - 1, cursor);
    close_journal(self);
    open_journal(self);
    assert_int_equal(kept_of(self, "few"), FEW);
    assert_true(kept_of(self, "many") > 1000);
    /* Numbers go on, and a reader that was at the end goes on without a gap. */
    assert_int_equal(cay_journal_next(self->journal), next);
    struct cay_journal_place place = {.owner = CAY_STR("many")};
    bool is_lost = true;
    uint64_t missed = 0;
    assert_true(cay_journal_parse(self->journal, cay_str(cursor), &place.next, &is_lost));
    assert_false(is_lost);
    assert_int_equal(place.next, next);
    assert_false(cay_journal_place_lost(self->journal, &place, &missed));
    /* One from before that does not. */
    place.next = 1;
    assert_true(cay_journal_place_lost(self->journal, &place, &missed));
}

/* Receipts push out receipts; of other events of the same owner none, in memory and on disk. */
static void receipts_push_out_their_own(void **state)
{
    struct fixture *self = *state;
    struct cay_journal_place place = {.owner = CAY_STR("many")};
    uint64_t missed = 0;
    cay_journal_place_at_end(self->journal, &place);
    for (int i = 0; i < FEW; i++)
        add(self, "many");
    flood(self, CAY_V1_EVENT_KIND_NETWORK);
    size_t kept = kept_of(self, "many");
    assert_true(cay_journal_place_lost(self->journal, &place, &missed));
    assert_int_equal(missed, MANY + FEW - kept);
    assert_int_equal(plain_of(self), FEW);
    close_journal(self);
    open_journal(self);
    assert_int_equal(plain_of(self), FEW);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(many_readers_hear_of_it_a_few_at_a_time),
        CASE(readers_that_skip_looks_are_not_asked_about_them),
        CASE(who_causes_many_pushes_out_its_own),
        CASE(so_it_does_on_the_disk),
        CASE(receipts_push_out_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
