/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/image.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "host/store/store_ops.h"

enum { INDEX_DEPTH_MAX = 4 };

struct image {
    const struct cay_image_request *request;
    struct cay_arena *arena;
    struct cay_image_found *found;
    struct cay_error *err;
    struct cay_str os;
    struct cay_str architecture;
    struct cay_str variant;
};

static bool refuse(const struct image *image, const char *why)
{
    return cay_fail(image->err, CAY_R_INVALID_ARGUMENT, "the image %s", why);
}

const char *cay_image_architecture(void)
{
    static const struct {
        const char *machine;
        const char *name;
    } names[] = {{"x86_64", "amd64"}, {"aarch64", "arm64"},      {"armv7l", "arm"},
                 {"i686", "386"},     {"riscv64", "riscv64"},    {"ppc64le", "ppc64le"},
                 {"s390x", "s390x"},  {"loongarch64", "loong64"}};
    struct utsname host;
    const char *name = "";
    if (uname(&host) < 0)
        return name;
    for (size_t i = 0; i < CAY_COUNT(names); i++)
        name = strcmp(host.machine, names[i].machine) ? name : names[i].name;
    return name;
}

static bool choose_platform(struct image *image)
{
    struct cay_str rest = cay_str(image->request->platform);
    image->os = CAY_STR("linux");
    image->architecture = cay_str(cay_image_architecture());
    if (!rest.len)
        return true;
    struct cay_str extra = {};
    if (!cay_str_split(&rest, '/', &image->os) ||
        !cay_str_split(&rest, '/', &image->architecture) || !image->architecture.len)
        return cay_fail(image->err, CAY_R_INVALID_ARGUMENT,
                        "platform: as in linux/arm64 or linux/arm/v7");
    (void)cay_str_split(&rest, '/', &image->variant);
    return !cay_str_split(&rest, '/', &extra) ||
           cay_fail(image->err, CAY_R_INVALID_ARGUMENT, "the platform has too many parts");
}

static bool fits(const struct image *image, const struct cay_image_descriptor *descriptor)
{
    return !descriptor->has_platform ||
           (cay_str_equal(descriptor->os, image->os) &&
            cay_str_equal(descriptor->architecture, image->architecture) &&
            (!image->variant.len || cay_str_equal(descriptor->variant, image->variant)));
}

/* "sha256:…" to the name of its file; only SHA-256 is known. */
static bool blob_name(const struct image *image, const struct cay_image_descriptor *descriptor,
                      char out_name[static 96], struct cay_str *out_hex)
{
    static const char prefix[] = "sha256:";
    struct cay_str digest = descriptor->digest;
    if (!cay_str_starts(digest, prefix))
        return refuse(image, "names a part by something else than its SHA-256");
    *out_hex = (struct cay_str){digest.ptr + strlen(prefix), digest.len - strlen(prefix)};
    if (!cay_sha256_is_hex(*out_hex))
        return refuse(image, "has a digest that is not valid");
    snprintf(out_name, 96, "blobs/sha256/%.*s", (int)out_hex->len, out_hex->ptr);
    return true;
}

static bool wrong_digest(const struct image *image, const char *name)
{
    return cay_fail(image->err, CAY_R_INVALID_ARGUMENT,
                    "'%.100s' of the image does not have the digest it is named by", name);
}

static bool read_blob(const struct image *image, const struct cay_image_descriptor *descriptor,
                      struct cay_str *out_text, char out_hex[static CAY_SHA256_HEX_SIZE])
{
    char name[96];
    struct cay_str hex;
    if (!blob_name(image, descriptor, name, &hex) ||
        !cay_image_files_read(image->request->files, name, image->arena, out_text, out_hex,
                              image->err))
        return false;
    return cay_str_is(hex, out_hex) || wrong_digest(image, name);
}

/* The manifest of our platform in an index, down through indexes of indexes. At the top two that
 * fit are two images, and nobody said which. */
static bool find_manifest(struct image *image, struct cay_image_manifest *manifest)
{
    for (int depth = 0; !manifest->config.digest.len; depth++) {
        const struct cay_image_descriptor *chosen = NULL;
        for (size_t i = 0; i < manifest->manifest_count; i++) {
            const struct cay_image_descriptor *candidate = &manifest->manifests[i];
            if (!fits(image, candidate))
                continue;
            if (chosen && depth == 0 && !cay_str_equal(chosen->digest, candidate->digest))
                return refuse(image,
                              "layout has several images in it; export only the one that is meant");
            chosen = chosen ? chosen : candidate;
        }
        if (!chosen)
            return cay_fail(image->err, CAY_R_INVALID_ARGUMENT,
                            "the image has nothing for %.*s/%.*s", (int)image->os.len,
                            image->os.ptr, (int)image->architecture.len, image->architecture.ptr);
        struct cay_str text;
        if (depth == INDEX_DEPTH_MAX)
            return refuse(image, "has indexes nested too deeply");
        if (!read_blob(image, chosen, &text, image->found->digest) ||
            !cay_image_read_manifest(text, image->arena, manifest, image->err))
            return false;
    }
    return true;
}

static bool check_config(struct image *image)
{
    const struct cay_image_config *config = &image->found->config;
    if (config->os.len && !cay_str_equal(config->os, image->os))
        return refuse(image, "is for another operating system");
    if (config->architecture.len && !cay_str_equal(config->architecture, image->architecture))
        return cay_fail(image->err, CAY_R_INVALID_ARGUMENT,
                        "the image is for %.*s; name its platform to take it all the same",
                        (int)CAY_MIN(config->architecture.len, (size_t)32),
                        config->architecture.ptr);
    return true;
}

/* What a whiteout takes away, or NULL for an entry that is none. */
static const char *hidden_name(const char *path)
{
    static const char prefix[] = ".wh.";
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    return strncmp(name, prefix, strlen(prefix)) ? NULL : name + strlen(prefix);
}

static bool apply_whiteout(struct image *image, const char *path, const char *hidden)
{
    char target[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int dir_len = slash ? (int)(slash - path) : 0;
    if (!strcmp(hidden, ".wh..opq")) {
        snprintf(target, sizeof(target), "%.*s", dir_len, path);
        return cay_unpack_clear(image->request->unpack, target, image->err);
    }
    if (!strncmp(hidden, ".wh.", 4))
        return true; /* aufs' own notes */
    if (!*hidden || !strcmp(hidden, ".") || !strcmp(hidden, ".."))
        return cay_fail(image->err, CAY_R_INVALID_ARGUMENT,
                        "'%.80s' in the image takes away what is not in it", path);
    snprintf(target, sizeof(target), "%.*s%s%s", dir_len, path, dir_len ? "/" : "", hidden);
    return cay_unpack_remove(image->request->unpack, target, image->err);
}

/* One way through a layer: first what it takes away from those below, then what it brings. */
static bool pass(struct image *image, int fd, bool is_whiteouts,
                 char out_sha256[static CAY_SHA256_HEX_SIZE])
{
    cay_auto(cay_archive_in_finish) struct cay_archive_in in = {};
    struct cay_unpack *unpack = image->request->unpack;
    uint64_t entries = 0;
    uint64_t bytes = 0;
    (void)lseek(fd, 0, SEEK_SET);
    if (!cay_archive_in_open(&in, fd, !is_whiteouts, image->err))
        return false;
    for (;;) {
        struct archive_entry *entry = NULL;
        char path[PATH_MAX];
        if (!cay_archive_in_next(&in, &entry, image->err))
            return false;
        if (!entry)
            break;
        const char *raw = cay_archive_path(entry);
        if (!raw || !cay_archive_clean(raw, path))
            return cay_fail(image->err, CAY_R_INVALID_ARGUMENT,
                            "'%.80s' in the image is no name inside it", raw ? raw : "");
        const char *hidden = hidden_name(path);
        la_int64_t size = archive_entry_size(entry);
        bytes += size > 0 ? CAY_MIN((uint64_t)size, unpack->bytes_max + 1) : 0;
        /* The other pass counts for itself. */
        if (is_whiteouts && (++entries > unpack->entries_max || bytes > unpack->bytes_max))
            return cay_fail(image->err, CAY_R_RESOURCE_EXHAUSTED,
                            "a layer of the image is too large");
        bool is_good = true;
        if (hidden)
            is_good = !is_whiteouts || apply_whiteout(image, path, hidden);
        else if (!is_whiteouts)
            is_good = cay_unpack_entry(unpack, &in, entry, path, image->err);
        if (!is_good)
            return false;
    }
    return is_whiteouts || cay_archive_in_drain(&in, out_sha256, image->err);
}

static bool apply_layer(struct image *image, int fd, bool is_first,
                        char out_sha256[static CAY_SHA256_HEX_SIZE])
{
    struct cay_unpack *unpack = image->request->unpack;
    unpack->replaces = true;
    return (is_first || pass(image, fd, true, out_sha256)) && pass(image, fd, false, out_sha256);
}

static bool apply_oci(struct image *image)
{
    struct cay_str text;
    struct cay_image_manifest manifest;
    char sha256[CAY_SHA256_HEX_SIZE];
    if (!cay_image_files_read(image->request->files, "index.json", image->arena, &text, sha256,
                              image->err) ||
        !cay_image_read_manifest(text, image->arena, &manifest, image->err) ||
        !find_manifest(image, &manifest) || !read_blob(image, &manifest.config, &text, sha256) ||
        !cay_image_read_config(text, image->arena, &image->found->config, image->err) ||
        !check_config(image))
        return false;
    if (!manifest.layer_count)
        return refuse(image, "has no layers");
    for (size_t i = 0; i < manifest.layer_count; i++) {
        cay_autoclose int fd = -1;
        uint64_t size = 0;
        char name[96];
        struct cay_str hex;
        if (!blob_name(image, &manifest.layers[i], name, &hex) ||
            !cay_image_files_open(image->request->files, name, &fd, &size, image->err))
            return false;
        if (manifest.layers[i].size >= 0 && size != (uint64_t)manifest.layers[i].size)
            return wrong_digest(image, name);
        if (!apply_layer(image, fd, i == 0, sha256))
            return false;
        if (!cay_str_is(hex, sha256))
            return wrong_digest(image, name);
    }
    return true;
}

/* SHA-256 of what a packed file holds. */
static bool hash_unpacked(struct image *image, int fd, char out_sha256[static CAY_SHA256_HEX_SIZE])
{
    struct archive *archive = archive_read_new();
    struct archive_entry *entry = NULL;
    cay_auto(cay_sha256_finish) struct cay_sha256 sha;
    cay_sha256_init(&sha);
    uint64_t bytes = 0;
    (void)lseek(fd, 0, SEEK_SET);
    archive_read_support_format_raw(archive);
    archive_read_support_filter_gzip(archive);
    archive_read_support_filter_zstd(archive);
    archive_read_support_filter_xz(archive);
    bool is_good = archive_read_open_fd(archive, fd, 64 * 1024) == ARCHIVE_OK &&
                   archive_read_next_header(archive, &entry) == ARCHIVE_OK;
    while (is_good) {
        const void *block = NULL;
        size_t len = 0;
        la_int64_t offset = 0;
        int rc = archive_read_data_block(archive, &block, &len, &offset);
        if (rc == ARCHIVE_EOF)
            break;
        bytes += len;
        is_good = rc >= ARCHIVE_WARN && bytes <= image->request->unpack->bytes_max;
        if (is_good)
            cay_sha256_add(&sha, block, len);
    }
    archive_read_free(archive);
    cay_sha256_end(&sha, out_sha256);
    return is_good || refuse(image, "has a layer that is damaged or too large");
}

static bool apply_docker_layer(struct image *image, struct cay_str layer, struct cay_str diff_id,
                               bool is_first)
{
    const char *name = cay_arena_copy(image->arena, layer);
    cay_autoclose int fd = -1;
    uint64_t size = 0;
    char sha256[CAY_SHA256_HEX_SIZE];
    if (!name)
        return cay_fail(image->err, CAY_R_RESOURCE_EXHAUSTED, "the image is too large");
    if (!cay_image_files_open(image->request->files, name, &fd, &size, image->err) ||
        !apply_layer(image, fd, is_first, sha256))
        return false;
    struct cay_str hex = {diff_id.ptr + strlen("sha256:"), diff_id.len - strlen("sha256:")};
    if (!cay_str_is(hex, sha256) && !hash_unpacked(image, fd, sha256))
        return false;
    return cay_str_is(hex, sha256) || wrong_digest(image, name);
}

/* The configuration is named by its digest, in one of two ways: HEX.json, or blobs/sha256/HEX. */
static bool is_named_by(struct cay_str name, const char *hex)
{
    static const char blobs[] = "blobs/sha256/";
    static const char json[] = ".json";
    if (cay_str_starts(name, blobs))
        name = (struct cay_str){name.ptr + strlen(blobs), name.len - strlen(blobs)};
    if (name.len > strlen(json) && !memcmp(name.ptr + name.len - strlen(json), json, strlen(json)))
        name.len -= strlen(json);
    return cay_str_is(name, hex);
}

static bool apply_docker(struct image *image)
{
    struct cay_str text;
    struct cay_image_docker docker;
    struct cay_image_config *config = &image->found->config;
    if (!cay_image_files_read(image->request->files, "manifest.json", image->arena, &text,
                              image->found->digest, image->err) ||
        !cay_image_read_docker(text, image->arena, &docker, image->err))
        return false;
    if (docker.count != 1)
        return refuse(image,
                      docker.count
                          ? "archive has several images in it; save only the one that is meant"
                          : "is empty");
    const char *name = cay_arena_copy(image->arena, docker.config);
    if (!name || !cay_image_files_read(image->request->files, name, image->arena, &text,
                                       image->found->digest, image->err))
        return name ? false : cay_fail(image->err, CAY_R_RESOURCE_EXHAUSTED, NULL);
    if (!is_named_by(docker.config, image->found->digest))
        return wrong_digest(image, name);
    if (!cay_image_read_config(text, image->arena, config, image->err) || !check_config(image))
        return false;
    if (!docker.layers.count || docker.layers.count != config->diff_ids.count)
        return refuse(image, "has more or fewer layers than digests of layers");
    image->found->name = docker.tags.count ? docker.tags.items[0] : CAY_STR("");
    for (size_t i = 0; i < docker.layers.count; i++) {
        struct cay_str diff_id = config->diff_ids.items[i];
        if (!cay_str_starts(diff_id, "sha256:"))
            return refuse(image, "names a layer by something else than its SHA-256");
        if (!apply_docker_layer(image, docker.layers.items[i], diff_id, i == 0))
            return false;
    }
    return true;
}

bool cay_image_unpack(const struct cay_image_request *request, struct cay_arena *arena,
                      struct cay_image_found *out_found, struct cay_error *err)
{
    struct image image = {.request = request, .arena = arena, .found = out_found, .err = err};
    *out_found = (struct cay_image_found){};
    if (!choose_platform(&image))
        return false;
    return request->is_docker ? apply_docker(&image) : apply_oci(&image);
}
