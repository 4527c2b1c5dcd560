/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "host/runtime/gvisor/gvisor_internal.h"
#include "sys/remove.h"
#include "sys/userns.h"

enum {
    NAME_BYTES = CAY_SANDBOX_ID_BYTES_MAX + 16,
    CONFIG_BYTES_MAX = 16384,
    PAGE_BYTES = 4096,
    PIPE_BYTES = 1 << 20,
};

void gvisor_place_name(const char *id, char *out_name, size_t size)
{
    snprintf(out_name, size, "%s.gvisor", id);
}

void gvisor_runsc_id(const char *id, char out_id[static GVISOR_ID_BYTES])
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (const char *c = id; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    snprintf(out_id, GVISOR_ID_BYTES, "cay-%016llx", (unsigned long long)hash);
}

/* What runsc is to make of the directory (config.md of the OCI runtime specification). Init has
 * more capabilities than commands get: it mounts, and becomes whoever they are to be. */
static void write_config(struct cay_buf *out, const struct cay_sandbox_spec *spec)
{
    static const char caps[] =
        "\"CAP_CHOWN\",\"CAP_DAC_OVERRIDE\",\"CAP_DAC_READ_SEARCH\",\"CAP_FOWNER\",\"CAP_FSETID\","
        "\"CAP_KILL\",\"CAP_SETGID\",\"CAP_SETUID\",\"CAP_SETPCAP\",\"CAP_NET_BIND_SERVICE\","
        "\"CAP_SYS_CHROOT\",\"CAP_SETFCAP\",\"CAP_AUDIT_WRITE\",\"CAP_SYS_ADMIN\","
        "\"CAP_SYS_PTRACE\",\"CAP_SYS_RESOURCE\"";
    cay_buf_printf(out,
                   "{\"ociVersion\":\"1.0.0\",\"process\":{\"user\":{\"uid\":%u,\"gid\":%u},"
                   "\"args\":[\"/init\",\"pipes\"],\"cwd\":\"/\",\"capabilities\":"
                   "{\"bounding\":[%s],\"effective\":[%s],\"permitted\":[%s]}",
                   (unsigned)CAY_USERNS_INNER_COUNT, (unsigned)CAY_USERNS_INNER_COUNT, caps, caps,
                   caps);
    cay_buf_printf(out, "},\"root\":{\"path\":\"rootfs\",\"readonly\":true},\"hostname\":");
    struct cay_json_writer json = {.buf = out};
    cay_json_text(&json, spec->hostname);
    cay_buf_printf(out,
                   ",\"mounts\":[{\"destination\":\"/proc\",\"type\":\"proc\",\"source\":\"proc\"},"
                   "{\"destination\":\"/s\",\"type\":\"bind\",\"source\":\"" GVISOR_PLACE
                   "/s\",\"options\":[\"rbind\"]}],\"linux\":{\"namespaces\":[{\"type\":\"pid\"},"
                   "{\"type\":\"mount\"},{\"type\":\"ipc\"},{\"type\":\"uts\"}]}}\n");
}

int gvisor_place_write(int dir_fd, const char *name, const char *text, size_t len)
{
    cay_autoclose int fd =
        openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    return write(fd, text, len) == (ssize_t)len ? 0 : -EIO;
}

int gvisor_place_read(int dir_fd, const char *name, char *out, size_t size)
{
    cay_autoclose int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t len = read(fd, out, size - 1);
    if (len < 0)
        return -errno;
    out[len] = '\0';
    return 0;
}

static int copy_init(int dir_fd, int image_fd)
{
    struct stat info;
    cay_autoclose int fd =
        openat(dir_fd, "rootfs/init", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0755);
    if (fd < 0 || fstat(image_fd, &info) < 0)
        return -errno;
    off_t at = 0;
    while (at < info.st_size) {
        if (sendfile(fd, image_fd, &at, (size_t)(info.st_size - at)) <= 0)
            return -EIO;
    }
    return fchmod(fd, 0555) < 0 ? -errno : 0;
}

static int fill(const struct cay_resident_runtime *runtime, int dir_fd,
                const struct cay_sandbox_spec *spec)
{
    /* Those it looks things up in are open to the ids of the sandbox; what is in them is not. */
    static const char *const dirs[] = {"rootfs",     "rootfs/proc", "rootfs/dev", "rootfs/sys",
                                       "rootfs/tmp", "rootfs/cg",   "rootfs/k",   "rootfs/s",
                                       "rootfs/t",   "s",           "s/tree"};
    cay_auto(cay_buf_finish) struct cay_buf config;
    cay_buf_init(&config, CONFIG_BYTES_MAX);
    for (size_t i = 0; i < CAY_COUNT(dirs); i++) {
        if (mkdirat(dir_fd, dirs[i], 0755) < 0 || fchmodat(dir_fd, dirs[i], 0755, 0) < 0)
            return -errno;
    }
    if (mkdirat(dir_fd, "state", 0700) < 0 ||
        fchownat(dir_fd, "state", spec->uid_base, spec->uid_base, 0) < 0 ||
        mkfifoat(dir_fd, "in", 0600) < 0 || mkfifoat(dir_fd, "out", 0600) < 0)
        return -errno;
    cay_autoclose int page =
        openat(dir_fd, "page", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (page < 0 || ftruncate(page, PAGE_BYTES) < 0)
        return -errno;
    write_config(&config, spec);
    if (config.failed)
        return -E2BIG;
    int result = gvisor_place_write(dir_fd, "config.json", config.data, config.len);
    if (result == 0 && fchmodat(dir_fd, "config.json", 0644, 0) < 0)
        result = -errno;
    return result < 0 ? result : copy_init(dir_fd, runtime->image_fd);
}

int gvisor_place_open(const struct cay_resident_runtime *runtime, const char *id)
{
    char name[NAME_BYTES];
    gvisor_place_name(id, name, sizeof(name));
    int fd = openat(runtime->run_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int gvisor_place_make(const struct cay_resident_runtime *runtime,
                      const struct cay_sandbox_spec *spec)
{
    char name[NAME_BYTES];
    gvisor_place_name(spec->id, name, sizeof(name));
    gvisor_place_remove(runtime, spec->id); /* of one that died half way */
    if (mkdirat(runtime->run_fd, name, 0711) < 0 || fchmodat(runtime->run_fd, name, 0711, 0) < 0)
        return -errno;
    cay_autoclose int fd = gvisor_place_open(runtime, spec->id);
    if (fd < 0)
        return fd;
    int result = fill(runtime, fd, spec);
    return result < 0 ? result : cay_take_fd(fd);
}

void gvisor_place_remove(const struct cay_resident_runtime *runtime, const char *id)
{
    char name[NAME_BYTES];
    gvisor_place_name(id, name, sizeof(name));
    (void)cay_remove_tree(runtime->run_fd, name, NULL);
}

struct cay_pipe_page *gvisor_place_map(int dir_fd)
{
    cay_autoclose int fd = openat(dir_fd, "page", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    void *page =
        fd < 0 ? MAP_FAILED : mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return page == MAP_FAILED ? NULL : page;
}

/* The pipe to init is open for both, so that nobody is killed for writing to one who is gone; the
 * one from it is not, so that its end shows. */
int gvisor_place_open_pipes(int dir_fd, int *out_from_fd, int *out_to_fd)
{
    const int flags = O_NONBLOCK | O_CLOEXEC;
    cay_autoclose int from = openat(dir_fd, "out", O_RDONLY | O_NOFOLLOW | flags);
    if (from < 0)
        return -errno;
    cay_autoclose int to = openat(dir_fd, "in", O_RDWR | O_NOFOLLOW | flags);
    if (to < 0)
        return -errno;
    /* Larger ones are a matter of speed. */
    (void)fcntl(from, F_SETPIPE_SZ, PIPE_BYTES);
    (void)fcntl(to, F_SETPIPE_SZ, PIPE_BYTES);
    *out_from_fd = cay_take_fd(from);
    *out_to_fd = cay_take_fd(to);
    return 0;
}
