/* SPDX-License-Identifier: Apache-2.0 */
/* `cay net ask`: connections that wait for somebody to decide. */
#include <stdio.h>
#include <unistd.h>

#include "api/limits.h"
#include "api/noun.h"
#include "base/clock.h"
#include "base/quantity.h"
#include "cli/again.h"
#include "cli/command.h"
#include "cli/offer.h"
#include "cli/values.h"
#include "client/rpc/client.h"

enum { SEEN_MAX = 256, ID_BYTES_MAX = 32, LINE_BYTES = 64, CALL_MS = 30'000 };

static const struct {
    const char *word;
    enum cay_v1_network_decision decision;
} words[] = {
    {"once", CAY_V1_NETWORK_DECISION_ALLOW_ONCE},
    {"always", CAY_V1_NETWORK_DECISION_ALLOW_ALWAYS},
    {"no", CAY_V1_NETWORK_DECISION_REJECT_ONCE},
    {"never", CAY_V1_NETWORK_DECISION_REJECT_ALWAYS},
};

/* By the word, or where it may be short by its beginning that is no other's; 0: it is none. */
static enum cay_v1_network_decision read_word(struct cay_str text, bool may_be_short)
{
    enum cay_v1_network_decision found = CAY_V1_NETWORK_DECISION_UNSPECIFIED;
    for (size_t i = 0; i < CAY_COUNT(words); i++) {
        struct cay_str word = cay_str(words[i].word);
        if (cay_str_equal(word, text))
            return words[i].decision;
        if (!may_be_short || !text.len || text.len > word.len ||
            memcmp(word.ptr, text.ptr, text.len) != 0)
            continue;
        if (found)
            return CAY_V1_NETWORK_DECISION_UNSPECIFIED;
        found = words[i].decision;
    }
    return found;
}

struct asking {
    struct cay_cli *cli;
    struct cay_client *client;
    struct cay_str session_id;
    bool is_talking; /* to somebody at a terminal */
    struct cay_again again;
    char seen[SEEN_MAX][ID_BYTES_MAX]; /* a ring */
    size_t seen_count;
};

static bool call(struct asking *self, unsigned method, const void *request, struct cay_arena *arena,
                 void *out_response, struct cay_error *err)
{
    const struct cay_call_options options = {.size = sizeof(options), .timeout_ms = CALL_MS};
    return cay_client_call_with(self->client, &options, &cay_v1_methods[method], request, arena,
                                out_response, err);
}

static bool answer(struct asking *self, struct cay_str question_id,
                   enum cay_v1_network_decision decision, struct cay_error *err)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    struct cay_v1_answer_network_question_response response = {};
    const struct cay_v1_answer_network_question_request request = {
        .session_id = self->session_id, .question_id = question_id, .decision = decision};
    cay_arena_init(&arena, CAY_LIMIT_MESSAGE_BYTES);
    if (!call(self, CAY_V1_SANDBOX_SERVICE_ANSWER_NETWORK_QUESTION, &request, &arena, &response,
              err))
        return false;
    if (self->cli->out.is_json)
        return cay_output_message(&self->cli->out, &cay_v1_answer_network_question_response_desc,
                                  &response, err);
    if (response.rule.len)
        cay_output_printf(&self->cli->out, "rule added: %s %.*s\n",
                          decision == CAY_V1_NETWORK_DECISION_ALLOW_ALWAYS ? "allow" : "deny",
                          (int)response.rule.len, response.rule.ptr);
    return true;
}

static void time_left(const struct cay_v1_network_question *question, char out[CAY_DURATION_BYTES])
{
    int64_t left_ns = cay_noun_time_ns(question->refused_at) - cay_clock_wall_ns();
    cay_duration_format(CAY_MAX(left_ns, 0) / CAY_NS_PER_SEC * 1000, out);
}

static void print(struct cay_output *out, const struct cay_v1_network_question *question)
{
    char left[CAY_DURATION_BYTES];
    time_left(question, left);
    cay_output_text(out, CAY_STYLE_DIM, question->id);
    cay_output_printf(out, "  ");
    cay_output_text(out, CAY_STYLE_BOLD, question->name);
    cay_output_printf(out, ":%u  %d waiting, %s left\n", question->port, question->waiting, left);
    (void)fflush(out->file);
}

/* At a terminal. An empty line leaves it to the others, or to the time. */
static bool talk(struct asking *self, const struct cay_v1_network_question *question,
                 struct cay_error *err)
{
    char line[LINE_BYTES];
    for (;;) {
        (void)fputs("  once, always, no or never? ", stderr);
        if (!fgets(line, sizeof(line), stdin)) {
            self->is_talking = false; /* they are still shown */
            return true;
        }
        struct cay_str text = {line, strcspn(line, " \t\n")};
        if (!text.len)
            return true;
        enum cay_v1_network_decision decision = read_word(text, true);
        if (decision && answer(self, question->id, decision, err))
            return true;
        if (!decision)
            continue;
        if (err->reason != CAY_R_FAILED_PRECONDITION)
            return false;
        (void)fprintf(stderr, "  %s\n", err->text);
        *err = (struct cay_error){};
        return true;
    }
}

static bool is_new(struct asking *self, struct cay_str id)
{
    for (size_t i = 0; i < CAY_MIN(self->seen_count, (size_t)SEEN_MAX); i++) {
        if (cay_str_is(id, self->seen[i]))
            return false;
    }
    snprintf(self->seen[self->seen_count++ % SEEN_MAX], ID_BYTES_MAX, "%.*s", (int)id.len, id.ptr);
    return true;
}

static bool show_new(struct asking *self, struct cay_error *err)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    struct cay_v1_list_network_questions_response response = {};
    const struct cay_v1_list_network_questions_request request = {.session_id = self->session_id};
    struct cay_output *out = &self->cli->out;
    cay_arena_init(&arena, CAY_LIMIT_MESSAGE_BYTES);
    if (!call(self, CAY_V1_SANDBOX_SERVICE_LIST_NETWORK_QUESTIONS, &request, &arena, &response,
              err))
        return false;
    bool is_good = true;
    for (size_t i = 0; is_good && i < response.questions.count; i++) {
        const struct cay_v1_network_question *question = &response.questions.items[i];
        if (!is_new(self, question->id))
            continue;
        if (out->is_json)
            is_good = cay_output_message(out, &cay_v1_network_question_desc, question, err);
        else
            print(out, question);
        is_good = is_good && (!self->is_talking || talk(self, question, err));
    }
    return is_good;
}

/* Each frame, the first of which comes at once, is a reason to look. */
static bool on_frame(void *state, const void *, struct cay_error *err)
{
    struct asking *self = state;
    cay_again_began(&self->again);
    return show_new(self, err);
}

static bool follow(struct asking *self, struct cay_error *err)
{
    struct cay_str type = CAY_STR("network.asked");
    const struct cay_v1_watch_events_request request = {.session_ids = {&self->session_id, 1},
                                                        .types = {&type, 1}};
    while (!cay_client_call_stream(self->client,
                                   &cay_v1_methods[CAY_V1_SANDBOX_SERVICE_WATCH_EVENTS], &request,
                                   on_frame, self, err)) {
        if (!cay_again_waited(&self->again, err, NULL))
            return false;
        *err = (struct cay_error){};
    }
    return true;
}

static bool list(struct asking *self, struct cay_error *err)
{
    static const char *const titles[] = {"QUESTION", "DESTINATION", "WAITING", "LEFT"};
    struct cay_v1_list_network_questions_response response = {};
    const struct cay_v1_list_network_questions_request request = {.session_id = self->session_id};
    struct cay_output *out = &self->cli->out;
    if (!call(self, CAY_V1_SANDBOX_SERVICE_LIST_NETWORK_QUESTIONS, &request, &self->cli->arena,
              &response, err))
        return false;
    if (out->is_json)
        return cay_output_message(out, &cay_v1_list_network_questions_response_desc, &response,
                                  err);
    cay_auto(cay_table_finish) struct cay_table table;
    cay_table_init(&table, titles, CAY_COUNT(titles));
    for (size_t i = 0; i < response.questions.count; i++) {
        const struct cay_v1_network_question *question = &response.questions.items[i];
        char left[CAY_DURATION_BYTES];
        char waiting[16];
        cay_autofree char *to =
            cay_asprintf("%.*s:%u", (int)question->name.len, question->name.ptr, question->port);
        time_left(question, left);
        snprintf(waiting, sizeof(waiting), "%d", question->waiting);
        cay_table_cell(&table, CAY_STYLE_PLAIN, question->id);
        cay_table_cell(&table, CAY_STYLE_BOLD, cay_str(to));
        cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(waiting));
        cay_table_cell(&table, CAY_STYLE_PLAIN, cay_str(left));
    }
    cay_table_print(&table, out);
    return true;
}

static bool run_ask(struct cay_cli *cli, struct cay_error *err)
{
    struct asking self = {.cli = cli,
                          .session_id = cay_str(cli->args.words[0]),
                          .is_talking = !cli->out.is_json && isatty(STDIN_FILENO)};
    struct cay_str word = cay_values_text(cli, "answer");
    enum cay_v1_network_decision decision = read_word(word, false);
    if (word.ptr && !decision)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "--answer '%.40s': write once, always, no or never", word.ptr);
    if ((word.ptr != NULL) != (cli->args.word_count == 2))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "'cay net ask %.100s --answer once QUESTION' answers one question",
                        cli->args.words[0]);
    bool follows = !word.ptr && !cay_args_has(&cli->args, "now");
    if (!cay_cli_client(cli, follows ? CAY_CALL_STREAM : CAY_CALL_UNARY, &self.client, err))
        return false;
    if (word.ptr)
        return answer(&self, cay_str(cli->args.words[1]), decision, err);
    return follows ? follow(&self, err) : list(&self, err);
}

static const struct cay_flag ask_flags[] = {
    {.name = "answer", .value = "WORD", .help = "answer this question: once, always, no or never"},
    {.name = "now", .help = "list what waits now, and end"},
    {},
};

const struct cay_command cay_command_net_ask = {
    .name = "net ask",
    .arguments = "SESSION [QUESTION]",
    .summary = "Decide about connections that a network which asks holds back",
    .details =
        "Shows each as it comes, and at a terminal asks what to do. 'once' lets those through\n"
        "that wait, 'no' refuses them; 'always' and 'never' add a rule to the session.",
    .examples = "  cay net ask demo\n"
                "  cay net ask demo --now\n"
                "  cay net ask demo --answer always 5f0c1d2e",
    .flags = ask_flags,
    .group = CAY_GROUP_SANDBOX,
    .words_min = 1,
    .words_max = 2,
    .run = run_ask,
    .complete = cay_session_offer,
};
