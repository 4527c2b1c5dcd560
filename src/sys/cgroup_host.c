/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const controller_names[CAY_CGROUP_CONTROLLERS] = {
    [CAY_CGROUP_MEMORY] = "memory",
    [CAY_CGROUP_PIDS] = "pids",
    [CAY_CGROUP_CPU] = "cpu",
    [CAY_CGROUP_FREEZER] = "freezer",
};

static bool has_word(struct cay_str list, char separator, const char *word)
{
    struct cay_str part;
    while (cay_str_split(&list, separator, &part)) {
        if (cay_str_is(cay_str_trim(part), word))
            return true;
    }
    return false;
}

static void copy_path(char *out_path, struct cay_str path)
{
    /* The first mount of a hierarchy is taken; a name that does not fit is as good as none. */
    if (out_path[0] || path.len >= CAY_CGROUP_PATH_BYTES)
        return;
    memcpy(out_path, path.ptr, path.len);
    out_path[path.len] = '\0';
}

/* "36 35 98:0 /root /mount/point rw,noatime master:1 - fstype source super,options" */
static void parse_mount(struct cay_str line, struct cay_cgroup_host *host)
{
    enum { ROOT_FIELD = 3, POINT_FIELD = 4 };
    struct cay_str fields[5];
    struct cay_str word = {};
    for (size_t i = 0; i < CAY_COUNT(fields); i++) {
        if (!cay_str_split(&line, ' ', &fields[i]))
            return;
    }
    do {
        if (!cay_str_split(&line, ' ', &word))
            return;
    } while (!cay_str_is(word, "-"));
    struct cay_str type;
    struct cay_str options;
    if (!cay_str_split(&line, ' ', &type) || !cay_str_split(&line, ' ', &word) ||
        !cay_str_split(&line, ' ', &options))
        return;
    if (cay_str_is(type, "cgroup2")) {
        copy_path(host->unified, fields[POINT_FIELD]);
    } else if (cay_str_is(type, "cgroup")) {
        for (int i = 0; i < CAY_CGROUP_CONTROLLERS; i++) {
            if (has_word(options, ',', controller_names[i]))
                copy_path(host->v1[i], fields[POINT_FIELD]);
        }
    }
}

int cay_cgroup_parse_mounts(struct cay_str mountinfo, struct cay_cgroup_host *out_host)
{
    *out_host = (struct cay_cgroup_host){};
    struct cay_str line;
    while (cay_str_split(&mountinfo, '\n', &line))
        parse_mount(line, out_host);
    bool any = out_host->unified[0] != '\0';
    for (int i = 0; i < CAY_CGROUP_CONTROLLERS; i++)
        any = any || out_host->v1[i][0];
    return any ? 0 : -ENOENT;
}

static ssize_t read_all(const char *path, char *data, size_t size)
{
    cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    size_t len = 0;
    while (len < size) {
        ssize_t got = read(fd, data + len, size - len);
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        len += (size_t)got;
    }
    return (ssize_t)len;
}

int cay_cgroup_detect(struct cay_cgroup_host *out_host)
{
    enum { TEXT_BYTES_MAX = 4 << 20 };
    cay_autofree char *text = cay_alloc(TEXT_BYTES_MAX);
    ssize_t len = read_all("/proc/self/mountinfo", text, TEXT_BYTES_MAX);
    if (len < 0)
        return (int)len;
    int result = cay_cgroup_parse_mounts((struct cay_str){text, (size_t)len}, out_host);
    if (result < 0 || !out_host->unified[0])
        return result;
    char path[CAY_CGROUP_PATH_BYTES + 32];
    snprintf(path, sizeof(path), "%s/cgroup.controllers", out_host->unified);
    len = read_all(path, text, TEXT_BYTES_MAX);
    if (len < 0)
        return (int)len;
    struct cay_str list = {text, (size_t)len};
    while (list.len && list.ptr[list.len - 1] == '\n')
        list.len--;
    for (int i = 0; i < CAY_CGROUP_CONTROLLERS; i++)
        out_host->unified_has[i] = has_word(list, ' ', controller_names[i]);
    return 0;
}
