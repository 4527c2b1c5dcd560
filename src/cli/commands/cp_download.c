/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/cay_v1.h"
#include "api/limits.h"
#include "cli/commands/cp.h"
#include "cli/names.h"
#include "client/rpc/client.h"

/*
 * Names and links come from a sandbox and are hostile: each is one name, made below a descriptor of
 * its directory, and no link is followed on the way. Else a sandbox that swaps a directory for a
 * link while it is copied could have us write anywhere.
 */

enum { LIST_PAGE = 1000, HOLE_BYTES = 4096 };

struct download {
    struct cay_cp *cp;
    int dir_fd;
    const char *name; /* NULL: into `fd` */
    int flags;        /* O_NOFOLLOW below a directory */
    int fd;           /* opened with the first frame: a refused read changes nothing here */
    mode_t mode;
    bool keeps_holes; /* a file of our own: zeros need not be written */
    off_t at;         /* how much of it there is */
};

/* The user's own word for where it goes, or a name that came from the session in a directory. */
struct target {
    int dir_fd;
    const char *name;
    int flags;
};

static void target_finish(struct target *target)
{
    if (target->dir_fd >= 0)
        close(target->dir_fd);
}

static bool fail_link(struct cay_error *err, int neg_errno, const char *what, const char *name)
{
    if (neg_errno == -ELOOP || neg_errno == -ENOTDIR)
        return cay_fail(err, CAY_R_FILE_EXISTS,
                        "'%.100s' is a symbolic link or no directory here; remove it first", name);
    return cay_fail_errno(err, CAY_R_ACCESS_DENIED, neg_errno, "cannot %s '%.100s'", what, name);
}

static bool open_target(struct download *self, const struct cay_v1_file_info *info,
                        struct cay_error *err)
{
    self->mode = info->mode & 0777;
    if (!self->name)
        return true;
    self->fd = openat(self->dir_fd, self->name,
                      O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | self->flags, 0600);
    struct stat there;
    if (self->fd < 0)
        return fail_link(err, -errno, "write", self->name);
    self->keeps_holes = fstat(self->fd, &there) == 0 && S_ISREG(there.st_mode);
    return true;
}

static bool is_zero(struct cay_str data)
{
    return data.ptr[0] == 0 && memcmp(data.ptr, data.ptr + 1, data.len - 1) == 0;
}

static bool take_data(struct download *self, struct cay_str data, struct cay_error *err)
{
    cay_progress_add(&self->cp->progress, data.len);
    while (data.len) {
        struct cay_str piece = {data.ptr, CAY_MIN(data.len, (size_t)HOLE_BYTES)};
        bool is_hole = self->keeps_holes && is_zero(piece);
        ssize_t len = is_hole             ? (ssize_t)piece.len
                      : self->keeps_holes ? pwrite(self->fd, piece.ptr, piece.len, self->at)
                                          : write(self->fd, data.ptr, data.len);
        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0)
            return cay_fail_errno(err, errno == ENOSPC ? CAY_R_NO_SPACE : CAY_R_CANCELED, -errno,
                                  "cannot write '%.100s'",
                                  self->name ? self->name : "standard output");
        self->at += len;
        data.ptr += len;
        data.len -= (size_t)len;
    }
    return true;
}

static bool on_frame(void *state, const void *message, struct cay_error *err)
{
    struct download *self = state;
    const struct cay_v1_read_file_response *response = message;
    if (response->which_frame == CAY_V1_READ_FILE_RESPONSE_FRAME_INFO && self->fd < 0)
        return open_target(self, response->frame.info, err);
    if (response->which_frame == CAY_V1_READ_FILE_RESPONSE_FRAME_DATA && self->fd >= 0)
        return take_data(self, response->frame.data, err);
    return true;
}

static bool download_file(struct cay_cp *cp, const char *remote, struct download *self,
                          struct cay_error *err)
{
    const struct cay_v1_read_file_request request = {.session_id = cp->session_id,
                                                     .path = cay_str(remote),
                                                     .user = cp->user,
                                                     .snapshot = cp->snapshot};
    self->cp = cp;
    cay_progress_name(&cp->progress, remote);
    bool done = cay_client_call_stream(cp->client, &cay_v1_methods[CAY_V1_FILE_SERVICE_READ_FILE],
                                       &request, on_frame, self, err);
    if (self->name && self->fd >= 0) {
        if (done && self->keeps_holes && ftruncate(self->fd, self->at) < 0)
            done = cay_fail_errno(err, CAY_R_NO_SPACE, -errno, "cannot write '%.100s'", self->name);
        /* Not on a device that somebody named as the target. */
        if (done && self->keeps_holes && fchmod(self->fd, self->mode) < 0)
            done = cay_fail_errno(err, CAY_R_ACCESS_DENIED, -errno,
                                  "cannot set the mode of '%.100s'", self->name);
        if (close(cay_take_fd(self->fd)) < 0 && done)
            done = cay_fail_errno(err, CAY_R_NO_SPACE, -errno, "cannot write '%.100s'", self->name);
    }
    cp->progress.files += done;
    return done;
}

/* One name of a file, as bytes. */
static bool read_name(struct cay_str text, char out[NAME_MAX + 1], struct cay_error *err)
{
    cay_auto(cay_buf_finish) struct cay_buf bytes;
    cay_buf_init(&bytes, NAME_MAX);
    cay_names_decode(&bytes, text);
    struct cay_str name = cay_buf_str(&bytes);
    if (bytes.failed || !name.len || memchr(name.ptr, '/', name.len) ||
        memchr(name.ptr, '\0', name.len) || cay_str_is(name, ".") || cay_str_is(name, ".."))
        return cay_fail(err, CAY_R_INTERNAL, "the daemon sent '%.*s' as the name of a file",
                        (int)CAY_MIN(text.len, (size_t)60), text.len ? text.ptr : "");
    memcpy(out, name.ptr, name.len);
    out[name.len] = '\0';
    return true;
}

static bool make_link(struct cay_cp *cp, int dir_fd, const char *name,
                      const struct cay_v1_file_info *info, struct cay_error *err)
{
    cay_auto(cay_buf_finish) struct cay_buf target;
    struct stat there;
    cay_buf_init(&target, PATH_MAX);
    cay_names_decode(&target, info->symlink_target);
    cay_buf_append_byte(&target, '\0');
    if (target.failed || target.len < 2)
        return cay_fail(err, CAY_R_FAILED_PRECONDITION, "the link leads nowhere");
    int status = symlinkat(target.data, dir_fd, name);
    if (status < 0 && errno == EEXIST && fstatat(dir_fd, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISLNK(there.st_mode) && unlinkat(dir_fd, name, 0) == 0)
        status = symlinkat(target.data, dir_fd, name);
    if (status < 0)
        return cay_fail_errno(err, CAY_R_ACCESS_DENIED, -errno, "cannot make the link '%.100s'",
                              name);
    cp->links++;
    return true;
}

static bool download_dir(struct cay_cp *cp, const char *remote, int dir_fd, int depth,
                         struct cay_error *err);

/* Makes the directory and goes into it; its mode is set when all is in it. */
static bool enter_dir(struct cay_cp *cp, const char *remote, int parent_fd, const char *name,
                      int flags, mode_t mode, int depth, struct cay_error *err)
{
    bool is_new = mkdirat(parent_fd, name, 0700) == 0;
    if (!is_new && errno != EEXIST)
        return cay_fail_errno(err, CAY_R_ACCESS_DENIED, -errno, "cannot make '%.100s'", name);
    cay_autoclose int dir_fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
    if (dir_fd < 0)
        return fail_link(err, -errno, "open", name);
    cp->directories++;
    if (!download_dir(cp, remote, dir_fd, depth, err))
        return false;
    return !is_new || fchmod(dir_fd, mode & 0777) == 0 ||
           cay_fail_errno(err, CAY_R_ACCESS_DENIED, -errno, "cannot set the mode of '%.100s'",
                          name);
}

static bool download_entry(struct cay_cp *cp, const char *remote, int dir_fd,
                           const struct cay_v1_file_info *info, int depth, struct cay_error *err)
{
    char name[NAME_MAX + 1];
    if (!read_name(info->name, name, err))
        return false;
    struct download file = {.dir_fd = dir_fd, .name = name, .flags = O_NOFOLLOW, .fd = -1};
    switch (info->type) {
    case CAY_V1_FILE_TYPE_FILE: return download_file(cp, remote, &file, err);
    case CAY_V1_FILE_TYPE_DIRECTORY:
        return enter_dir(cp, remote, dir_fd, name, O_NOFOLLOW, info->mode, depth + 1, err);
    case CAY_V1_FILE_TYPE_SYMLINK: return make_link(cp, dir_fd, name, info, err);
    case CAY_V1_FILE_TYPE_FIFO:
    case CAY_V1_FILE_TYPE_SOCKET:
    case CAY_V1_FILE_TYPE_CHAR_DEVICE:
    case CAY_V1_FILE_TYPE_BLOCK_DEVICE:
    case CAY_V1_FILE_TYPE_UNSPECIFIED: break;
    }
    cp->skipped++;
    cay_cp_warn(cp, remote, "it is neither a file, a directory nor a link");
    return true;
}

static bool download_page(struct cay_cp *cp, const char *remote, int dir_fd, int depth,
                          const struct cay_v1_file_info_array *entries, struct cay_error *err)
{
    for (size_t i = 0; i < entries->count; i++) {
        const struct cay_v1_file_info *info = &entries->items[i];
        cay_auto(cay_arena_finish) struct cay_arena arena;
        cay_arena_init(&arena, CAY_LIMIT_MESSAGE_BYTES);
        size_t len = strlen(remote);
        const char *path =
            cay_arena_printf(&arena, "%s%s%.*s", remote, len && remote[len - 1] == '/' ? "" : "/",
                             (int)info->name.len, info->name.len ? info->name.ptr : "");
        if (!path)
            return cay_fail(err, CAY_R_INVALID_PATH, "a path is too long");
        if (!download_entry(cp, path, dir_fd, info, depth, err) && !cay_cp_forgive(cp, path, err))
            return cay_wrap(err, "%.100s", path);
    }
    return true;
}

static bool download_dir(struct cay_cp *cp, const char *remote, int dir_fd, int depth,
                         struct cay_error *err)
{
    struct cay_v1_list_dir_request request = {
        .session_id = cp->session_id,
        .path = cay_str(remote),
        .user = cp->user,
        .snapshot = cp->snapshot,
        .page_size = LIST_PAGE,
    };
    if (depth > CAY_CP_DEPTH_MAX)
        return cay_fail(err, CAY_R_FAILED_PRECONDITION, "directories are nested more than %d deep",
                        CAY_CP_DEPTH_MAX);
    cay_autofree char *token = NULL;
    do {
        struct cay_v1_list_dir_response page = {};
        cay_auto(cay_arena_finish) struct cay_arena arena;
        cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
        request.page_token = cay_str(token);
        if (!cay_client_call(cp->client, &cay_v1_methods[CAY_V1_FILE_SERVICE_LIST_DIR], &request,
                             &arena, &page, err) ||
            !download_page(cp, remote, dir_fd, depth, &page.entries, err))
            return false;
        if (page.next_page_token.len && !page.entries.count)
            return cay_fail(err, CAY_R_INTERNAL, "the daemon's list of files does not end");
        cay_cleanup_free(&token);
        token = page.next_page_token.len
                    ? cay_strndup(page.next_page_token.ptr, page.next_page_token.len)
                    : NULL;
    } while (token);
    return true;
}

/* As cp(1): into a directory that exists, under its own name. A link that stands there under that
 * name may come from the session, by an earlier copy: it is not followed. */
static bool choose_target(struct cay_cp *cp, const char *remote, const char *local,
                          struct target *target, struct cay_error *err)
{
    struct cay_str name = cay_cp_last_name(remote);
    size_t len = strlen(local);
    *target = (struct target){.dir_fd = AT_FDCWD, .name = local};
    cay_autoclose int fd = open(local, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && len && local[len - 1] == '/')
        return cay_fail_errno(err, CAY_R_FILE_NOT_FOUND, -errno, "cannot open '%.100s'", local);
    if (fd < 0 || !name.len || cay_str_is(name, ".") || cay_str_is(name, ".."))
        return true;
    target->name = cay_arena_copy(&cp->cli->arena, name);
    if (!target->name)
        return cay_fail(err, CAY_R_INVALID_PATH, "the path is too long");
    target->dir_fd = cay_take_fd(fd);
    target->flags = O_NOFOLLOW;
    return true;
}

bool cay_cp_download(struct cay_cp *cp, const char *remote, const char *local,
                     struct cay_error *err)
{
    const char *path = cay_cp_encode(&cp->cli->arena, remote);
    const struct cay_v1_file_info *info = NULL;
    if (!path)
        return cay_fail(err, CAY_R_INVALID_PATH, "the path is too long");
    if (!cay_cp_stat(cp, cay_str(path), &info, err))
        return false;
    if (!info)
        return cay_fail(err, CAY_R_FILE_NOT_FOUND, "there is no '%.120s' in the session", remote);
    bool is_dir = info->type == CAY_V1_FILE_TYPE_DIRECTORY;
    if (strcmp(local, "-") == 0) {
        struct download out = {.dir_fd = AT_FDCWD, .fd = STDOUT_FILENO};
        if (is_dir)
            return cay_fail(err, CAY_R_IS_A_DIRECTORY,
                            "'%.100s' is a directory; only a file fits through '-'", remote);
        return download_file(cp, path, &out, err);
    }
    cay_auto(target_finish) struct target target = {.dir_fd = -1};
    if (!choose_target(cp, remote, local, &target, err))
        return false;
    if (is_dir)
        return enter_dir(cp, path, target.dir_fd, target.name, target.flags, (mode_t)info->mode, 0,
                         err);
    struct download file = {
        .dir_fd = target.dir_fd, .name = target.name, .flags = target.flags, .fd = -1};
    cp->progress.total_bytes = info->size;
    return download_file(cp, path, &file, err);
}
