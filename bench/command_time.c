/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs a command a number of times and says how long it takes from its start to its end, as
 * api_client does for calls: count, and the shortest, median and 99th percentile in microseconds.
 *
 *     command_time COUNT OUTPUT [-1] COMMAND...
 *
 * A "%" in a word of the command stands for the number of the run, from 0. Its standard output goes
 * to the file OUTPUT, made anew for each run. A command that fails ends everything, but
 * "-1 COMMAND..." may end with 1: it looked for something and found nothing.
 */

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORDS_MAX = 64, COUNT_MAX = 100'000 };

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return left < right ? -1 : left > right;
}

/* The word with every "%" replaced; the caller's to free. */
static char *number_word(const char *word, long number)
{
    char *out = NULL;
    size_t size = 0;
    FILE *text = open_memstream(&out, &size);
    if (!text)
        exit(1);
    for (; *word; word++) {
        if (*word == '%')
            fprintf(text, "%ld", number);
        else
            fputc(*word, text);
    }
    fclose(text);
    return out;
}

static double run(char *const *words, int word_count, long number, const char *output,
                  int status_max)
{
    char *argv[WORDS_MAX + 1] = {};
    for (int i = 0; i < word_count; i++)
        argv[i] = number_word(words[i], number);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t pid = 0;
    int status = 0;
    double start = now_us();
    int error = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    if (!error && waitpid(pid, &status, 0) < 0)
        error = errno;
    double took = now_us() - start;
    if (error || !WIFEXITED(status) || WEXITSTATUS(status) > status_max) {
        fprintf(stderr, "command_time: %s: %s\n", argv[0],
                error ? strerror(error) : "ended with a failure");
        exit(1);
    }
    posix_spawn_file_actions_destroy(&actions);
    for (int i = 0; i < word_count; i++)
        free(argv[i]);
    return took;
}

int main(int argc, char **argv)
{
    long count = argc > 3 ? strtol(argv[1], NULL, 10) : 0;
    int status_max = argc > 4 && strcmp(argv[3], "-1") == 0;
    int first = 3 + status_max;
    if (count < 1 || count > COUNT_MAX || argc - 3 > WORDS_MAX) {
        fprintf(stderr, "usage: %s COUNT OUTPUT [-1] COMMAND...\n", argv[0]);
        return 2;
    }
    double *took = calloc((size_t)count, sizeof(*took));
    if (!took)
        return 1;
    for (long i = 0; i < count; i++)
        took[i] = run(argv + first, argc - first, i, argv[2], status_max);
    qsort(took, (size_t)count, sizeof(*took), by_size);
    printf("command\t%ld\t%.2f\t%.2f\t%.2f\n", count, took[0], took[count / 2],
           took[count * 99 / 100]);
    free(took);
    return 0;
}
