/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crash.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ORDER_SIZE = 128 };

void (*cay_crash_hook)(const struct cay_crash_point *point);

/* The linker's; absent when a program has no points. */
extern const struct cay_crash_point __start_cay_crash_points[] __attribute__((weak));
extern const struct cay_crash_point __stop_cay_crash_points[] __attribute__((weak));

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char armed[ORDER_SIZE];
static char order_path[4096];
static unsigned long passes; /* of the point that is ordered */

const struct cay_crash_point *cay_crash_points(size_t *out_count)
{
    *out_count = (size_t)(__stop_cay_crash_points - __start_cay_crash_points);
    return __start_cay_crash_points;
}

static void log_pass(const char *name)
{
    char path[sizeof(order_path) + sizeof(".passed")];
    char line[ORDER_SIZE];
    snprintf(path, sizeof(path), "%s.passed", order_path);
    cay_autoclose int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    int len = snprintf(line, sizeof(line), "%s\n", name);
    if (fd >= 0 && len > 0)
        (void)!write(fd, line, (size_t)len);
}

/* A new order starts to count anew. */
static void read_order(void)
{
    char order[ORDER_SIZE] = "";
    cay_autoclose int fd = open(order_path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : read(fd, order, sizeof(order) - 1);
    order[len > 0 ? len : 0] = '\0';
    order[strcspn(order, "\n")] = '\0';
    if (strcmp(order, armed) == 0)
        return;
    memcpy(armed, order, sizeof(armed));
    passes = 0;
}

static void pass(const struct cay_crash_point *point)
{
    pthread_mutex_lock(&lock);
    if (order_path[0]) {
        log_pass(point->name);
        read_order();
    }
    size_t len = strcspn(armed, ":");
    if (len == strlen(point->name) && strncmp(armed, point->name, len) == 0) {
        unsigned long wanted = armed[len] ? strtoul(armed + len + 1, NULL, 10) : 1;
        if (++passes == wanted)
            kill(getpid(), SIGKILL);
    }
    pthread_mutex_unlock(&lock);
}

void cay_crash_arm(const char *order)
{
    if (!order || !order[0])
        return;
    if (order[0] == '@')
        snprintf(order_path, sizeof(order_path), "%s", order + 1);
    else
        snprintf(armed, sizeof(armed), "%s", order);
    cay_crash_hook = pass;
}
