/* SPDX-License-Identifier: Apache-2.0 */
#include "host/runtime/socket.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdalign.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "wire/frame/encode.h"

enum { BACKLOG = 4, NAME_BYTES = 160, FILE_BYTES = NAME_BYTES + 8 };

static const char handed_out[] = ".sock";
static const char waiting[] = ".wait";

/* A long id does not fit an address: then the socket is reached through a link with a short name.
 * It is named by what the id hashes to. */
static void short_name(const char *id, char *out_name, size_t size)
{
    if (strlen(id) <= 64) {
        snprintf(out_name, size, "%s", id);
        return;
    }
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (const char *c = id; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    snprintf(out_name, size, "%.40s~%016llx", id, (unsigned long long)hash);
}

static void file_name(const char *id, const char *suffix, char *out_file, size_t size)
{
    char name[NAME_BYTES];
    short_name(id, name, sizeof(name));
    snprintf(out_file, size, "%s%s", name, suffix);
}

static int open_socket(int dir_fd, const char *id, const char *suffix,
                       struct sockaddr_un *out_address)
{
    char file[FILE_BYTES];
    file_name(id, suffix, file, sizeof(file));
    *out_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int len = snprintf(out_address->sun_path, sizeof(out_address->sun_path), "/proc/self/fd/%d/%s",
                       dir_fd, file);
    if (len <= 0 || (size_t)len >= sizeof(out_address->sun_path))
        return -ENAMETOOLONG;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd < 0 ? -errno : fd;
}

int cay_socket_listen(int dir_fd, const char *id, bool waits)
{
    struct sockaddr_un address;
    cay_autoclose int fd = open_socket(dir_fd, id, waits ? waiting : handed_out, &address);
    if (fd < 0)
        return fd;
    if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
        if (errno != EADDRINUSE)
            return -errno;
        cay_socket_remove(dir_fd, id, waits);
        if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
            return -errno;
    }
    return listen(fd, BACKLOG) < 0 ? -errno : cay_take_fd(fd);
}

int cay_socket_connect(int dir_fd, const char *id)
{
    struct sockaddr_un address;
    cay_autoclose int fd = open_socket(dir_fd, id, handed_out, &address);
    if (fd < 0)
        return fd;
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return -errno;
    return cay_take_fd(fd);
}

void cay_socket_remove(int dir_fd, const char *id, bool also_waiting)
{
    char file[FILE_BYTES];
    file_name(id, handed_out, file, sizeof(file));
    (void)unlinkat(dir_fd, file, 0);
    file_name(id, waiting, file, sizeof(file));
    if (also_waiting)
        (void)unlinkat(dir_fd, file, 0);
}

int cay_socket_hand_out(int dir_fd, const char *id)
{
    char from[FILE_BYTES];
    char to[FILE_BYTES];
    file_name(id, waiting, from, sizeof(from));
    file_name(id, handed_out, to, sizeof(to));
    return renameat(dir_fd, from, dir_fd, to) < 0 ? -errno : 0;
}

int cay_socket_list_waiting(int dir_fd, bool (*visit)(void *context, const char *id), void *context)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        int result = -errno;
        cay_cleanup_close(&fd);
        return result;
    }
    bool goes_on = true;
    for (struct dirent *entry; goes_on && (entry = readdir(dir)) != NULL;) {
        size_t len = strlen(entry->d_name);
        size_t suffix_len = sizeof(waiting) - 1;
        if (len <= suffix_len || strcmp(entry->d_name + len - suffix_len, waiting) != 0)
            continue;
        entry->d_name[len - suffix_len] = '\0';
        goes_on = visit(context, entry->d_name);
    }
    closedir(dir);
    return 0;
}

int cay_socket_send_slot(int fd, bool is_room, uint32_t index, const struct cay_cgroup_slot *slot)
{
    const int all[CAY_FRAME_ROOM_FDS] = {
        slot->into_fd, slot->freeze_fd,        slot->procs_fd,        slot->tasks_fd,
        slot->oom_fd,  slot->more_tasks_fd[0], slot->more_tasks_fd[1]};
    int fds[CAY_FRAME_ROOM_FDS];
    size_t count = 0;
    struct cay_frame_slot frame = {.is_room = is_room, .index = index};
    for (int i = 0; i < CAY_FRAME_ROOM_FDS; i++) {
        if (all[i] < 0)
            continue;
        frame.fds |= (uint8_t)(1 << i);
        fds[count++] = all[i];
    }
    if (!count)
        return -EINVAL;
    uint8_t data[64];
    struct cay_frame_writer writer = {.data = data, .cap = sizeof(data)};
    if (!cay_frame_put_slot(&writer, &frame))
        return -E2BIG;
    alignas(struct cmsghdr) char control[CMSG_SPACE(CAY_FRAME_ROOM_FDS * sizeof(int))] = {};
    struct iovec part = {.iov_base = data, .iov_len = writer.len};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    assert(header);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(header), fds, count * sizeof(int));
    ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0)
        return -errno;
    return sent == (ssize_t)writer.len ? 0 : -EPIPE;
}
