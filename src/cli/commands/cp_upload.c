/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/cay_v1.h"
#include "api/limits.h"
#include "cli/commands/cp.h"
#include "client/rpc/client.h"

struct upload {
    struct cay_cp *cp;
    struct cay_v1_write_file_open open;
    int fd;
    bool is_begun;
};

static bool give(void *state, struct cay_arena *arena, const void **out_message,
                 struct cay_error *err)
{
    struct upload *self = state;
    struct cay_v1_write_file_request *request =
        cay_arena_new(arena, struct cay_v1_write_file_request);
    char *piece = self->is_begun ? cay_arena_alloc(arena, CAY_CP_PIECE_BYTES) : NULL;
    if (!request || (self->is_begun && !piece))
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    *out_message = request;
    if (!self->is_begun) {
        self->is_begun = true;
        request->which_frame = CAY_V1_WRITE_FILE_REQUEST_FRAME_OPEN;
        request->frame.open = &self->open;
        return true;
    }
    ssize_t len = 0;
    do {
        len = read(self->fd, piece, CAY_CP_PIECE_BYTES);
    } while (len < 0 && errno == EINTR);
    if (len < 0)
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "cannot read");
    if (len == 0)
        *out_message = NULL;
    cay_progress_add(&self->cp->progress, (size_t)len);
    request->which_frame = CAY_V1_WRITE_FILE_REQUEST_FRAME_DATA;
    request->frame.data = (struct cay_str){piece, (size_t)len};
    return true;
}

/* `info` is NULL for what is no file: then nothing is known of its mode. */
static bool upload_file(struct cay_cp *cp, int fd, const struct stat *info, const char *path,
                        struct cay_error *err)
{
    struct upload self = {
        .cp = cp,
        .fd = fd,
        .open =
            {
                .session_id = cp->session_id,
                .path = cay_str(path),
                .user = cp->user,
                .create_parents = true,
            },
    };
    struct cay_v1_write_file_response response = {};
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    if (info && S_ISREG(info->st_mode)) {
        self.open.has_mode = true;
        self.open.mode = info->st_mode & 0777;
    }
    cay_progress_name(&cp->progress, path);
    if (!cay_client_call_upload(cp->client, &cay_v1_methods[CAY_V1_FILE_SERVICE_WRITE_FILE], give,
                                &self, &arena, &response, err))
        return false;
    cp->progress.files++;
    return true;
}

static bool make_dir(struct cay_cp *cp, const struct stat *info, const char *path,
                     struct cay_error *err)
{
    struct cay_v1_make_dir_response response = {};
    struct cay_v1_make_dir_request request = {
        .session_id = cp->session_id,
        .path = cay_str(path),
        .user = cp->user,
        .has_mode = true,
        /* What is to be put into it comes later. */
        .mode = (info->st_mode & 0777) | 0700,
        .create_parents = true,
        .exist_ok = true,
    };
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    if (!cay_client_call(cp->client, &cay_v1_methods[CAY_V1_FILE_SERVICE_MAKE_DIR], &request,
                         &arena, &response, err))
        return false;
    cp->directories++;
    return true;
}

/* As it is, wherever it leads. */
static bool upload_link(struct cay_cp *cp, int dir_fd, const char *name, const char *path,
                        struct cay_error *err)
{
    char target[PATH_MAX];
    ssize_t len = readlinkat(dir_fd, name, target, sizeof(target) - 1);
    if (len < 0)
        return cay_fail_errno(err, CAY_R_ACCESS_DENIED, -errno, "cannot read the link");
    target[len] = '\0';
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    const char *text = cay_cp_encode(&arena, target);
    struct cay_v1_make_symlink_response response = {};
    struct cay_v1_make_symlink_request request = {
        .session_id = cp->session_id,
        .path = cay_str(path),
        .target = cay_str(text ? text : ""),
        .user = cp->user,
        .create_parents = true,
        .replace = true,
    };
    if (!cay_client_call(cp->client, &cay_v1_methods[CAY_V1_FILE_SERVICE_MAKE_SYMLINK], &request,
                         &arena, &response, err))
        return false;
    cp->progress.files++;
    return true;
}

static bool upload_dir(struct cay_cp *cp, int dir_fd, const struct stat *info, const char *path,
                       int depth, struct cay_error *err);

static bool upload_entry(struct cay_cp *cp, int dir_fd, const char *name, const char *path,
                         int depth, struct cay_error *err)
{
    struct stat info;
    if (fstatat(dir_fd, name, &info, AT_SYMLINK_NOFOLLOW) < 0)
        return cay_fail_errno(err, CAY_R_FILE_NOT_FOUND, -errno, "cannot look at the file");
    if (S_ISLNK(info.st_mode))
        return upload_link(cp, dir_fd, name, path, err);
    if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
        cp->skipped++;
        cay_cp_warn(cp, path, "it is neither a file nor a directory");
        return true;
    }
    cay_autoclose int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) < 0)
        return cay_fail_errno(err, CAY_R_ACCESS_DENIED, -errno, "cannot open");
    if (S_ISDIR(info.st_mode))
        return upload_dir(cp, fd, &info, path, depth + 1, err);
    return upload_file(cp, fd, &info, path, err);
}

static void close_dir(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

static bool upload_dir(struct cay_cp *cp, int dir_fd, const struct stat *info, const char *path,
                       int depth, struct cay_error *err)
{
    if (depth > CAY_CP_DEPTH_MAX)
        return cay_fail(err, CAY_R_FAILED_PRECONDITION, "directories are nested more than %d deep",
                        CAY_CP_DEPTH_MAX);
    if (!make_dir(cp, info, path, err))
        return false;
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cay_auto(close_dir) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return cay_fail_errno(err, CAY_R_ACCESS_DENIED, -errno, "cannot list");
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry && errno)
            return cay_fail_errno(err, CAY_R_ACCESS_DENIED, -errno, "cannot list");
        if (!entry)
            return true;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        cay_auto(cay_arena_finish) struct cay_arena arena;
        cay_arena_init(&arena, CAY_LIMIT_MESSAGE_BYTES);
        const char *below = cay_cp_join(&arena, path, entry->d_name);
        if (!below)
            return cay_fail(err, CAY_R_INVALID_PATH, "a path is too long");
        if (!upload_entry(cp, dirfd(dir), entry->d_name, below, depth, err) &&
            !cay_cp_forgive(cp, below, err))
            return cay_wrap(err, "%.100s", below);
    }
}

/* As cp(1): into a directory that exists, under its own name. */
static const char *choose_target(struct cay_cp *cp, const char *local, const char *remote,
                                 struct cay_error *err)
{
    struct cay_arena *arena = &cp->cli->arena;
    const char *path = cay_cp_encode(arena, remote);
    struct cay_str name = cay_cp_last_name(local);
    size_t len = strlen(remote);
    const struct cay_v1_file_info *info = NULL;
    if (!path) {
        cay_fail(err, CAY_R_INVALID_PATH, "the path is too long");
        return NULL;
    }
    if (!cay_cp_stat(cp, cay_str(path), &info, err))
        return NULL;
    bool is_dir =
        (info && info->type == CAY_V1_FILE_TYPE_DIRECTORY) || (len && remote[len - 1] == '/');
    if (!is_dir || !name.len)
        return path;
    const char *copy = cay_arena_copy(arena, name);
    path = copy ? cay_cp_join(arena, path, copy) : NULL;
    if (!path)
        cay_fail(err, CAY_R_INVALID_PATH, "the path is too long");
    return path;
}

bool cay_cp_upload(struct cay_cp *cp, const char *local, const char *remote, struct cay_error *err)
{
    bool is_stdin = strcmp(local, "-") == 0;
    struct stat info;
    cay_autoclose int fd =
        is_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(local, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) < 0)
        return cay_fail_errno(err, CAY_R_FILE_NOT_FOUND, -errno, "cannot open '%.120s'", local);
    if (is_stdin) {
        const char *path = cay_cp_encode(&cp->cli->arena, remote);
        return path ? upload_file(cp, fd, NULL, path, err)
                    : cay_fail(err, CAY_R_INVALID_PATH, "the path is too long");
    }
    const char *target = choose_target(cp, local, remote, err);
    if (!target)
        return false;
    if (S_ISDIR(info.st_mode))
        return upload_dir(cp, fd, &info, target, 0, err);
    if (S_ISREG(info.st_mode))
        cp->progress.total_bytes = info.st_size;
    return upload_file(cp, fd, &info, target, err);
}
