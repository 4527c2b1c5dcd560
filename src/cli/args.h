/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The command line, taken apart by the tables. Flags may stand anywhere before `--`, as `--name
 * value`, `--name=value` or `-x value`; switches of one letter may be joined (`-it`). What is wrong
 * is said with the nearest valid name.
 *
 * Order: parse -> words, has, text, each -> finish.
 */

#include "base/error.h"

struct cay_command;

/* Of a command, or of all commands. */
struct cay_flag {
    const char *name;  /* without the dashes */
    char letter;       /* '\0': none */
    const char *value; /* what it takes, "DURATION"; NULL for a switch */
    const char *help;
    bool is_hidden;
};

struct cay_flag_value {
    const struct cay_flag *flag;
    const char *text; /* NULL for a switch */
};

struct cay_args {
    const struct cay_command *command; /* NULL when none was named */
    char *noun; /* "key" when only the first word of commands was given; owned, or NULL */
    const char **words;
    size_t word_count;
    size_t dash_at; /* how many words stand before `--`; word_count when it is not there */
    struct cay_flag_value *values;
    size_t value_count;
};

/* Flags every command has. Ends with a zeroed one. */
extern const struct cay_flag cay_global_flags[];

[[nodiscard]] bool cay_args_parse(const struct cay_command *const *commands, size_t command_count,
                                  int argc, const char *const *argv, struct cay_args *out_args,
                                  struct cay_error *err);
void cay_args_finish(struct cay_args *args);

/* Is there a word too few or too many? */
[[nodiscard]] bool cay_args_check_words(const struct cay_args *args, struct cay_error *err);

/* The flag must be in the tables. The last one given counts; NULL when there is none. */
[[nodiscard]] bool cay_args_has(const struct cay_args *args, const char *name);
[[nodiscard]] const char *cay_args_text(const struct cay_args *args, const char *name);

/* Every value of a flag that may be given again; start with *cursor 0. NULL at the end. */
[[nodiscard]] const char *cay_args_each(const struct cay_args *args, const char *name,
                                        size_t *cursor);

/* The command of that name, NULL when there is none. A name that only starts others ("key") is not
 * a command. */
const struct cay_command *cay_args_command(const struct cay_command *const *commands, size_t count,
                                           struct cay_str name);
[[nodiscard]] bool cay_args_is_noun(const struct cay_command *const *commands, size_t count,
                                    struct cay_str word);

/* False with "unknown command …; did you mean …?". */
bool cay_args_unknown_command(const struct cay_command *const *commands, size_t count,
                              const char *name, struct cay_error *err);

/* Of the command or of all; NULL when there is none. */
const struct cay_flag *cay_args_flag(const struct cay_command *command, struct cay_str name);
const struct cay_flag *cay_args_letter(const struct cay_command *command, char letter);
