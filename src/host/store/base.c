/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/base.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/store/base_import.h"
#include "host/store/image.h"
#include "host/store/store_ops.h"
#include "sys/pin.h"
#include "sys/resolve.h"

/* One directory that every base has. What stands above it comes from whoever made the base: a link
 * there leads out of the tree, and is not followed. */
static int complete_dir(int root_fd, const char *above, const char *name, mode_t mode, uid_t owner)
{
    cay_autoclose int dir_fd = cay_resolve_open_plain(root_fd, above, O_PATH | O_DIRECTORY, 0);
    return dir_fd < 0 ? dir_fd : cay_pin_make_dir(dir_fd, name, mode, owner, owner);
}

bool cay_base_complete(int root_fd, struct cay_error *err)
{
    static const struct {
        const char *above, *name;
        mode_t mode;
        uid_t owner;
    } dirs[] = {
        {".", "dev", 0755, 0},          {".", "proc", 0555, 0}, {".", "sys", 0555, 0},
        {".", "run", 0755, 0},          {".", "tmp", 01777, 0}, {".", "root", 0700, 0},
        {".", "etc", 0755, 0},          {".", "home", 0755, 0}, {"home", "user", 0755, 1000},
        {".", "workspace", 0755, 1000},
    };
    for (size_t i = 0; i < CAY_COUNT(dirs); i++) {
        int rc = complete_dir(root_fd, dirs[i].above, dirs[i].name, dirs[i].mode, dirs[i].owner);
        if (rc == -EEXIST || rc == -ELOOP || rc == -ENOTDIR || rc == -ENOENT)
            continue; /* the base has its own idea, a link perhaps */
        if (rc < 0)
            return cay_store_fail(err, rc, "make %s/%s", dirs[i].above, dirs[i].name);
    }
    return true;
}

static bool name_is_free(struct cay_store *store, const char *name, struct cay_error *err)
{
    char found[CAY_STORE_NAME_SIZE];
    struct cay_error ignored;
    if (!cay_store_base_name_valid(name) || !cay_store_base_resolve(store, name, found, &ignored))
        return true; /* a bad name is told of by commit */
    return cay_store_base_taken(err, name);
}

bool cay_base_keep(struct cay_store *store, struct cay_store_base_draft *draft, const char *name,
                   const struct cay_base_options *options, struct cay_base_info *info,
                   struct cay_error *err)
{
    memcpy(info->id, draft->id, sizeof(info->id));
    if (cay_base_complete(draft->root_fd, err) &&
        (options->skips_digest || cay_base_digest(draft->root_fd, options, info->digest, err)) &&
        (!options->ready || options->ready(options->ready_ctx, info, err)))
        return options->replaces ? cay_store_base_replace(store, draft, name, err)
                                 : cay_store_base_commit(store, draft, name, err);
    cay_store_base_abort(store, draft);
    return false;
}

/* Users of an image are names or numbers, with or without a group; sessions know numbers. */
static struct cay_str known_user(struct cay_arena *arena, struct cay_str number)
{
    if (cay_str_is(number, "0"))
        return CAY_STR("root");
    return cay_str_is(number, "1000") ? CAY_STR("user") : cay_arena_str(arena, number);
}

static void keep_user(int root_fd, struct cay_str user, struct cay_base_info *info)
{
    uint64_t number = 0;
    struct cay_str rest = user;
    struct cay_str name = {};
    (void)cay_str_split(&rest, ':', &name);
    if (!name.len || cay_str_is(name, "root") || cay_str_is(name, "user") ||
        cay_str_to_u64(name, CAY_BASE_IDS - 1, &number) == 0) {
        info->user = known_user(&info->arena, name);
        return;
    }
    enum { PASSWD_BYTES_MAX = 1 << 20 };
    cay_autoclose int fd = cay_resolve_open(root_fd, "etc/passwd", O_RDONLY | O_NONBLOCK, 0);
    cay_autofree char *text = cay_alloc(PASSWD_BYTES_MAX);
    ssize_t len = fd < 0 ? -1 : read(fd, text, PASSWD_BYTES_MAX);
    rest = (struct cay_str){text, len > 0 ? (size_t)len : 0};
    struct cay_str line;
    while (cay_str_split(&rest, '\n', &line)) {
        struct cay_str fields[3] = {};
        for (size_t i = 0; i < CAY_COUNT(fields) && cay_str_split(&line, ':', &fields[i]); i++)
            ;
        if (cay_str_equal(fields[0], name) &&
            cay_str_to_u64(fields[2], CAY_BASE_IDS - 1, &number) == 0) {
            info->user = known_user(&info->arena, fields[2]);
            return;
        }
    }
}

static bool put_image_together(struct cay_base_import *import, const struct cay_image_files *files,
                               struct cay_error *err)
{
    struct cay_base_info *info = import->info;
    enum cay_base_format format = import->options->format;
    bool is_oci =
        cay_image_files_has(files, "index.json") && cay_image_files_has(files, "oci-layout");
    bool is_docker = cay_image_files_has(files, "manifest.json");
    info->format =
        is_oci && format != CAY_BASE_FORMAT_DOCKER ? CAY_BASE_FORMAT_OCI : CAY_BASE_FORMAT_DOCKER;
    if ((info->format == CAY_BASE_FORMAT_OCI ? !is_oci : !is_docker) ||
        (format == CAY_BASE_FORMAT_OCI && !is_oci))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "what was sent is neither an OCI image layout nor a Docker image archive");
    const struct cay_image_request request = {
        .files = files,
        .is_docker = info->format == CAY_BASE_FORMAT_DOCKER,
        .platform = import->options->platform,
        .unpack = &import->unpack,
    };
    struct cay_image_found found;
    if (!cay_image_unpack(&request, &info->arena, &found, err))
        return false;
    info->source = found.name;
    info->architecture = found.config.architecture;
    info->cwd = cay_str_starts(found.config.cwd, "/") ? found.config.cwd : CAY_STR("");
    info->env = found.config.env.items;
    info->env_count = found.config.env.count;
    keep_user(import->unpack.root_fd, found.config.user, info);
    return true;
}

static bool copy_dir(struct cay_base_import *import, int dir_fd, struct cay_error *err)
{
    const struct cay_copy_request request = {
        .rule = CAY_COPY_IMPORT,
        .from_fd = dir_fd,
        .to_fd = import->unpack.root_fd,
        .entries_max = import->unpack.entries_max,
        .bytes_max = import->unpack.bytes_max,
        .progress = import->options->progress,
        .progress_ctx = import->options->progress_ctx,
        .previous_fd = -1,
    };
    import->info->format = CAY_BASE_FORMAT_DIRECTORY;
    bool is_copied = cay_copy_tree(&request, &import->unpack.stats, err);
    import->info->bytes_read = import->unpack.stats.bytes;
    return is_copied;
}

static bool fill(struct cay_base_import *import, int fd, struct cay_error *err)
{
    enum cay_base_format format = import->options->format;
    struct stat st;
    if (fstat(fd, &st) < 0)
        return cay_store_fail(err, -errno, "look at what is imported");
    cay_auto(cay_image_files_finish) struct cay_image_files files = {
        .dir_fd = S_ISDIR(st.st_mode) ? fd : -1,
        .spool_fd = import->unpack.root_fd,
        .bytes_max = import->unpack.bytes_max,
    };
    if (!S_ISDIR(st.st_mode)) {
        if (format == CAY_BASE_FORMAT_DIRECTORY)
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "format: what was given is not a directory");
        import->info->format = CAY_BASE_FORMAT_TAR;
        return cay_base_read_tar(import, fd, &files, err) &&
               (!import->is_image || put_image_together(import, &files, err));
    }
    if (format == CAY_BASE_FORMAT_TAR)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "format: what was given is a directory");
    bool is_image = format == CAY_BASE_FORMAT_OCI || format == CAY_BASE_FORMAT_DOCKER ||
                    (format == CAY_BASE_FORMAT_AUTO && cay_image_files_has(&files, "oci-layout") &&
                     cay_image_files_has(&files, "index.json"));
    return is_image ? put_image_together(import, &files, err) : copy_dir(import, fd, err);
}

bool cay_base_import(struct cay_store *store, const char *name, int fd,
                     const struct cay_base_options *options, struct cay_base_info *out_info,
                     struct cay_error *err)
{
    static const struct cay_base_options defaults;
    enum { TEXTS_BYTES_MAX = 32 << 20 }; /* the documents of an image */
    struct cay_store_base_draft draft;
    options = options ? options : &defaults;
    *out_info = (struct cay_base_info){};
    cay_arena_init(&out_info->arena, TEXTS_BYTES_MAX);
    if ((!options->replaces && !name_is_free(store, name, err)) ||
        !cay_store_base_begin(store, &draft, err))
        return false;
    struct cay_base_import import = {
        .options = options,
        .info = out_info,
        .unpack = {.root_fd = draft.root_fd,
                   .entries_max =
                       options->entries_max ? options->entries_max : CAY_BASE_ENTRIES_MAX,
                   .bytes_max = options->bytes_max ? options->bytes_max : CAY_BASE_BYTES_MAX,
                   .progress = options->progress,
                   .progress_ctx = options->progress_ctx},
    };
    bool is_filled = fill(&import, fd, err);
    if (is_filled)
        cay_unpack_times(&import.unpack);
    else
        cay_store_base_abort(store, &draft);
    cay_unpack_finish(&import.unpack);
    out_info->stats = import.unpack.stats;
    if (!is_filled || !cay_base_keep(store, &draft, name, options, out_info, err))
        return cay_wrap(err, "import '%.64s'", name);
    return true;
}
