/* SPDX-License-Identifier: Apache-2.0 */
#include "host/live/asking.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/noun.h"
#include "egress/rules/rules.h"
#include "host/session/host.h"
#include "host/session/tell.h"

enum { ID_SIZE = 9 };

static void format_id(uint32_t id, char out[static ID_SIZE])
{
    snprintf(out, ID_SIZE, "%08x", id);
}

static void tell(const struct cay_session *session, const struct cay_question *question,
                 const char *how, const struct cay_call *call)
{
    char id[ID_SIZE];
    struct cay_facts facts = {};
    format_id(question->id, id);
    cay_facts_text(&facts, "question", cay_str(id));
    cay_facts_text(&facts, "name", cay_str(question->name));
    cay_facts_number(&facts, "port", question->port);
    cay_tell(session->host,
             &(struct cay_happening){.type = how ? "network.answered" : "network.asked",
                                     .session = session,
                                     .call = call,
                                     .reason = how,
                                     .is_nobodys = !call,
                                     .facts = &facts});
}

static struct cay_question *find(const struct cay_asking *asking, uint32_t id)
{
    for (size_t i = 0; i < asking->count; i++) {
        if (asking->items[i].id == id)
            return &asking->items[i];
    }
    return NULL;
}

/* A helper that somebody has got hold of could say anything. */
static bool is_good_name(struct cay_str name)
{
    char text[CAY_NAME_SIZE];
    const char *why = NULL;
    return cay_name_normalise(name, text, &why) && cay_str_is(name, text);
}

void cay_asking_take(struct cay_asking *asking, const struct cay_session *session,
                     const struct cay_egress_ask *ask)
{
    int64_t now_ns = cay_clock_wall_ns();
    struct cay_question *question = find(asking, ask->id);
    if (!ask->left_ms) {
        if (question)
            cay_asking_end(asking, session, ask->id,
                           question->until_ns <= now_ns ? "timeout" : "rules", NULL);
        return;
    }
    if (question) {
        question->count = ask->count;
        return;
    }
    if (asking->count == CAY_EGRESS_ASKS_MAX || !is_good_name(ask->name))
        return;
    if (!asking->items)
        asking->items = cay_alloc(CAY_EGRESS_ASKS_MAX * sizeof(*asking->items));
    question = &asking->items[asking->count++];
    *question = (struct cay_question){.id = ask->id,
                                      .count = ask->count,
                                      .port = ask->port,
                                      .asked_ns = now_ns,
                                      .until_ns = now_ns + (int64_t)ask->left_ms * CAY_NS_PER_MS};
    memcpy(question->name, ask->name.ptr, ask->name.len);
    tell(session, question, NULL, NULL);
}

const struct cay_question *cay_asking_find(const struct cay_asking *asking, struct cay_str id)
{
    char text[ID_SIZE];
    for (size_t i = 0; asking && i < asking->count; i++) {
        format_id(asking->items[i].id, text);
        if (cay_str_is(id, text))
            return &asking->items[i];
    }
    return NULL;
}

void cay_asking_end(struct cay_asking *asking, const struct cay_session *session, uint32_t id,
                    const char *how, const struct cay_call *call)
{
    struct cay_question *question = find(asking, id);
    if (!question)
        return;
    if (session)
        tell(session, question, how, call);
    size_t behind = asking->count - (size_t)(question - asking->items) - 1;
    memmove(question, question + 1, behind * sizeof(*question));
    asking->count--;
}

void cay_asking_drop(struct cay_asking *asking, const struct cay_session *session)
{
    while (asking->count)
        cay_asking_end(asking, session, asking->items[0].id, "lost", NULL);
    free(cay_take_ptr(asking->items));
}

static bool fill(struct cay_arena *arena, const struct cay_question *question,
                 struct cay_v1_network_question *out)
{
    char id[ID_SIZE];
    format_id(question->id, id);
    *out = (struct cay_v1_network_question){
        .id = cay_arena_str(arena, cay_str(id)),
        .name = cay_arena_str(arena, cay_str(question->name)),
        .port = question->port,
        .waiting = (int32_t)CAY_MIN(question->count, (uint32_t)INT32_MAX),
        .asked_at = cay_noun_time(arena, question->asked_ns),
        .refused_at = cay_noun_time(arena, question->until_ns),
    };
    return out->id.len && out->name.len && out->asked_at && out->refused_at;
}

bool cay_asking_list(const struct cay_asking *asking, struct cay_arena *arena,
                     struct cay_v1_list_network_questions_response *out, struct cay_error *err)
{
    size_t count = asking ? asking->count : 0;
    out->questions.items = cay_arena_array(arena, count + 1, sizeof(*out->questions.items));
    bool is_good = out->questions.items != NULL;
    for (size_t i = 0; is_good && i < count; i++)
        is_good = fill(arena, &asking->items[i], &out->questions.items[out->questions.count++]);
    return is_good || cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
}
