/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/run.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/stop.h"
#include "tool/search/glob.h"
#include "tool/search/pcre.h"
#include "tool/search/search.h"
#include "tool/tree/walk.h"

/*
 * Two threads: the caller's walks the tree and puts files into a queue, a second one takes them out
 * and searches; when the queue is full or the walk is over the first one helps. Files are taken in
 * the order of the walk, so when one is taken, whatever has been found so far stands before it:
 * once that is enough, the rest is only counted. Memory does not grow with the tree.
 */

enum {
    RESULTS_DEFAULT = 100,
    QUEUE_FILES = 1024,
    HELPER_FILES_MIN = 32, /* fewer are not worth a thread */
    HEADER_BYTES = 1024,
};

struct queued {
    size_t file;
    char *path; /* from the start; owned */
};

struct grep {
    struct cay_tool_run *run;
    struct cay_pattern pattern;
    struct cay_glob include, exclude;
    bool has_include, has_exclude;
    int start_fd;
    struct cay_path prefix; /* to write before the paths */
    int64_t results_max;
    unsigned context_lines;

    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct queued queue[QUEUE_FILES];
    size_t head, count, next_file;
    bool walked;   /* no more will be put in */
    int64_t found; /* matches of all files searched so far */
    bool late;
    bool failed; /* there was no memory; of the first thread alone */
};

struct part {
    struct grep *grep;
    struct cay_searcher searcher;
    const bool *stop; /* what the first thread watches */
};

static bool is_late(struct grep *grep)
{
    return __atomic_load_n(&grep->late, __ATOMIC_RELAXED);
}

static void set_late(struct grep *grep)
{
    __atomic_store_n(&grep->late, true, __ATOMIC_RELAXED);
}

/* False when there is nothing to take; with `wait` only when the walk is over, too. */
static bool take(struct grep *grep, bool wait, struct queued *out, int64_t *out_shown_max)
{
    pthread_mutex_lock(&grep->lock);
    while (wait && !grep->count && !grep->walked)
        pthread_cond_wait(&grep->filled, &grep->lock);
    bool taken = grep->count > 0;
    if (taken) {
        *out = grep->queue[grep->head];
        grep->head = (grep->head + 1) % QUEUE_FILES;
        grep->count--;
        *out_shown_max = CAY_MAX(grep->results_max - grep->found, (int64_t)0);
    }
    pthread_mutex_unlock(&grep->lock);
    return taken;
}

/* False when there is no room, or the memory is at its end: then it is late, too. */
static bool put(struct grep *grep, struct cay_str path)
{
    cay_autofree char *copy = strndup(path.ptr, path.len);
    if (!copy) {
        grep->failed = true;
        set_late(grep);
        return false;
    }
    pthread_mutex_lock(&grep->lock);
    bool room = grep->count < QUEUE_FILES;
    if (room) {
        grep->queue[(grep->head + grep->count) % QUEUE_FILES] =
            (struct queued){.file = grep->next_file++, .path = cay_take_ptr(copy)};
        if (grep->count++ == 0)
            pthread_cond_signal(&grep->filled);
    }
    pthread_mutex_unlock(&grep->lock);
    return room;
}

static void search_fd(struct part *part, int fd, int64_t size, size_t file, struct cay_str path,
                      int64_t shown_max)
{
    struct grep *grep = part->grep;
    int64_t matches = cay_searcher_file(&part->searcher, fd, size, file, path, shown_max);
    part->searcher.failed = part->searcher.failed || part->searcher.text.no_memory;
    if (part->searcher.late || part->searcher.text.failed || part->searcher.failed)
        set_late(grep);
    if (matches) {
        pthread_mutex_lock(&grep->lock);
        grep->found += matches;
        pthread_mutex_unlock(&grep->lock);
    }
}

static void search_queued(struct part *part, struct queued *queued, int64_t shown_max)
{
    struct grep *grep = part->grep;
    cay_autofree char *path = queued->path;
    if (is_late(grep))
        return;
    if (cay_clock_ms() > part->searcher.deadline_ms) {
        set_late(grep);
        return;
    }
    cay_autoclose int fd = cay_tree_below(grep->start_fd, path, O_RDONLY | O_NOFOLLOW);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        part->searcher.unreadable++;
        return;
    }
    if (!S_ISREG(st.st_mode))
        return;
    struct cay_path shown;
    size_t len = strlen(path);
    shown.len = grep->prefix.len;
    if (shown.len + len >= sizeof(shown.bytes))
        return;
    memcpy(shown.bytes, grep->prefix.bytes, shown.len);
    memcpy(shown.bytes + shown.len, path, len);
    search_fd(part, fd, st.st_size, queued->file, (struct cay_str){shown.bytes, shown.len + len},
              shown_max);
}

static void search_all(struct part *part, bool wait)
{
    struct queued queued;
    int64_t shown_max = 0;
    while (take(part->grep, wait, &queued, &shown_max))
        search_queued(part, &queued, shown_max);
}

static void *second_thread(void *data)
{
    struct part *part = data;
    (void)cay_stop_watch(part->stop);
    cay_auto(cay_tree_leave) struct cay_tree_visit visit = {};
    struct cay_error ignored;
    /* Without the user's rights nothing may be read; the first thread then does it all. */
    if (cay_tree_enter(part->grep->run->tree, &visit, &ignored))
        search_all(part, true);
    return NULL;
}

/* It takes no signal, whoever's process this is. */
static bool start_helper(pthread_t *out_thread, struct part *part)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_started = pthread_create(out_thread, NULL, second_thread, part) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_started;
}

static bool glob_matches(const struct cay_glob *glob, const struct cay_walk_entry *entry)
{
    return cay_glob_match(glob, glob->has_slash ? entry->path : entry->name);
}

static bool is_wanted(const struct grep *grep, const struct cay_walk_entry *entry)
{
    return entry->type == DT_REG && (!grep->has_include || glob_matches(&grep->include, entry));
}

static void walk_tree(struct grep *grep, struct part parts[2], struct cay_walk *walk)
{
    pthread_t thread;
    bool helped = false;
    parts[1].stop = cay_stop_watched();
    for (struct cay_walk_entry entry; !is_late(grep) && cay_walk_next(walk, &entry);) {
        if (grep->has_exclude && glob_matches(&grep->exclude, &entry)) {
            cay_walk_skip(walk);
            continue;
        }
        if (cay_stop_asked() || (entry.type == DT_DIR && cay_clock_ms() > grep->run->deadline_ms))
            set_late(grep);
        while (is_wanted(grep, &entry) && !put(grep, entry.path) && !is_late(grep)) {
            struct queued queued;
            int64_t shown_max = 0;
            if (take(grep, false, &queued, &shown_max))
                search_queued(&parts[0], &queued, shown_max);
        }
        if (!helped && grep->next_file == HELPER_FILES_MIN)
            helped = start_helper(&thread, &parts[1]);
    }
    pthread_mutex_lock(&grep->lock);
    grep->walked = true;
    pthread_cond_broadcast(&grep->filled);
    pthread_mutex_unlock(&grep->lock);
    search_all(&parts[0], false);
    if (helped)
        pthread_join(thread, NULL);
    search_all(&parts[0], false);
}

struct sums {
    int64_t matches, files, binary, unreadable, gave_up, cut_lines, shown;
};

static struct sums sum_up(const struct part parts[2], const struct cay_walk *walk)
{
    struct sums sums = {.unreadable = walk->unreadable + walk->left_out};
    for (size_t i = 0; i < 2; i++) {
        const struct cay_searcher *searcher = &parts[i].searcher;
        sums.matches += searcher->matches;
        sums.files += searcher->files;
        sums.binary += searcher->binary;
        sums.unreadable += searcher->unreadable;
        sums.gave_up += searcher->matcher.gave_up;
        sums.cut_lines += searcher->cut_lines;
    }
    return sums;
}

/* The hits of both threads in the order of the walk. */
static void merge(const struct grep *grep, const struct part parts[2], struct cay_buf *text,
                  struct sums *sums)
{
    size_t next[2] = {};
    while (sums->shown < grep->results_max) {
        size_t from = 2;
        for (size_t i = 0; i < 2; i++)
            if (next[i] < parts[i].searcher.hit_count &&
                (from == 2 ||
                 parts[i].searcher.hits[next[i]].file < parts[from].searcher.hits[next[from]].file))
                from = i;
        if (from == 2)
            return;
        const struct cay_searcher *searcher = &parts[from].searcher;
        const struct cay_search_hit *hit = &searcher->hits[next[from]++];
        if (text->len + hit->text_len > grep->run->text_bytes_max)
            return;
        cay_buf_append(text, searcher->text.data + hit->text_at, hit->text_len);
        sums->shown++;
    }
}

static void write_header(const struct grep *grep, const struct sums *sums, struct cay_buf *text)
{
    if (!sums->matches)
        cay_buf_append_text(text, "no matches");
    else
        cay_buf_printf(text, "%lld match%s", (long long)sums->matches,
                       sums->matches == 1 ? "" : "es");
    if (sums->shown < sums->matches)
        cay_buf_printf(text, " (truncated: the first %lld are shown)", (long long)sums->shown);
    if (sums->gave_up)
        cay_buf_printf(text, " (%lld lines were too much work for this pattern)",
                       (long long)sums->gave_up);
    if (sums->unreadable)
        cay_buf_printf(text, " (%lld files or directories could not be read)",
                       (long long)sums->unreadable);
    if (grep->late)
        cay_buf_append_text(text, " (time ran out; there may be more)");
    cay_buf_append_text(text, sums->shown ? "\n\n" : "\n");
}

static bool show(struct grep *grep, const struct part parts[2], const struct cay_walk *walk)
{
    struct cay_tool_run *run = grep->run;
    struct sums sums = sum_up(parts, walk);
    cay_auto(cay_buf_finish) struct cay_buf lines;
    cay_buf_init(&lines, run->text_bytes_max);
    merge(grep, parts, &lines, &sums);
    if (lines.no_memory)
        return cay_run_fail_memory(run);
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, run->text_bytes_max + HEADER_BYTES);
    write_header(grep, &sums, &text);
    cay_buf_append_str(&text, cay_buf_str(&lines));
    cay_run_fact_number(run, "match_count", sums.matches);
    cay_run_fact_number(run, "files_searched", sums.files);
    cay_run_fact_number(run, "binary_files", sums.binary);
    cay_run_fact_number(run, "unreadable", sums.unreadable);
    cay_run_fact_number(run, "lines_given_up", sums.gave_up);
    cay_run_fact_flag(run, "timed_out", grep->late);
    if (sums.shown < sums.matches || sums.cut_lines || grep->late)
        *cay_run_truncated(run) =
            (struct cay_v1_truncation){.total_items = grep->late ? 0 : sums.matches,
                                       .shown_items = sums.shown,
                                       .cut_lines = sums.cut_lines};
    return cay_run_done(run, &text);
}

static bool search_tree(struct grep *grep, int fd)
{
    struct part parts[2] = {{.grep = grep}, {.grep = grep}};
    for (size_t i = 0; i < 2; i++) {
        if (!cay_searcher_init(&parts[i].searcher, &grep->pattern, grep->context_lines,
                               grep->run->deadline_ms))
            grep->failed = true;
    }
    struct stat st;
    struct cay_walk walk = {};
    if (!grep->failed && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        struct cay_walk_options options = {.hidden = cay_run_flag(grep->run, "hidden", false)};
        grep->start_fd = fd;
        cay_walk_init(&walk, fd, &options);
        walk_tree(grep, parts, &walk);
    } else if (!grep->failed) {
        search_fd(&parts[0], fd, st.st_size, 0,
                  (struct cay_str){grep->prefix.bytes, grep->prefix.len}, grep->results_max);
    }
    bool is_short =
        grep->failed || walk.failed || parts[0].searcher.failed || parts[1].searcher.failed;
    bool done = is_short ? cay_run_fail_memory(grep->run) : show(grep, parts, &walk);
    cay_walk_finish(&walk);
    for (size_t i = 0; i < 2; i++)
        cay_searcher_finish(&parts[i].searcher);
    return done;
}

/* A file or a directory to search; -errno. */
static int open_start(const struct cay_tool_run *run, const struct cay_path *path)
{
    cay_autoclose int fd = cay_tree_open(run->tree, path->bytes, O_RDONLY);
    struct stat st;
    if (fd < 0)
        return cay_take_fd(fd);
    if (fstat(fd, &st) < 0)
        return -errno;
    return S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) ? cay_take_fd(fd) : -ENXIO;
}

/* Paths are shown as a user who named the start would write them: "src" gives "src/a.c". */
static bool set_prefix(struct grep *grep, int fd)
{
    struct stat st;
    struct cay_str path = cay_run_text(grep->run, "path", (struct cay_str){});
    if (fstat(fd, &st) < 0 || !cay_path_decode(path, &grep->prefix, grep->run->err))
        return false;
    struct cay_path *prefix = &grep->prefix;
    if (cay_str_is((struct cay_str){prefix->bytes, prefix->len}, "."))
        prefix->len = 0;
    if (prefix->len && S_ISDIR(st.st_mode) && prefix->bytes[prefix->len - 1] != '/')
        prefix->bytes[prefix->len++] = '/'; /* its NUL was there */
    return true;
}

static bool compile_globs(struct grep *grep, bool *out_over)
{
    struct {
        const char *name;
        struct cay_glob *glob;
        bool *has;
    } globs[] = {{"include", &grep->include, &grep->has_include},
                 {"exclude", &grep->exclude, &grep->has_exclude}};
    for (size_t i = 0; i < CAY_COUNT(globs); i++) {
        struct cay_str text = cay_run_text(grep->run, globs[i].name, (struct cay_str){});
        const char *problem = NULL;
        *globs[i].has = text.len > 0;
        if (text.len && !cay_glob_compile(text, grep->run->arena, globs[i].glob, &problem)) {
            *out_over = problem ? cay_run_fail(grep->run, "invalid_pattern", "%s is not valid: %s",
                                               globs[i].name, problem)
                                : cay_run_fail_memory(grep->run);
            return false;
        }
    }
    return true;
}

static bool fail_pattern(struct cay_tool_run *run, int neg_errno, const char *problem)
{
    if (neg_errno == -ENOMEM)
        return cay_run_fail_memory(run);
    if (neg_errno != -ELIBACC)
        return cay_run_fail(run, "invalid_pattern", "the pattern is not valid: %s", problem);
    cay_fail(run->err, CAY_R_NOT_SUPPORTED,
             "grep needs PCRE2, which is not on this machine; install the package %s",
             CAY_PCRE_PACKAGE);
    return cay_run_fail_error(run);
}

static bool grep_run(struct grep *grep)
{
    struct cay_tool_run *run = grep->run;
    struct cay_path path;
    bool over = false;
    if (!cay_run_path(run, "path", CAY_STR("."), &path, &over) || !compile_globs(grep, &over))
        return over;
    struct cay_pattern_options options = {.literal = cay_run_flag(run, "literal", false),
                                          .ignore_case = cay_run_flag(run, "ignore_case", false)};
    char problem[256];
    int compiled =
        cay_pattern_compile(&grep->pattern, cay_run_text(run, "pattern", (struct cay_str){}),
                            &options, problem, sizeof(problem));
    if (compiled < 0)
        return fail_pattern(run, compiled, problem);
    cay_autoclose int fd = open_start(run, &path);
    if (fd < 0)
        return cay_run_fail_errno(run, fd, &path);
    if (!set_prefix(grep, fd))
        return cay_run_fail_error(run);
    return search_tree(grep, fd);
}

bool cay_tool_grep(struct cay_tool_run *run)
{
    struct grep *grep = calloc(1, sizeof(*grep));
    if (!grep)
        return cay_run_fail_memory(run);
    grep->run = run;
    grep->results_max = cay_run_number(run, "max_results", RESULTS_DEFAULT);
    grep->context_lines = (unsigned)cay_run_number(run, "context_lines", 0);
    pthread_mutex_init(&grep->lock, NULL);
    pthread_cond_init(&grep->filled, NULL);
    bool done = grep_run(grep);
    cay_pattern_finish(&grep->pattern);
    pthread_cond_destroy(&grep->filled);
    pthread_mutex_destroy(&grep->lock);
    free(grep);
    return done;
}
