/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a command of `cay` is, and what it gets when it runs. A new command is a file with a
 * `const struct cay_command cay_command_NAME` at its foot, one line in cay_commands.def, and its
 * section in man/cay.1.scd. Help, completion and "did you mean" come from the table.
 */

#include "base/arena.h"
#include "base/error.h"
#include "cli/args.h"
#include "cli/output.h"

struct cay_client;
struct cay_completion;

enum {
    CAY_EXIT_UNHEALTHY = 1,  /* `cay status` of a host that is not well */
    CAY_EXIT_INCOMPLETE = 1, /* `cay cp` that had to leave something out */
    CAY_EXIT_TOOL_ERROR = 1, /* `cay tool` whose tool failed at its task */
    CAY_EXIT_TIMEOUT = 124,
    CAY_EXIT_ERROR = 125, /* cay's own error, not that of a command in a sandbox */
    CAY_EXIT_KILLED = 137,
};

/* In the order help shows them. */
enum cay_group {
    CAY_GROUP_SANDBOX = 1, /* run, create, exec, ls, rm … */
    CAY_GROUP_FILES,       /* cp, tool … */
    CAY_GROUP_HISTORY,     /* turn, log, diff, rollback, fork … */
    CAY_GROUP_HOST,        /* status, key, base, pool, doctor … */
    CAY_GROUP_OTHER,       /* api, completion, help, version */
    CAY_GROUP_COUNT,
};

/* One run of the program. */
struct cay_cli {
    struct cay_args args;
    struct cay_output out;
    struct cay_arena arena; /* everything made for the run */
    struct cay_client *client;
    int64_t timeout_ms; /* 0: not given */
    bool has_timeout;
    bool has_key;
    int exit_status; /* of a run that did not fail; a command may set it */
};

struct cay_command {
    const char *name;             /* "key create": the words that call it */
    const char *arguments;        /* "ID [FILE]", "" when there are none */
    const char *summary;          /* one line, no full stop */
    const char *details;          /* more sentences, or NULL */
    const char *examples;         /* lines, or NULL */
    const struct cay_flag *flags; /* ends with a zeroed one; NULL when there are none */
    enum cay_group group;
    unsigned words_min;
    unsigned words_max;
    bool is_hidden;
    /* False with *err filled: cay says so and ends with CAY_EXIT_ERROR. */
    bool (*run)(struct cay_cli *cli, struct cay_error *err);
    /* Offers what may stand at the argument being typed; NULL when that is anything. */
    void (*complete)(struct cay_completion *completion);
};

extern const struct cay_command *const cay_commands[];
extern const size_t cay_command_count;

/* CAY_URL and the like: for help and the man page. Ends with a zeroed one. */
struct cay_variable {
    const char *name;
    const char *help;
};
extern const struct cay_variable cay_variables[];

/* Parses, runs, reports; returns the exit status. */
int cay_cli_main(int argc, const char *const *argv);

/* The connection, opened at the first use from --url, CAY_URL, CAY_API_KEY and --timeout. A unary
 * call ends after some time by itself; a stream only when --timeout says so. */
enum cay_call_kind { CAY_CALL_UNARY = 1, CAY_CALL_STREAM };
[[nodiscard]] bool cay_cli_client(struct cay_cli *cli, enum cay_call_kind kind,
                                  struct cay_client **out_client, struct cay_error *err);

/* A unary call of a method of the contract by its index in cay_v1_methods. */
[[nodiscard]] bool cay_cli_call(struct cay_cli *cli, unsigned method, const void *request,
                                void *out_response, struct cay_error *err);

/* Of several names one failed, and the rest is still done: the failure goes into *err for the end
 * of the run; the one that was in it is told now. */
void cay_cli_failed_one(struct cay_cli *cli, const struct cay_error *failure,
                        struct cay_error *err);

/* Where --url and CAY_URL point. */
const char *cay_cli_url(const struct cay_cli *cli);
