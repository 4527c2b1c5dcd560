/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>

#include "cli/selftest/selftest.h"

static const struct {
    int number;
    const char *name;
    const char *title;
    bool is_greedy;
} titles[] = {
#define PROBE(id, ident, text, how) {id, #ident, text, (#how)[0] == 'G' /* GREEDY */},
#include "probe/probes.def"
#undef PROBE
#define OUTSIDE(id, ident, text) {id, #ident, text, false},
#include "cli/selftest/outside.def"
#undef OUTSIDE
};

/* Parts of the run are processes, which write into what all of them have. */
bool cay_selftest_make_rows(struct cay_selftest *self, struct cay_error *err)
{
    size_t size = sizeof(*self->rows) * CAY_COUNT(titles);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return cay_fail_errno(err, CAY_R_INTERNAL, -errno, "get %zu bytes", size);
    self->rows = memory;
    self->row_count = CAY_COUNT(titles);
    for (size_t i = 0; i < self->row_count; i++)
        self->rows[i] = (struct cay_selftest_row){
            .number = titles[i].number, .name = titles[i].name, .title = titles[i].title};
    return true;
}

void cay_selftest_free_rows(struct cay_selftest *self)
{
    if (self->rows)
        (void)munmap(self->rows, sizeof(*self->rows) * self->row_count);
}

struct cay_selftest_row *cay_selftest_row(struct cay_selftest *self, struct cay_str name)
{
    for (size_t i = 0; i < self->row_count; i++) {
        if (cay_str_is(name, self->rows[i].name))
            return &self->rows[i];
    }
    return NULL;
}

void cay_selftest_say(struct cay_selftest_outcome *out, enum cay_selftest_verdict verdict,
                      const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    out->verdict = verdict;
    vsnprintf(out->why, sizeof(out->why), fmt, args);
    va_end(args);
}

void cay_selftest_note(struct cay_selftest_row *row, size_t runtime, const char *where,
                       const struct cay_selftest_outcome *outcome)
{
    struct cay_selftest_cell *cell = &row->cells[runtime];
    enum cay_selftest_verdict before = cell->outcome.verdict;
    cell->tried++;
    cell->reached += outcome->verdict == CAY_SELFTEST_REACHED;
    /* Once reached it stays so, with the first place; what is absent somewhere gives way. */
    if (before == CAY_SELFTEST_REACHED)
        return;
    if (outcome->verdict == CAY_SELFTEST_REACHED)
        cay_selftest_say(&cell->outcome, CAY_SELFTEST_REACHED, "%s: %.120s", where, outcome->why);
    else if (before == CAY_SELFTEST_UNTRIED || before == CAY_SELFTEST_ABSENT)
        cell->outcome = *outcome;
}

static enum cay_selftest_verdict verdict_of(struct cay_str word)
{
    if (cay_str_is(word, "denied"))
        return CAY_SELFTEST_DENIED;
    if (cay_str_is(word, "reached"))
        return CAY_SELFTEST_REACHED;
    return cay_str_is(word, "absent") ? CAY_SELFTEST_ABSENT : CAY_SELFTEST_UNTRIED;
}

void cay_selftest_take(struct cay_selftest *self, size_t runtime, const char *where,
                       struct cay_str lines)
{
    struct cay_str line;
    while (lines.len && cay_str_split(&lines, '\n', &line)) {
        struct cay_str name;
        struct cay_str word;
        struct cay_selftest_outcome outcome = {};
        if (!cay_str_split(&line, '\t', &name) || !cay_str_split(&line, '\t', &word))
            continue;
        struct cay_selftest_row *row = cay_selftest_row(self, name);
        cay_selftest_say(&outcome, verdict_of(word), "%.*s", (int)line.len, line.ptr);
        if (!row || !outcome.verdict)
            continue;
        if (where)
            cay_selftest_note(row, runtime, where, &outcome);
        else
            row->control = outcome;
    }
}

void cay_selftest_note_greedy(struct cay_selftest *self, size_t runtime, const char *where,
                              const struct cay_selftest_outcome *outcome)
{
    for (size_t i = 0; i < self->row_count; i++) {
        if (titles[i].is_greedy)
            cay_selftest_note(&self->rows[i], runtime, where, outcome);
    }
}
