/* SPDX-License-Identifier: Apache-2.0 */
#include "host/live/refusals.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "wire/egress/words.h"

enum { SENTENCE_BYTES_MAX = 2 * CAY_EGRESS_FRAME_BYTES_MAX };

void cay_refusals_finish(struct cay_refusals *refusals)
{
    for (size_t i = 0; i < refusals->count; i++)
        free(refusals->items[i].text);
    *refusals = (struct cay_refusals){};
}

/* --- what was refused --- */

static struct cay_refusal *find(struct cay_refusals *refusals, const char *text)
{
    for (size_t i = 0; i < refusals->count; i++) {
        if (strcmp(refusals->items[i].text, text) == 0)
            return &refusals->items[i];
    }
    return NULL;
}

/* A new one, or that which was not seen for longest. */
static struct cay_refusal *make_room(struct cay_refusals *refusals)
{
    struct cay_refusal *oldest = &refusals->items[0];
    if (refusals->count < CAY_REFUSALS_MAX)
        return &refusals->items[refusals->count++];
    for (size_t i = 1; i < refusals->count; i++) {
        if (refusals->items[i].last_ns < oldest->last_ns)
            oldest = &refusals->items[i];
    }
    refusals->dropped_ns = CAY_MAX(refusals->dropped_ns, oldest->last_ns);
    free(oldest->text);
    return oldest;
}

void cay_refusals_add(struct cay_refusals *refusals, const struct cay_session *session,
                      const struct cay_egress_receipt *receipt)
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, SENTENCE_BYTES_MAX);
    if (receipt->why == CAY_EGRESS_LEFT)
        return;
    cay_egress_sentence(receipt, cay_str(session->id), &text);
    cay_buf_append_byte(&text, '\0');
    if (text.failed)
        return;
    struct cay_refusal *refusal = find(refusals, text.data);
    if (!refusal) {
        refusal = make_room(refusals);
        refusal->text = cay_strdup(text.data);
    }
    refusal->last_ns = cay_clock_wall_ns() - receipt->ended_ago_ms * CAY_NS_PER_MS;
}

bool cay_refusals_any(const struct cay_refusals *refusals, int64_t since_ns)
{
    for (size_t i = 0; i < refusals->count; i++) {
        if (refusals->items[i].last_ns >= since_ns)
            return true;
    }
    return false;
}

int32_t cay_refusals_since(const struct cay_refusals *refusals, int64_t since_ns,
                           struct cay_arena *arena, struct cay_pb_strs *out_sentences)
{
    int32_t total = refusals->dropped_ns >= since_ns && refusals->dropped_ns;
    *out_sentences = (struct cay_pb_strs){};
    if (!cay_refusals_any(refusals, since_ns))
        return 0;
    out_sentences->items =
        cay_arena_array(arena, CAY_REFUSALS_TOLD_MAX, sizeof(*out_sentences->items));
    for (size_t i = 0; i < refusals->count && out_sentences->items; i++) {
        const struct cay_refusal *refusal = &refusals->items[i];
        if (refusal->last_ns < since_ns)
            continue;
        total++;
        if (out_sentences->count < CAY_REFUSALS_TOLD_MAX)
            out_sentences->items[out_sentences->count++] =
                cay_arena_str(arena, cay_str(refusal->text));
    }
    return total;
}

/* --- who ran --- */

void cay_refusals_ended(struct cay_refusals *refusals, const struct cay_process *process)
{
    struct cay_lived *life = &refusals->lives[refusals->life_count++ % CAY_REFUSALS_LIVES];
    *life = (struct cay_lived){.started_ns = process->started_ns, .ended_ns = cay_clock_wall_ns()};
    memcpy(life->id, process->id, sizeof(life->id));
}

struct search {
    int64_t began_ns, ended_ns;
    const char *found;
    bool has_several;
};

static void consider(struct search *search, const char *id, int64_t started_ns, int64_t ended_ns)
{
    if (started_ns > search->ended_ns || ended_ns < search->began_ns)
        return;
    search->has_several = search->has_several || search->found;
    search->found = id;
}

static void consider_alive(struct search *search, const struct cay_list *list)
{
    cay_list_for_each (struct cay_process, process, list, in_table) {
        if (!cay_process_is_over(process) && !process->is_exiting)
            consider(search, process->id, process->started_ns, INT64_MAX);
    }
}

const char *cay_refusals_process(const struct cay_refusals *refusals,
                                 const struct cay_session *session, int64_t began_ns,
                                 int64_t ended_ns)
{
    struct search search = {.began_ns = began_ns, .ended_ns = ended_ns};
    size_t kept = CAY_MIN(refusals->life_count, (size_t)CAY_REFUSALS_LIVES);
    for (size_t i = 0; i < kept; i++)
        consider(&search, refusals->lives[i].id, refusals->lives[i].started_ns,
                 refusals->lives[i].ended_ns);
    consider_alive(&search, &session->processes.list);
    consider_alive(&search, &session->processes.hidden);
    /* What has ended before those that are kept is not known. */
    const struct cay_lived *oldest = &refusals->lives[refusals->life_count % CAY_REFUSALS_LIVES];
    bool is_forgotten = kept == CAY_REFUSALS_LIVES && oldest->ended_ns >= began_ns;
    return search.has_several || is_forgotten ? NULL : search.found;
}
