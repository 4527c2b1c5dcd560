/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/quantity.h"
#include "cli/output.h"

#define REDRAW_NS (100 * CAY_NS_PER_MS)

enum { BAR_COLUMNS = 24 };

void cay_progress_begin(struct cay_progress *progress, bool is_wanted, int64_t total_bytes)
{
    *progress = (struct cay_progress){
        .total_bytes = total_bytes,
        .started_ns = cay_clock_ns(),
        .is_shown = is_wanted && isatty(STDERR_FILENO),
    };
    progress->drawn_ns = progress->started_ns; /* what is done at once needs no bar */
}

static void draw_bar(const struct cay_progress *progress)
{
    int64_t done = CAY_MIN(progress->bytes, progress->total_bytes);
    int filled = (int)((double)done / (double)progress->total_bytes * BAR_COLUMNS);
    fputs(" [", stderr);
    for (int i = 0; i < BAR_COLUMNS; i++)
        fputc(i < filled ? '=' : ' ', stderr);
    fprintf(stderr, "] %d%%", (int)((double)done / (double)progress->total_bytes * 100));
}

static void draw(struct cay_progress *progress)
{
    int64_t now_ns = cay_clock_ns();
    char size[CAY_SIZE_BYTES];
    char rate[CAY_SIZE_BYTES];
    if (!progress->is_shown || now_ns - progress->drawn_ns < REDRAW_NS)
        return;
    progress->drawn_ns = now_ns;
    double seconds = (double)(now_ns - progress->started_ns) / (double)CAY_NS_PER_SEC;
    cay_size_format((uint64_t)progress->bytes, size);
    cay_size_format((uint64_t)((double)progress->bytes / seconds), rate);
    fprintf(stderr, "\r\033[K%s, %s/s", size, rate);
    if (progress->total_bytes)
        draw_bar(progress);
    if (progress->files)
        fprintf(stderr, ", %lld file%s", (long long)progress->files,
                progress->files == 1 ? "" : "s");
    if (*progress->name) {
        struct cay_output err = {.file = stderr, .is_terminal = true};
        fputs("  ", stderr);
        cay_output_text(&err, CAY_STYLE_DIM, cay_str(progress->name));
    }
    fflush(stderr);
}

void cay_progress_name(struct cay_progress *progress, const char *name)
{
    /* The end of a path says more than its beginning; never cut inside a character. */
    size_t len = strlen(name);
    size_t skip = len >= sizeof(progress->name) ? len - sizeof(progress->name) + 1 : 0;
    while (((unsigned char)name[skip] & 0xC0) == 0x80)
        skip++;
    snprintf(progress->name, sizeof(progress->name), "%s", name + skip);
    draw(progress);
}

void cay_progress_add(struct cay_progress *progress, size_t bytes)
{
    progress->bytes += (int64_t)bytes;
    draw(progress);
}

void cay_progress_end(struct cay_progress *progress)
{
    if (progress->is_shown && progress->drawn_ns != progress->started_ns)
        fputs("\r\033[K", stderr);
    progress->is_shown = false;
}
