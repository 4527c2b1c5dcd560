/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands/steps.h"

#include <stdlib.h>

struct parsing {
    struct cay_arena *arena;
    struct cay_v1_build_base_request *request;
    size_t line; /* where the instruction at hand begins */
    struct cay_error *err;
};

static bool wrong(struct parsing *self, const char *text)
{
    return cay_fail(self->err, CAY_R_INVALID_ARGUMENT, "line %zu: %s", self->line, text);
}

static char *skip_blanks(char *at)
{
    return at + strspn(at, " \t");
}

/* The next word, cut out of the text; quotes and backslashes as in a shell. NULL at the end. */
static char *take_word(struct parsing *self, char **in_out, bool *out_is_good)
{
    char *from = skip_blanks(*in_out);
    char *word = from;
    char *to = from;
    char quote = '\0';
    *out_is_good = true;
    if (!*from)
        return NULL;
    for (; *from && (quote || (*from != ' ' && *from != '\t')); from++) {
        if (!quote && (*from == '"' || *from == '\'')) {
            quote = *from;
        } else if (quote && *from == quote) {
            quote = '\0';
        } else {
            if (*from == '\\' && quote != '\'' && from[1])
                from++;
            *to++ = *from;
        }
    }
    *in_out = *from ? from + 1 : from;
    *to = '\0';
    if (quote)
        *out_is_good = wrong(self, "a quote has no end");
    return word;
}

static bool take_words(struct parsing *self, char *text, struct cay_pb_strs *out_words)
{
    enum { WORDS_MAX = 1000 };
    bool is_good = true;
    *out_words = (struct cay_pb_strs){
        .items = cay_arena_array(self->arena, WORDS_MAX, sizeof(struct cay_str))};
    if (!out_words->items)
        return cay_fail(self->err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    for (char *word; (word = take_word(self, &text, &is_good)) && is_good;) {
        if (out_words->count == WORDS_MAX)
            return wrong(self, "there are too many words");
        out_words->items[out_words->count++] = cay_str(word);
    }
    return is_good;
}

static bool add_step(struct parsing *self, enum cay_v1_build_step_kind kind,
                     const struct cay_str *args, size_t count)
{
    struct cay_v1_build_base_request *request = self->request;
    struct cay_str *kept = cay_arena_array(self->arena, count, sizeof(*kept));
    if (!kept)
        return cay_fail(self->err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    if (request->steps.count == CAY_STEPS_MAX)
        return wrong(self, "there are too many steps");
    memcpy(kept, args, count * sizeof(*kept));
    request->steps.items[request->steps.count++] =
        (struct cay_v1_build_step){.kind = kind, .args = {kept, count}};
    return true;
}

static bool one_word(struct parsing *self, char *text, struct cay_str *out_word)
{
    struct cay_pb_strs words;
    if (!take_words(self, text, &words))
        return false;
    if (words.count != 1)
        return wrong(self, "one word is wanted here");
    *out_word = words.items[0];
    return true;
}

static bool read_from(struct parsing *self, char *text)
{
    if (self->request->steps.count)
        return wrong(self, "FROM stands first");
    return one_word(self, text, &self->request->from_base);
}

static bool read_run(struct parsing *self, char *text)
{
    struct cay_str command = cay_str(text);
    if (text[0] == '[')
        return wrong(self, "RUN takes a command for the shell, not a list");
    return add_step(self, CAY_V1_BUILD_STEP_KIND_RUN, &command, 1);
}

/* --chown=U --chmod=M SOURCE... DESTINATION */
static bool read_copy(struct parsing *self, char *text)
{
    struct cay_pb_strs words;
    struct cay_str args[4] = {};
    size_t first = 0;
    if (!take_words(self, text, &words))
        return false;
    for (; first < words.count && cay_str_starts(words.items[first], "--"); first++) {
        struct cay_str value = words.items[first];
        struct cay_str name;
        (void)cay_str_split(&value, '=', &name);
        if (cay_str_is(name, "--chown"))
            args[2] = value;
        else if (cay_str_is(name, "--chmod"))
            args[3] = value;
        else
            return wrong(self, "of COPY's flags --chown and --chmod are known");
    }
    if (words.count < first + 2)
        return wrong(self, "COPY takes what to copy, and where to");
    args[1] = words.items[words.count - 1];
    for (size_t i = first; i + 1 < words.count; i++) {
        args[0] = words.items[i];
        if (!add_step(self, CAY_V1_BUILD_STEP_KIND_COPY, args, CAY_COUNT(args)))
            return false;
    }
    return true;
}

/* NAME=VALUE..., or NAME and the rest of the line. */
static bool read_env(struct parsing *self, char *text)
{
    struct cay_pb_strs words;
    size_t name_len = strcspn(text, " \t=");
    if (text[name_len] && text[name_len] != '=') {
        char *value = skip_blanks(text + name_len);
        text[name_len] = '\0';
        const struct cay_str args[] = {cay_str(text), cay_str(value)};
        return add_step(self, CAY_V1_BUILD_STEP_KIND_ENV, args, 2);
    }
    if (!take_words(self, text, &words))
        return false;
    struct cay_str *args =
        cay_arena_array(self->arena, words.count * 2 + 1, sizeof(struct cay_str));
    for (size_t i = 0; args && i < words.count; i++) {
        args[2 * i + 1] = words.items[i];
        if (!cay_str_split(&args[2 * i + 1], '=', &args[2 * i]) || !args[2 * i + 1].ptr)
            return wrong(self, "ENV takes NAME=VALUE");
    }
    return args ? add_step(self, CAY_V1_BUILD_STEP_KIND_ENV, args, words.count * 2)
                : cay_fail(self->err, CAY_R_MESSAGE_TOO_LARGE, NULL);
}

static bool read_workdir(struct parsing *self, char *text)
{
    struct cay_str word;
    return one_word(self, text, &word) && add_step(self, CAY_V1_BUILD_STEP_KIND_WORKDIR, &word, 1);
}

static bool read_user(struct parsing *self, char *text)
{
    struct cay_str word;
    return one_word(self, text, &word) && add_step(self, CAY_V1_BUILD_STEP_KIND_USER, &word, 1);
}

/* ["a", "b"], or a command for the shell. */
static bool read_command(struct parsing *self, char *text, struct cay_pb_strs *out_argv)
{
    size_t len = strlen(text);
    if (text[0] != '[') {
        struct cay_str *argv = cay_arena_array(self->arena, 3, sizeof(*argv));
        if (!argv)
            return cay_fail(self->err, CAY_R_MESSAGE_TOO_LARGE, NULL);
        argv[0] = CAY_STR("/bin/sh");
        argv[1] = CAY_STR("-c");
        argv[2] = cay_str(text);
        *out_argv = (struct cay_pb_strs){argv, 3};
        return true;
    }
    if (text[len - 1] != ']')
        return wrong(self, "a list ends with ]");
    text[len - 1] = '\0';
    bool is_quoted = false;
    for (char *at = text + 1; *at; at++) {
        is_quoted ^= *at == '"' && at[-1] != '\\';
        if (*at == ',' && !is_quoted)
            *at = ' ';
    }
    return take_words(self, text + 1, out_argv);
}

static bool read_cmd(struct parsing *self, char *text)
{
    return read_command(self, text, &self->request->settings->start_command);
}

static bool read_healthcheck(struct parsing *self, char *text)
{
    if (strncmp(text, "CMD ", 4) != 0)
        return wrong(self, "HEALTHCHECK CMD and a command is what is known");
    return read_command(self, skip_blanks(text + 4), &self->request->settings->ready_command);
}

static const struct {
    const char *name;
    bool (*read)(struct parsing *self, char *text);
} instructions[] = {
    {"FROM", read_from},       {"RUN", read_run},
    {"COPY", read_copy},       {"ENV", read_env},
    {"WORKDIR", read_workdir}, {"USER", read_user},
    {"CMD", read_cmd},         {"HEALTHCHECK", read_healthcheck},
};

static bool read_instruction(struct parsing *self, char *text)
{
    size_t name_len = strcspn(text, " \t");
    char *rest = skip_blanks(text + name_len);
    for (size_t end = strlen(rest); end && strchr(" \t\r", rest[end - 1]); end--)
        rest[end - 1] = '\0';
    for (size_t i = 0; i < CAY_COUNT(instructions); i++) {
        if (strlen(instructions[i].name) != name_len ||
            strncasecmp(instructions[i].name, text, name_len) != 0)
            continue;
        return *rest ? instructions[i].read(self, rest) : wrong(self, "something is missing here");
    }
    return cay_fail(self->err, CAY_R_INVALID_ARGUMENT,
                    "line %zu: '%.*s' is not known; FROM, RUN, COPY, ENV, WORKDIR, USER, CMD and "
                    "HEALTHCHECK are",
                    self->line, (int)CAY_MIN(name_len, (size_t)40), text);
}

static bool is_comment(const char *line)
{
    return line[strspn(line, " \t")] == '#';
}

bool cay_steps_parse(char *text, struct cay_arena *arena, struct cay_v1_build_base_request *request,
                     struct cay_error *err)
{
    struct parsing self = {.arena = arena, .request = request, .err = err};
    size_t line_number = 0;
    request->steps.items = cay_arena_array(arena, CAY_STEPS_MAX, sizeof(struct cay_v1_build_step));
    if (!request->settings)
        request->settings = cay_arena_new(arena, struct cay_v1_base_settings);
    char *whole = cay_arena_alloc(arena, strlen(text) + 2);
    if (!request->steps.items || !request->settings || !whole)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    size_t begin = 0;
    size_t len = 0;
    for (char *line = text, *next = NULL; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        line_number++;
        size_t line_len = strlen(line);
        while (line_len && strchr(" \t\r", line[line_len - 1]))
            line[--line_len] = '\0';
        if (is_comment(line) || (len == begin && !line[strspn(line, " \t")]))
            continue;
        if (len == begin)
            self.line = line_number;
        bool goes_on = next && line_len && line[line_len - 1] == '\\';
        memcpy(whole + len, line, line_len - goes_on);
        len += line_len - goes_on;
        if (goes_on)
            continue;
        whole[len++] = '\0';
        if (!read_instruction(&self, skip_blanks(whole + begin)))
            return false;
        begin = len;
    }
    if (len == begin)
        return true;
    whole[len] = '\0';
    return read_instruction(&self, skip_blanks(whole + begin));
}
