/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Builds that go on without anybody waiting (StartBuild), with their logs: while they run, and for
 * an hour after. In memory only: their end is the daemon's. All of it on the loop thread.
 *
 * Every build that runs, waited for or not, is counted: the daemon ends when none is left.
 */

#include "api/cay_v1.h"
#include "api/errand.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/id.h"
#include "base/list.h"
#include "io/loop.h"

struct cay_host;

enum {
    CAY_BUILDS_OF_OWNER = 32,
    CAY_BUILDS_IN_ALL = 128,
    CAY_BUILD_LOG_LINES_MAX = 10'000,
    CAY_BUILD_LOG_BYTES_MAX = 1 << 20,
    CAY_BUILD_LEVELS = 4,
};

/* Of the log: where its text ends, who said it when. */
struct cay_build_line {
    int64_t time_ns;
    uint32_t text_end;
    int32_t step;
    uint8_t level;
};

extern const char *const cay_build_levels[CAY_BUILD_LEVELS];

struct cay_build {
    struct cay_list_node in_table;
    struct cay_host *host;
    char id[CAY_ID_SIZE];
    char owner[CAY_ID_SIZE];
    struct cay_buf name_text; /* of the base */
    enum cay_v1_build_state state;
    int64_t started_ns;
    int64_t ended_ns;
    uint64_t ended_ms; /* of the loop's clock */
    int32_t step;      /* being done, or done last */
    int32_t steps;
    double fraction;
    struct cay_error err;
    struct cay_errand *errand; /* while it runs for somebody; NULL otherwise */
    struct cay_whois by_key;   /* it ends when one of these keys does */
    struct cay_whois by_voucher;
    struct cay_error lapse;
    struct cay_buf text; /* of the log */
    struct cay_build_line *lines;
    size_t line_count;
    uint64_t lost_lines;
};

struct cay_builds {
    struct cay_list list; /* struct cay_build, the oldest first */
    size_t running;       /* of all kinds */
    void (*on_quiet)(void *context);
    void *context;
};

[[nodiscard]] struct cay_builds *cay_builds_create(void);
void cay_builds_destroy(struct cay_builds *builds);

/* The keys of whoever wants it built are followed: when one opens nothing any more, the build's
 * errand is cancelled. */
[[nodiscard]] bool cay_build_follow(struct cay_build *build, const struct cay_caller *caller,
                                    struct cay_error *err);

/* One that runs, and the end of knowing of one. */
struct cay_build *cay_builds_add(struct cay_host *host, const char *owner, struct cay_str name);
void cay_build_forget(struct cay_build *build);
/* Of its log; what is too much is only counted. */
void cay_build_add_line(struct cay_build *build, const struct cay_v1_build_log *log);

/* What the host makes by itself, shown as a build of that id and name to administrators. While it
 * runs: how far it is, and a line for its log (or NULL). Then its end: err NULL when it went well.
 */
[[nodiscard]] struct cay_build *cay_builds_begin(struct cay_host *host, const char *id);
void cay_build_tell(struct cay_build *build, double fraction, const char *line);
void cay_build_ended(struct cay_build *build, const struct cay_error *err);

/* Around every build, of whatever kind. */
void cay_builds_enter(struct cay_host *host);
void cay_builds_leave(struct cay_host *host);

/* `on_quiet` is called when none runs any more, maybe inside. */
void cay_builds_drain(struct cay_host *host, void (*on_quiet)(void *context), void *context);
