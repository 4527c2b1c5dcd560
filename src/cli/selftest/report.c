/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/selftest/selftest.h"

enum { JSON_BYTES_MAX = 4 * 1024 * 1024 };

static const char *const words[] = {[CAY_SELFTEST_UNTRIED] = "not tried",
                                    [CAY_SELFTEST_DENIED] = "denied",
                                    [CAY_SELFTEST_REACHED] = "reached",
                                    [CAY_SELFTEST_ABSENT] = "absent"};

/* A probe that reaches nothing without a sandbox around it cannot tell a good sandbox from a bad
 * one. Where there is nothing to reach, nothing is wrong with it. */
static bool is_broken(const struct cay_selftest_row *row)
{
    return row->control.verdict == CAY_SELFTEST_DENIED ||
           row->control.verdict == CAY_SELFTEST_UNTRIED;
}

/* Not tried is as bad as reached: nobody knows. */
static bool is_bad(const struct cay_selftest *self, const struct cay_selftest_row *row, size_t i)
{
    enum cay_selftest_verdict verdict = row->cells[i].outcome.verdict;
    return self->runtimes[i].is_judged &&
           (verdict == CAY_SELFTEST_REACHED || verdict == CAY_SELFTEST_UNTRIED);
}

struct counts {
    size_t reached;
    size_t untried;
    size_t denied;
    size_t absent;
    size_t broken;
    size_t tried;
};

static struct counts count_runtime(const struct cay_selftest *self, size_t runtime)
{
    struct counts counts = {};
    for (size_t i = 0; i < self->row_count; i++) {
        const struct cay_selftest_row *row = &self->rows[i];
        enum cay_selftest_verdict verdict = row->cells[runtime].outcome.verdict;
        counts.tried += row->cells[runtime].tried;
        counts.reached += verdict == CAY_SELFTEST_REACHED;
        counts.untried += verdict == CAY_SELFTEST_UNTRIED;
        /* What the machine does not have was not denied. */
        bool is_absent =
            verdict == CAY_SELFTEST_ABSENT || row->control.verdict == CAY_SELFTEST_ABSENT;
        counts.absent += is_absent && verdict != CAY_SELFTEST_REACHED;
        counts.denied += verdict == CAY_SELFTEST_DENIED && !is_absent;
    }
    return counts;
}

static struct counts count_control(const struct cay_selftest *self)
{
    struct counts counts = {};
    for (size_t i = 0; i < self->row_count; i++) {
        counts.reached += self->rows[i].control.verdict == CAY_SELFTEST_REACHED;
        counts.absent += self->rows[i].control.verdict == CAY_SELFTEST_ABSENT;
        counts.broken += is_broken(&self->rows[i]);
    }
    return counts;
}

static enum cay_style style_of(enum cay_selftest_verdict verdict, bool is_control)
{
    if (verdict == CAY_SELFTEST_ABSENT)
        return CAY_STYLE_DIM;
    return (verdict == CAY_SELFTEST_REACHED) == is_control ? CAY_STYLE_GOOD : CAY_STYLE_BAD;
}

static void print_rows(struct cay_selftest *self)
{
    struct cay_output *out = &self->cli->out;
    const char *titles[3 + CAY_SELFTEST_RUNTIMES_MAX] = {"#", "PROBE"};
    size_t columns = 2;
    for (size_t i = 0; i < self->runtime_count; i++) {
        if (self->runtimes[i].is_judged)
            titles[columns++] = self->runtimes[i].name;
    }
    titles[columns++] = "CONTROL";
    titles[columns++] = "WHAT IT TRIES";
    cay_auto(cay_table_finish) struct cay_table table;
    cay_table_init(&table, titles, columns);
    for (size_t r = 0; r < self->row_count; r++) {
        const struct cay_selftest_row *row = &self->rows[r];
        cay_table_cell(&table, CAY_STYLE_DIM,
                       cay_str(cay_arena_printf(&self->arena, "%d", row->number)));
        cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(row->name));
        for (size_t i = 0; i < self->runtime_count; i++) {
            enum cay_selftest_verdict verdict = row->cells[i].outcome.verdict;
            if (self->runtimes[i].is_judged)
                cay_table_cell(&table, style_of(verdict, false), cay_str(words[verdict]));
        }
        cay_table_cell(&table, style_of(row->control.verdict, true),
                       cay_str(words[row->control.verdict]));
        cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(row->title));
    }
    cay_table_print(&table, out);
    cay_output_printf(out, "\n");
}

static void print_findings(struct cay_selftest *self)
{
    struct cay_output *out = &self->cli->out;
    for (size_t r = 0; r < self->row_count; r++) {
        const struct cay_selftest_row *row = &self->rows[r];
        for (size_t i = 0; i < self->runtime_count; i++) {
            if (!is_bad(self, row, i))
                continue;
            cay_output_text(out, CAY_STYLE_BAD, cay_str(words[row->cells[i].outcome.verdict]));
            cay_output_printf(out, "  %s: %d %s, %s (", self->runtimes[i].name, row->number,
                              row->name, row->title);
            cay_output_text(out, CAY_STYLE_PLAIN, cay_str(row->cells[i].outcome.why));
            cay_output_printf(out, "; %u of %u tries)\n", row->cells[i].reached,
                              row->cells[i].tried);
        }
        if (!is_broken(row))
            continue;
        cay_output_text(out, CAY_STYLE_BAD, CAY_STR("broken"));
        cay_output_printf(out, "   %d %s, %s: without a sandbox it is not reached either (",
                          row->number, row->name, row->title);
        cay_output_text(out, CAY_STYLE_PLAIN, cay_str(row->control.why));
        cay_output_printf(out, ")\n");
    }
}

static void print_counts(struct cay_selftest *self, int64_t took_ms)
{
    struct cay_output *out = &self->cli->out;
    for (size_t i = 0; i < self->runtime_count; i++) {
        const struct cay_selftest_runtime *runtime = &self->runtimes[i];
        struct counts counts = count_runtime(self, i);
        if (!runtime->is_judged)
            cay_output_printf(out, "%-12s %s\n", runtime->name, runtime->note);
        else
            cay_output_printf(out,
                              "%-12s %zu reached, %zu denied, %zu not here, %zu not tried; in %zu "
                              "tries\n",
                              runtime->name, counts.reached, counts.denied, counts.absent,
                              counts.untried, counts.tried);
    }
    struct counts control = count_control(self);
    cay_output_printf(out, "%-12s %zu reached, as they must be, %zu not here, %zu broken\n",
                      "control", control.reached, control.absent, control.broken);
    cay_output_printf(out, "%zu probes in %" PRId64 ".%" PRId64 " s\n", self->row_count,
                      took_ms / 1000, took_ms % 1000 / 100);
}

static void write_outcome(struct cay_json_writer *json, const struct cay_selftest_outcome *outcome)
{
    cay_json_key(json, "verdict");
    cay_json_text(json, outcome->verdict ? words[outcome->verdict] : "untried");
    cay_json_key(json, "why");
    cay_json_text(json, outcome->why);
}

static void write_row(struct cay_json_writer *json, const struct cay_selftest *self,
                      const struct cay_selftest_row *row)
{
    cay_json_object_begin(json);
    cay_json_key(json, "number");
    cay_json_i64(json, row->number);
    cay_json_key(json, "name");
    cay_json_text(json, row->name);
    cay_json_key(json, "title");
    cay_json_text(json, row->title);
    cay_json_key(json, "control");
    cay_json_object_begin(json);
    write_outcome(json, &row->control);
    cay_json_object_end(json);
    cay_json_key(json, "runtimes");
    cay_json_object_begin(json);
    for (size_t i = 0; i < self->runtime_count; i++) {
        if (!self->runtimes[i].is_judged)
            continue;
        cay_json_key(json, self->runtimes[i].name);
        cay_json_object_begin(json);
        write_outcome(json, &row->cells[i].outcome);
        cay_json_key(json, "tries");
        cay_json_u64(json, row->cells[i].tried);
        cay_json_key(json, "reached");
        cay_json_u64(json, row->cells[i].reached);
        cay_json_object_end(json);
    }
    cay_json_object_end(json);
    cay_json_object_end(json);
}

static void write_runtimes(struct cay_json_writer *json, const struct cay_selftest *self)
{
    cay_json_array_begin(json);
    for (size_t i = 0; i < self->runtime_count; i++) {
        const struct cay_selftest_runtime *runtime = &self->runtimes[i];
        struct counts counts = count_runtime(self, i);
        cay_json_object_begin(json);
        cay_json_key(json, "name");
        cay_json_text(json, runtime->name);
        cay_json_key(json, "judged");
        cay_json_bool(json, runtime->is_judged);
        if (runtime->is_judged) {
            cay_json_key(json, "reached");
            cay_json_u64(json, counts.reached);
            cay_json_key(json, "denied");
            cay_json_u64(json, counts.denied);
            cay_json_key(json, "absent");
            cay_json_u64(json, counts.absent);
            cay_json_key(json, "untried");
            cay_json_u64(json, counts.untried);
        } else {
            cay_json_key(json, "note");
            cay_json_text(json, runtime->note ? runtime->note : "");
        }
        cay_json_object_end(json);
    }
    cay_json_array_end(json);
}

static void print_json(struct cay_selftest *self, bool is_ok, int64_t took_ms)
{
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_buf_init(&buf, JSON_BYTES_MAX);
    struct cay_json_writer json = {.buf = &buf};
    struct counts control = count_control(self);
    cay_json_object_begin(&json);
    cay_json_key(&json, "ok");
    cay_json_bool(&json, is_ok);
    cay_json_key(&json, "duration_ms");
    cay_json_i64(&json, took_ms);
    cay_json_key(&json, "broken");
    cay_json_u64(&json, control.broken);
    cay_json_key(&json, "runtimes");
    write_runtimes(&json, self);
    cay_json_key(&json, "probes");
    cay_json_array_begin(&json);
    for (size_t i = 0; i < self->row_count; i++)
        write_row(&json, self, &self->rows[i]);
    cay_json_array_end(&json);
    cay_json_object_end(&json);
    cay_output_json(&self->cli->out, cay_buf_str(&buf));
}

int cay_selftest_report(struct cay_selftest *self)
{
    int64_t took_ms = cay_clock_ms() - self->started_ms;
    bool is_ok = count_control(self).broken == 0;
    for (size_t r = 0; r < self->row_count; r++)
        for (size_t i = 0; i < self->runtime_count; i++)
            is_ok = is_ok && !is_bad(self, &self->rows[r], i);
    if (self->cli->out.is_json) {
        print_json(self, is_ok, took_ms);
        return is_ok ? 0 : CAY_EXIT_UNHEALTHY;
    }
    if (cay_args_has(&self->cli->args, "all"))
        print_rows(self);
    print_findings(self);
    print_counts(self, took_ms);
    return is_ok ? 0 : CAY_EXIT_UNHEALTHY;
}
