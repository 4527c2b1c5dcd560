/* SPDX-License-Identifier: Apache-2.0 */
#include "host/event/journal.h"
#include "tests/unit/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/loop_internal.h"

struct fixture {
    char dir[64];
    int dir_fd;
    struct cay_loop *loop;
    struct cay_journal *journal;
};

static void open_journal(struct fixture *self)
{
    assert_int_equal(cay_loop_create(&self->loop), 0);
    self->journal = cay_journal_create(self->loop, self->dir_fd);
}

static void close_journal(struct fixture *self)
{
    cay_loop_finish_jobs(self->loop);
    cay_journal_destroy(self->journal);
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

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(many_readers_hear_of_it_a_few_at_a_time),
        CASE(readers_that_skip_looks_are_not_asked_about_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
