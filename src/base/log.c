/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log_line.h"

static const struct {
    const char *name;
    const char *journal; /* sd-daemon(3): the priorities of syslog */
} levels[] = {
    [CAY_DEBUG] = {"debug", "<7>"},
    [CAY_INFO] = {"info", "<6>"},
    [CAY_WARN] = {"warn", "<4>"},
    [CAY_ERROR] = {"error", "<3>"},
};

static atomic_int level_now = CAY_INFO;
static atomic_int style_now = CAY_LOG_STYLE_PLAIN;
static atomic_bool to_journal;

/* Lines longer than PIPE_BUF could be torn by another thread's; also guards the sink. */
static pthread_mutex_t output_lock = PTHREAD_MUTEX_INITIALIZER;
static void (*output_sink)(void *data, struct cay_str line);
static void *output_sink_data;

/* systemd sets "device:inode" of the socket it gave us as standard error. Something in between may
 * have pointed standard error elsewhere since. */
static bool stderr_is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    struct cay_str rest = cay_str(stream);
    struct cay_str device;
    uint64_t dev = 0;
    uint64_t inode = 0;
    struct stat status;
    return stream && cay_str_split(&rest, ':', &device) &&
           cay_str_to_u64(device, UINT64_MAX, &dev) == 0 &&
           cay_str_to_u64(rest, UINT64_MAX, &inode) == 0 && fstat(STDERR_FILENO, &status) == 0 &&
           status.st_dev == dev && status.st_ino == inode;
}

static bool wants_colour(void)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
}

void cay_log_setup(const struct cay_log_options *options)
{
    enum cay_log_style style = CAY_LOG_STYLE_PLAIN;
    if (options->format == CAY_LOG_JSON)
        style = CAY_LOG_STYLE_JSON;
    else if (wants_colour())
        style = CAY_LOG_STYLE_COLOUR;
    atomic_store(&style_now, (int)style);
    atomic_store(&to_journal, stderr_is_journal());
    cay_log_set_level(options->level_min ? options->level_min : CAY_INFO);
}

void cay_log_set_level(enum cay_log_level level_min)
{
    assert(level_min >= CAY_DEBUG && level_min <= CAY_ERROR);
    atomic_store(&level_now, (int)level_min);
}

const char *cay_log_level_name(enum cay_log_level level)
{
    return (size_t)level < CAY_COUNT(levels) ? levels[level].name : NULL;
}

void cay_log_set_sink(void (*sink)(void *data, struct cay_str line), void *data)
{
    pthread_mutex_lock(&output_lock);
    output_sink = sink;
    output_sink_data = data;
    pthread_mutex_unlock(&output_lock);
}

bool cay_log_wants(enum cay_log_level level)
{
    return (int)level >= atomic_load_explicit(&level_now, memory_order_relaxed);
}

/* A log that cannot be written is given up: there is nowhere to say so. The loop only goes on after
 * a signal or a pipe that took half of the line. */
static void write_all(struct cay_str line)
{
    while (line.len) {
        ssize_t done = write(STDERR_FILENO, line.ptr, line.len);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return;
        line.ptr += done;
        line.len -= (size_t)done;
    }
}

void cay_log_write(enum cay_log_level level, const char *event, const struct cay_log_field *fields)
{
    assert(level >= CAY_DEBUG && level <= CAY_ERROR);
    int saved = errno;
    bool journal = atomic_load(&to_journal);
    enum cay_log_style style = (enum cay_log_style)atomic_load(&style_now);
    char time[CAY_TIME_BYTES];
    cay_time_format(cay_clock_wall_ns(), 3, time);

    struct cay_log_line line;
    /* The journal keeps the time itself. */
    cay_log_line_begin(&line, style, journal ? levels[level].journal : "",
                       journal && style != CAY_LOG_STYLE_JSON ? NULL : time, level, event);
    for (; fields->type != CAY_LOG_END; fields++)
        cay_log_line_field(&line, fields);
    cay_log_line_end(&line);

    struct cay_str text = {line.data, line.len};
    pthread_mutex_lock(&output_lock);
    if (output_sink)
        output_sink(output_sink_data, text);
    else
        write_all(text);
    pthread_mutex_unlock(&output_lock);
    errno = saved;
}
