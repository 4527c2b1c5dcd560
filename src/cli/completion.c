/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/completion.h"

#include "base/json.h"
#include "base/nearest.h"
#include "cli/command.h"
#include "cli/offer.h"

enum { SCRIPT_BYTES_MAX = 16 * 1024 };

static const struct {
    const char *shell;
    const char *script;
    const char *help;
} scripts[] = {
    {"bash",
     "_cay() {\n"
     "    local line\n"
     "    COMPREPLY=()\n"
     "    while IFS= read -r line; do\n"
     "        COMPREPLY+=(\"${line%%$'\\t'*}\")\n"
     "    done < <(\"${COMP_WORDS[0]}\" complete -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" "
     "2>/dev/null)\n"
     "}\n"
     "complete -o default -F _cay cay\n",
     "source <(cay completion bash)"},
    {"zsh",
     "#compdef cay\n"
     "_cay() {\n"
     "    local line\n"
     "    local -a candidates\n"
     "    while IFS= read -r line; do\n"
     "        candidates+=(\"${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\")\n"
     "    done < <(\"${words[1]}\" complete -- \"${(@)words[2,CURRENT]}\" 2>/dev/null)\n"
     "    if (( ${#candidates} )); then _describe cay candidates; else _files; fi\n"
     "}\n"
     "if [[ $funcstack[1] == _cay ]]; then _cay \"$@\"; else compdef _cay cay; fi\n",
     "source <(cay completion zsh)"},
    {"fish",
     "function __cay_complete\n"
     "    set -l words (commandline -opc)\n"
     "    set -l current (commandline -ct)\n"
     "    $words[1] complete -- $words[2..-1] \"$current\" 2>/dev/null\n"
     "end\n"
     "complete -c cay -f -a '(__cay_complete)'\n",
     "cay completion fish | source"},
};

void cay_completion_offer(struct cay_completion *completion, const char *name, const char *help)
{
    if (strncmp(name, completion->prefix, strlen(completion->prefix)) == 0)
        cay_output_printf(&completion->cli->out, "%s\t%s\n", name, help ? help : "");
}

/* Writes into `out` the words typed so far, joined: "key" of `cay key cr`. */
static void join_words(const struct cay_completion *completion, struct cay_buf *out)
{
    for (size_t i = 0; i < completion->word_count; i++) {
        cay_buf_append_text(out, completion->words[i]);
        cay_buf_append_byte(out, ' ');
    }
    cay_buf_append_byte(out, '\0');
}

/* Of "key create" only "key" is offered at first, once. */
void cay_completion_commands(struct cay_completion *completion)
{
    cay_auto(cay_buf_finish) struct cay_buf before;
    cay_buf_init(&before, SCRIPT_BYTES_MAX);
    join_words(completion, &before);
    if (before.failed)
        return;
    size_t skip = before.len - 1;
    const char *last = "";
    for (size_t i = 0; i < cay_command_count; i++) {
        const char *name = cay_commands[i]->name;
        if (cay_commands[i]->is_hidden || strncmp(name, before.data, skip) != 0)
            continue;
        const char *rest = name + skip;
        size_t len = strcspn(rest, " ");
        if (strlen(last) == len && strncmp(last, rest, len) == 0)
            continue;
        char *word = cay_arena_copy(&completion->cli->arena, (struct cay_str){rest, len});
        last = word ? word : "";
        const char *help = rest[len] ? "several commands" : cay_commands[i]->summary;
        cay_completion_offer(completion, last, help);
    }
}

static void offer_flags(struct cay_completion *completion, const struct cay_flag *flags)
{
    for (; flags && flags->name; flags++) {
        char *name = cay_arena_printf(&completion->cli->arena, "--%s", flags->name);
        if (name && !flags->is_hidden)
            cay_completion_offer(completion, name, flags->help);
    }
}

/* The flag whose value comes next, when `word` is one that takes its value from there. */
static const struct cay_flag *awaits_value(const struct cay_command *command, const char *word)
{
    const struct cay_flag *flag = NULL;
    if (word[0] != '-' || !word[1])
        return NULL;
    if (word[1] == '-')
        flag = cay_args_flag(command, cay_str(word + 2));
    else
        flag = cay_args_letter(command, word[strlen(word) - 1]);
    return flag && flag->value ? flag : NULL;
}

/* "port" is a command and "port rm" another. */
static void take_longer_name(struct cay_completion *completion, bool is_after_dashes)
{
    if (completion->word_count != 1 || is_after_dashes)
        return;
    const char *name = cay_arena_printf(&completion->cli->arena, "%s %s", completion->command->name,
                                        completion->words[0]);
    const struct cay_command *longer =
        name ? cay_args_command(cay_commands, cay_command_count, cay_str(name)) : NULL;
    if (!longer)
        return;
    completion->command = longer;
    completion->word_count = 0;
}

static void offer_longer_names(struct cay_completion *completion)
{
    const char *name = completion->command->name;
    size_t len = strlen(name);
    for (size_t i = 0; i < cay_command_count; i++) {
        const struct cay_command *command = cay_commands[i];
        if (strncmp(command->name, name, len) == 0 && command->name[len] == ' ')
            cay_completion_offer(completion, command->name + len + 1, command->summary);
    }
}

static void complete(struct cay_completion *completion, const char *const *typed, size_t count)
{
    const char **words = cay_arena_array(&completion->cli->arena, count, sizeof(char *));
    const struct cay_flag *awaiting = NULL;
    bool is_after_dashes = false;
    if (!words)
        return;
    completion->words = words;
    completion->prefix = typed[count - 1];
    for (size_t i = 0; i + 1 < count; i++) {
        if (awaiting) {
            awaiting = NULL;
            continue;
        }
        if (!is_after_dashes && typed[i][0] == '-' && typed[i][1]) {
            is_after_dashes = strcmp(typed[i], "--") == 0;
            awaiting = awaits_value(completion->command, typed[i]);
            continue;
        }
        words[completion->word_count++] = typed[i];
        if (completion->command) {
            take_longer_name(completion, is_after_dashes);
            continue;
        }
        cay_auto(cay_buf_finish) struct cay_buf name;
        cay_buf_init(&name, SCRIPT_BYTES_MAX);
        join_words(completion, &name);
        if (!name.failed)
            completion->command = cay_args_command(cay_commands, cay_command_count,
                                                   (struct cay_str){name.data, name.len - 2});
        if (completion->command)
            completion->word_count = 0;
    }
    if (awaiting) {
        if (strcmp(awaiting->name, "base") == 0)
            cay_session_offer_bases(completion);
        else if (strcmp(awaiting->name, "runtime") == 0)
            cay_session_offer_runtimes(completion);
        return;
    }
    if (!is_after_dashes && completion->prefix[0] == '-') {
        offer_flags(completion, completion->command ? completion->command->flags : NULL);
        offer_flags(completion, cay_global_flags);
    } else if (!completion->command) {
        cay_completion_commands(completion);
    } else {
        if (!is_after_dashes && !completion->word_count)
            offer_longer_names(completion);
        if (completion->command->complete &&
            completion->word_count < completion->command->words_max)
            completion->command->complete(completion);
    }
}

static bool run_complete(struct cay_cli *cli, struct cay_error *)
{
    struct cay_completion completion = {.cli = cli};
    complete(&completion, cli->args.words, cli->args.word_count);
    return true;
}

static bool run_completion(struct cay_cli *cli, struct cay_error *err)
{
    const char *shell = cli->args.words[0];
    const char *names[CAY_COUNT(scripts)];
    for (size_t i = 0; i < CAY_COUNT(scripts); i++) {
        names[i] = scripts[i].shell;
        if (strcmp(shell, scripts[i].shell) != 0)
            continue;
        if (!cli->out.is_json) {
            cay_output_printf(&cli->out, "%s", scripts[i].script);
            return true;
        }
        cay_auto(cay_buf_finish) struct cay_buf buf;
        cay_buf_init(&buf, SCRIPT_BYTES_MAX);
        struct cay_json_writer json = {.buf = &buf};
        cay_json_object_begin(&json);
        cay_json_key(&json, "script");
        cay_json_text(&json, scripts[i].script);
        cay_json_object_end(&json);
        cay_output_json(&cli->out, cay_buf_str(&buf));
        return true;
    }
    const char *nearest = cay_nearest(cay_str(shell), names, CAY_COUNT(names));
    return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "there is no completion for '%.40s', only for bash, zsh and fish%s%s%s", shell,
                    nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

static void offer_shells(struct cay_completion *completion)
{
    for (size_t i = 0; i < CAY_COUNT(scripts); i++)
        cay_completion_offer(completion, scripts[i].shell, scripts[i].help);
}

const struct cay_command cay_command_completion = {
    .name = "completion",
    .arguments = "bash|zsh|fish",
    .summary = "Print the completion script of a shell",
    .examples = "  source <(cay completion bash)      # now; or in ~/.bashrc\n"
                "  cay completion fish | source",
    .group = CAY_GROUP_OTHER,
    .words_min = 1,
    .words_max = 1,
    .run = run_completion,
    .complete = offer_shells,
};

const struct cay_command cay_command_complete = {
    .name = "complete",
    .arguments = "-- WORD...",
    .summary = "Say what may stand at the last of the words",
    .group = CAY_GROUP_OTHER,
    .words_min = 1,
    .words_max = UINT32_MAX,
    .is_hidden = true,
    .run = run_complete,
};
