/* SPDX-License-Identifier: Apache-2.0 */
#include "host/event/audit_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/map.h"

#define CURRENT "audit.log"
#define MERGED  "audit.log.new"

struct share {
    char *owner;
    uint64_t bytes; /* of all its lines; then what is still to be left out of them */
};

struct merging {
    struct cay_map shares; /* by owner */
    FILE *out;             /* NULL while lines are counted */
};

static void name_of(int number, char out[static 32])
{
    if (number)
        snprintf(out, 32, CURRENT ".%d", number);
    else
        snprintf(out, 32, CURRENT);
}

/* The first value of that name. In a value there is no quote without a backslash before it. */
static struct cay_str value_of(struct cay_str line, const char *name)
{
    const char *at = memmem(line.ptr, line.len, name, strlen(name));
    const char *begin = at ? at + strlen(name) : NULL;
    const char *end = at ? memchr(begin, '"', (size_t)(line.ptr + line.len - begin)) : NULL;
    return end ? (struct cay_str){begin, (size_t)(end - begin)} : CAY_STR("");
}

/* Whose line it is: who owns what it is about, else who did it. */
static struct share *share_of(struct merging *self, struct cay_str line)
{
    struct cay_str owner = value_of(line, "\"owner\":\"");
    if (!owner.len)
        owner = value_of(line, "\"actor\":\"");
    struct share *share = cay_map_get(&self->shares, owner);
    if (!share) {
        share = cay_new(struct share);
        share->owner = cay_strndup(owner.ptr, owner.len);
        cay_map_put(&self->shares, cay_str(share->owner), share);
    }
    return share;
}

static bool pass(struct merging *self, struct cay_str line)
{
    struct share *share = share_of(self, line);
    if (!self->out) {
        share->bytes += line.len;
        return true;
    }
    if (share->bytes) { /* its oldest go first */
        share->bytes -= CAY_MIN(share->bytes, (uint64_t)line.len);
        return true;
    }
    return fwrite(line.ptr, 1, line.len, self->out) == line.len;
}

static int pass_file(struct merging *self, int dir_fd, int number)
{
    char name[32];
    name_of(number, name);
    int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
    if (!in) {
        int status = -errno;
        if (fd >= 0)
            close(fd);
        return status == -ENOENT ? 0 : status;
    }
    cay_autofree char *text = NULL;
    size_t size = 0;
    ssize_t len = 0;
    bool is_good = true;
    while (is_good && (len = getline(&text, &size, in)) > 0) {
        /* One that a full disk cut short is not whole, and not to be told from the next one. */
        if (text[len - 1] == '\n')
            is_good = pass(self, (struct cay_str){text, (size_t)len});
    }
    is_good = is_good && !ferror(in);
    fclose(in);
    return is_good ? 0 : -EIO;
}

static uint64_t total_at(const struct merging *self, uint64_t level)
{
    uint64_t total = 0;
    size_t cursor = 0;
    for (struct share *share; (share = cay_map_next(&self->shares, &cursor));)
        total += CAY_MIN(share->bytes, level);
    return total;
}

/* The largest part that everybody can have; who needs less leaves the rest to the others. */
static void divide(struct merging *self)
{
    uint64_t low = 0;
    uint64_t high = CAY_AUDIT_FILE_BYTES_MAX;
    while (low < high) {
        uint64_t level = (low + high + 1) / 2;
        if (total_at(self, level) <= CAY_AUDIT_FILE_BYTES_MAX)
            low = level;
        else
            high = level - 1;
    }
    size_t cursor = 0;
    for (struct share *share; (share = cay_map_next(&self->shares, &cursor));)
        share->bytes -= CAY_MIN(share->bytes, low);
}

static int write_merged(struct merging *self, int dir_fd)
{
    int fd = openat(dir_fd, MERGED, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    self->out = fd < 0 ? NULL : fdopen(fd, "w");
    if (!self->out) {
        int status = -errno;
        if (fd >= 0)
            close(fd);
        return status;
    }
    int status = pass_file(self, dir_fd, CAY_AUDIT_OLD_FILES);
    if (status == 0)
        status = pass_file(self, dir_fd, CAY_AUDIT_OLD_FILES - 1);
    if (fclose(self->out) != 0 && status == 0)
        status = -EIO;
    return status;
}

/* The two oldest files become the oldest. */
static int merge(int dir_fd)
{
    char oldest[32];
    struct merging merging = {};
    cay_map_init(&merging.shares);
    int status = pass_file(&merging, dir_fd, CAY_AUDIT_OLD_FILES);
    if (status == 0)
        status = pass_file(&merging, dir_fd, CAY_AUDIT_OLD_FILES - 1);
    divide(&merging);
    if (status == 0)
        status = write_merged(&merging, dir_fd);
    name_of(CAY_AUDIT_OLD_FILES, oldest);
    if (status == 0 && renameat(dir_fd, MERGED, dir_fd, oldest) < 0)
        status = -errno;
    if (status < 0)
        (void)unlinkat(dir_fd, MERGED, 0);
    size_t cursor = 0;
    for (struct share *share; (share = cay_map_next(&merging.shares, &cursor));) {
        free(share->owner);
        free(share);
    }
    cay_map_finish(&merging.shares);
    return status;
}

/* Where there is no room to merge, the oldest file goes. */
static void rotate(int dir_fd)
{
    bool is_merged = merge(dir_fd) == 0;
    for (int i = CAY_AUDIT_OLD_FILES - (is_merged ? 2 : 1); i >= 0; i--) {
        char from[32];
        char to[32];
        name_of(i, from);
        name_of(i + 1, to);
        (void)renameat(dir_fd, from, dir_fd, to);
    }
}

int cay_audit_ring_write(int dir_fd, struct cay_str lines)
{
    struct stat st;
    if (fstatat(dir_fd, CURRENT, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        st.st_size > CAY_AUDIT_FILE_BYTES_MAX)
        rotate(dir_fd);
    cay_autoclose int fd =
        openat(dir_fd, CURRENT, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    for (size_t done = 0; done < lines.len;) {
        ssize_t count = write(fd, lines.ptr + done, lines.len - done);
        if (count < 0)
            return -errno;
        done += (size_t)count;
    }
    return 0;
}
