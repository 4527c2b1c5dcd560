/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conform/store_tree.h"
#include "tests/unit/test.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/store/base.h"
#include "host/store/dir_list.h"
#include "host/store/image.h"
#include "sys/remove.h"
#include "sys/sha256.h"

/* Images are made by hand here: an OCI layout in a directory, from which archives are packed. */

struct world {
    struct cay_store *store;
    char directory[64]; /* "s" is the store, "image" the layout, "outside" must stay */
    int fd;
    int image_fd;
    struct cay_error err;
    struct cay_base_info info;
};

static int setup(void **state)
{
    struct world *world = cay_new(struct world);
    snprintf(world->directory, sizeof(world->directory), "/tmp/cay-image-XXXXXX");
    if (!mkdtemp(world->directory))
        return -1;
    world->fd = open(world->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char store_path[80];
    snprintf(store_path, sizeof(store_path), "%s/s", world->directory);
    struct cay_store_config config = {"overlay", store_path};
    assert_true(cay_store_open(&config, &world->store, &world->err));
    tree_write(world->fd, "outside", "untouched");
    tree_mkdir(world->fd, "image", 0755);
    tree_mkdir(world->fd, "image/blobs", 0755);
    tree_mkdir(world->fd, "image/blobs/sha256", 0755);
    world->image_fd = openat(world->fd, "image", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tree_write(world->image_fd, "oci-layout", "{\"imageLayoutVersion\": \"1.0.0\"}");
    *state = world;
    return 0;
}

static int teardown(void **state)
{
    struct world *world = *state;
    char *text = tree_read(world->fd, "outside");
    assert_string_equal(text, "untouched");
    free(text);
    cay_store_close(world->store);
    close(world->image_fd);
    close(world->fd);
    int tmp_fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_return_code(cay_remove_tree(tmp_fd, world->directory + strlen("/tmp/"), NULL), 0);
    close(tmp_fd);
    free(world);
    return 0;
}

struct member {
    const char *path;
    unsigned type; /* AE_IF...; 0: a hard link to `text` */
    const char *text;
};

static int pack(const struct member *members, size_t count, int filter)
{
    int fd = memfd_create("tar", MFD_CLOEXEC);
    struct archive *archive = archive_write_new();
    archive_write_set_format_pax_restricted(archive);
    archive_write_add_filter(archive, filter);
    assert_int_equal(archive_write_open_fd(archive, fd), ARCHIVE_OK);
    for (size_t i = 0; i < count; i++) {
        const struct member *member = &members[i];
        struct archive_entry *entry = archive_entry_new();
        archive_entry_set_pathname(entry, member->path);
        archive_entry_set_perm(entry, member->type == AE_IFDIR ? 0755 : 0644);
        archive_entry_set_mtime(entry, 1000, 0);
        archive_entry_set_filetype(entry, member->type ? member->type : AE_IFREG);
        if (!member->type)
            archive_entry_set_hardlink(entry, member->text);
        if (member->type == AE_IFLNK)
            archive_entry_set_symlink(entry, member->text);
        bool file = member->type == AE_IFREG;
        archive_entry_set_size(entry, file ? (la_int64_t)strlen(member->text) : 0);
        assert_true(archive_write_header(archive, entry) >= ARCHIVE_WARN);
        if (file)
            archive_write_data(archive, member->text, strlen(member->text));
        archive_entry_free(entry);
    }
    assert_int_equal(archive_write_close(archive), ARCHIVE_OK);
    archive_write_free(archive);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

static char *read_fd(int fd, size_t *out_len)
{
    struct stat st;
    assert_return_code(fstat(fd, &st), errno);
    char *text = cay_alloc((size_t)st.st_size + 1);
    assert_int_equal(pread(fd, text, (size_t)st.st_size, 0), st.st_size);
    *out_len = (size_t)st.st_size;
    return text;
}

static void write_bytes(int dir_fd, const char *path, const char *data, size_t len)
{
    int fd = openat(dir_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_return_code(fd, errno);
    assert_int_equal(write(fd, data, len), len);
    close(fd);
}

/* Adds a blob; the descriptor's text is malloc'd. */
static char *add_blob(struct world *world, const char *data, size_t len, const char *extra)
{
    struct cay_sha256 sha;
    char hex[CAY_SHA256_HEX_SIZE];
    cay_sha256_init(&sha);
    cay_sha256_add(&sha, data, len);
    cay_sha256_end(&sha, hex);
    char path[96];
    snprintf(path, sizeof(path), "blobs/sha256/%s", hex);
    write_bytes(world->image_fd, path, data, len);
    return cay_asprintf("{\"mediaType\": \"x\", \"digest\": \"sha256:%s\", \"size\": %zu%s}", hex,
                        len, extra);
}

static char *add_layer(struct world *world, const struct member *members, size_t count, int filter)
{
    int fd = pack(members, count, filter);
    size_t len = 0;
    char *data = read_fd(fd, &len);
    char *descriptor = add_blob(world, data, len, "");
    free(data);
    close(fd);
    return descriptor;
}

static const char settings[] =
    "\"config\": {\"Env\": [\"PATH=/opt/bin:/bin\", \"EMPTY=\", \"no-variable\"],"
    " \"WorkingDir\": \"/srv/app\", \"User\": \"app:staff\", \"Cmd\": [\"sh\"], \"Volumes\": null}";

/* Takes the layers' descriptors; the answer is the manifest's. */
static char *add_manifest(struct world *world, char *const *layers, size_t count,
                          const char *architecture, const char *extra)
{
    char *config_text =
        cay_asprintf("{\"os\": \"linux\", \"architecture\": \"%s\", %s}", architecture, settings);
    char *config = add_blob(world, config_text, strlen(config_text), "");
    struct cay_buf text;
    cay_buf_init(&text, 1 << 20);
    cay_buf_printf(&text, "{\"schemaVersion\": 2, \"config\": %s, \"layers\": [", config);
    for (size_t i = 0; i < count; i++)
        cay_buf_printf(&text, "%s%s", i ? ", " : "", layers[i]);
    cay_buf_printf(&text, "]}");
    char *manifest = add_blob(world, text.data, text.len, extra);
    cay_buf_finish(&text);
    free(config);
    free(config_text);
    return manifest;
}

static void write_index(struct world *world, char *const *manifests, size_t count)
{
    struct cay_buf text;
    cay_buf_init(&text, 1 << 20);
    cay_buf_printf(&text, "{\"schemaVersion\": 2, \"manifests\": [");
    for (size_t i = 0; i < count; i++)
        cay_buf_printf(&text, "%s%s", i ? ", " : "", manifests[i]);
    cay_buf_printf(&text, "]}");
    write_bytes(world->image_fd, "index.json", text.data, text.len);
    cay_buf_finish(&text);
}

static const struct member first_layer[] = {
    {"etc/", AE_IFDIR, NULL},
    {"etc/passwd", AE_IFREG, "root:x:0:0::/:/bin/sh\napp:x:4242:4242::/srv:/bin/sh\n"},
    {"srv/app/old", AE_IFREG, "old"},
    {"srv/app/kept", AE_IFREG, "kept"},
    {"opaque/a", AE_IFREG, "a"},
    {"opaque/sub/b", AE_IFREG, "b"},
    {"becomes-file/x", AE_IFREG, "x"},
    {"becomes-dir", AE_IFREG, "file"},
    {"gone-tree/deep/file", AE_IFREG, "file"},
    {"link", AE_IFLNK, "/etc"},
    {"tool", AE_IFREG, "tool"},
};
static const struct member second_layer[] = {
    {"srv/app/.wh.old", AE_IFREG, ""},
    {".wh.gone-tree", AE_IFREG, ""},
    /* What the layer itself brings stays, whatever comes first. */
    {"opaque/new", AE_IFREG, "new"},
    {"opaque/.wh..wh..opq", AE_IFREG, ""},
    {"becomes-file", AE_IFREG, "now a file"},
    {"becomes-dir/", AE_IFDIR, NULL},
    {"becomes-dir/y", AE_IFREG, "y"},
    {"tool-link", 0, "tool"},
    {"link/.wh.nothing", AE_IFREG, ""},
    {".wh.not-there", AE_IFREG, ""},
};

static void make_image(struct world *world)
{
    char *layers[] = {
        add_layer(world, first_layer, CAY_COUNT(first_layer), ARCHIVE_FILTER_GZIP),
        add_layer(world, second_layer, CAY_COUNT(second_layer), ARCHIVE_FILTER_ZSTD),
    };
    const struct member other[] = {{"other", AE_IFREG, "of another platform"}};
    char *other_layers[] = {add_layer(world, other, 1, ARCHIVE_FILTER_NONE)};
    char *ours = cay_asprintf(", \"platform\": {\"os\": \"linux\", \"architecture\": \"%s\"}",
                              cay_image_architecture());
    char *manifests[] = {
        add_manifest(world, other_layers, 1, "pdp11",
                     ", \"platform\": {\"os\": \"linux\", \"architecture\": \"pdp11\"}"),
        add_manifest(world, layers, 2, cay_image_architecture(), ours),
    };
    write_index(world, manifests, 2);
    for (size_t i = 0; i < 2; i++) {
        free(layers[i]);
        free(manifests[i]);
    }
    free(other_layers[0]);
    free(ours);
}

static bool import(struct world *world, int fd, const struct cay_base_options *options)
{
    cay_arena_finish(&world->info.arena);
    return cay_base_import(world->store, "it", fd, options, &world->info, &world->err);
}

static void nothing_is_left(struct world *world)
{
    bool more = true;
    cay_arena_finish(&world->info.arena);
    while (more)
        assert_true(cay_store_collect(world->store, 10000, &more, &world->err));
    static const char *const dirs[] = {"s/l", "s/b", "s/t"};
    for (size_t i = 0; i < CAY_COUNT(dirs); i++) {
        int fd = openat(world->fd, dirs[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct cay_dir_list names = {};
        assert_return_code(cay_dir_list_read(&names, fd), 0);
        assert_int_equal(names.count, 0);
        cay_dir_list_finish(&names);
        close(fd);
    }
}

static void refused(struct world *world, const struct cay_base_options *options,
                    enum cay_reason reason)
{
    assert_false(import(world, world->image_fd, options));
    assert_int_equal(world->err.reason, reason);
    nothing_is_left(world);
}

static int view(struct world *world)
{
    int fd = -1;
    const struct cay_store_ref ref = {.base = "it"};
    assert_true(cay_store_view(world->store, &ref, NULL, &fd, &world->err));
    return fd;
}

static void holds(int root, const char *path, const char *wanted)
{
    char *text = tree_read(root, path);
    if (!wanted)
        assert_null(text);
    else if (!text)
        fail_msg("%s is not there", path);
    else
        assert_string_equal(text, wanted);
    free(text);
}

static void check_image(struct world *world)
{
    int root = view(world);
    struct stat one;
    struct stat two;
    holds(root, "srv/app/old", NULL);
    holds(root, "srv/app/kept", "kept");
    holds(root, "opaque/a", NULL);
    holds(root, "opaque/sub/b", NULL);
    holds(root, "opaque/new", "new");
    holds(root, "opaque/.wh..wh..opq", NULL);
    holds(root, "becomes-file", "now a file");
    holds(root, "becomes-dir/y", "y");
    holds(root, "gone-tree/deep/file", NULL);
    holds(root, "other", NULL);
    assert_return_code(fstatat(root, "tool", &one, 0), errno);
    assert_return_code(fstatat(root, "tool-link", &two, 0), errno);
    assert_int_equal(one.st_ino, two.st_ino);
    close(root);
    assert_true(cay_str_is(world->info.architecture, cay_image_architecture()));
    assert_true(cay_str_is(world->info.cwd, "/srv/app"));
    assert_true(cay_str_is(world->info.user, "4242"));
    assert_int_equal(world->info.env_count, 3);
    assert_true(cay_str_is(world->info.env[0], "PATH=/opt/bin:/bin"));
    cay_arena_finish(&world->info.arena);
}

static void a_layout_becomes_a_base(void **state)
{
    struct world *world = *state;
    make_image(world);
    if (!import(world, world->image_fd, NULL))
        fail_msg("%s", world->err.text);
    assert_int_equal(world->info.format, CAY_BASE_FORMAT_OCI);
    check_image(world);
    struct cay_base_options other = {.platform = "linux/pdp11", .replaces = true};
    assert_true(import(world, world->image_fd, &other));
    int root = view(world);
    holds(root, "other", "of another platform");
    close(root);
    struct cay_base_options none = {.platform = "plan9/amd64", .replaces = true};
    assert_false(import(world, world->image_fd, &none));
    root = view(world);
    holds(root, "other", "of another platform"); /* the old one is still there */
    close(root);
    cay_arena_finish(&world->info.arena);
}

/* The layout as a tar archive, blobs first or last. */
static int pack_layout(struct world *world, bool is_backward, int filter)
{
    size_t count = 0;
    int fd = openat(world->image_fd, "blobs/sha256", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct cay_dir_list names = {};
    assert_return_code(cay_dir_list_read(&names, fd), 0);
    close(fd);
    int spool = memfd_create("tar", MFD_CLOEXEC);
    struct archive *archive = archive_write_new();
    archive_write_set_format_pax_restricted(archive);
    archive_write_add_filter(archive, filter);
    assert_int_equal(archive_write_open_fd(archive, spool), ARCHIVE_OK);
    char *paths[64];
    paths[count++] = cay_strdup("oci-layout");
    paths[count++] = cay_strdup("index.json");
    for (size_t i = 0; i < names.count; i++)
        paths[count++] = cay_asprintf("blobs/sha256/%s", cay_dir_list_name(&names, i));
    for (size_t i = 0; i < count; i++) {
        char *path = paths[is_backward ? count - 1 - i : i];
        int blob = openat(world->image_fd, path, O_RDONLY | O_CLOEXEC);
        size_t len = 0;
        char *data = read_fd(blob, &len);
        struct archive_entry *entry = archive_entry_new();
        char name[128];
        snprintf(name, sizeof(name), "./%s", path);
        archive_entry_set_pathname(entry, name);
        archive_entry_set_filetype(entry, AE_IFREG);
        archive_entry_set_perm(entry, 0644);
        archive_entry_set_size(entry, (la_int64_t)len);
        assert_int_equal(archive_write_header(archive, entry), ARCHIVE_OK);
        archive_write_data(archive, data, len);
        archive_entry_free(entry);
        free(data);
        close(blob);
    }
    assert_int_equal(archive_write_close(archive), ARCHIVE_OK);
    archive_write_free(archive);
    for (size_t i = 0; i < count; i++)
        free(paths[i]);
    cay_dir_list_finish(&names);
    lseek(spool, 0, SEEK_SET);
    return spool;
}

static void an_archive_of_a_layout_becomes_a_base(void **state)
{
    struct world *world = *state;
    make_image(world);
    for (int i = 0; i < 2; i++) {
        struct cay_base_options options = {.replaces = true};
        int fd = pack_layout(world, i, i ? ARCHIVE_FILTER_GZIP : ARCHIVE_FILTER_NONE);
        if (!import(world, fd, &options))
            fail_msg("%s", world->err.text);
        assert_int_equal(world->info.format, CAY_BASE_FORMAT_OCI);
        check_image(world);
        close(fd);
    }
}

static void hex_of(int fd, char out_hex[static CAY_SHA256_HEX_SIZE])
{
    struct cay_error err;
    assert_true(cay_image_hash(fd, out_hex, &err));
}

/* As `docker save` writes it: HEX.json and HEX/layer.tar, one of them a link to the other. */
static int docker_archive(bool is_wrong, bool is_packed)
{
    static const struct member layer[] = {{"one", AE_IFREG, "1"}, {"two", AE_IFREG, "2"}};
    static const struct member away[] = {{".wh.one", AE_IFREG, ""}, {"three", AE_IFREG, "3"}};
    int fds[2] = {pack(layer, 2, ARCHIVE_FILTER_NONE), pack(away, 2, ARCHIVE_FILTER_NONE)};
    char ids[2][CAY_SHA256_HEX_SIZE];
    hex_of(fds[0], ids[0]);
    hex_of(fds[1], ids[1]);
    if (is_wrong)
        ids[1][0] = ids[1][0] == 'a' ? 'b' : 'a';
    char *config = cay_asprintf("{\"architecture\": \"%s\", \"os\": \"linux\", %s, \"rootfs\": "
                                "{\"diff_ids\": [\"sha256:%s\", \"sha256:%s\"]}}",
                                cay_image_architecture(), settings, ids[0], ids[1]);
    struct cay_sha256 sha;
    char hex[CAY_SHA256_HEX_SIZE];
    cay_sha256_init(&sha);
    cay_sha256_add(&sha, config, strlen(config));
    cay_sha256_end(&sha, hex);
    char *config_name = cay_asprintf("%s.json", hex);
    char *manifest = cay_asprintf("[{\"Config\": \"%s\", \"RepoTags\": [\"me/app:1\"], \"Layers\": "
                                  "[\"%s/layer.tar\", \"%s/layer.tar\"]}]",
                                  config_name, ids[0], ids[1]);
    if (is_packed) {
        close(fds[1]);
        fds[1] = pack(away, 2, ARCHIVE_FILTER_GZIP);
    }
    /* A tar has NULs: the members' texts are written by hand. */
    int spool = memfd_create("tar", MFD_CLOEXEC);
    struct archive *archive = archive_write_new();
    archive_write_set_format_pax_restricted(archive);
    assert_int_equal(archive_write_open_fd(archive, spool), ARCHIVE_OK);
    char *names[] = {cay_asprintf("%s/layer.tar", ids[0]), cay_asprintf("%s/real.tar", ids[1]),
                     config_name, cay_strdup("manifest.json")};
    size_t lens[4];
    char *texts[] = {read_fd(fds[0], &lens[0]), read_fd(fds[1], &lens[1]), config, manifest};
    lens[2] = strlen(config);
    lens[3] = strlen(manifest);
    for (size_t i = 0; i < 4; i++) {
        struct archive_entry *entry = archive_entry_new();
        archive_entry_set_pathname(entry, names[i]);
        archive_entry_set_filetype(entry, AE_IFREG);
        archive_entry_set_perm(entry, 0644);
        archive_entry_set_size(entry, (la_int64_t)lens[i]);
        assert_int_equal(archive_write_header(archive, entry), ARCHIVE_OK);
        archive_write_data(archive, texts[i], lens[i]);
        archive_entry_free(entry);
    }
    struct archive_entry *link = archive_entry_new();
    char *link_name = cay_asprintf("%s/layer.tar", ids[1]);
    archive_entry_set_pathname(link, link_name);
    archive_entry_set_filetype(link, AE_IFLNK);
    char *target = cay_asprintf("../%s/real.tar", ids[1]);
    archive_entry_set_symlink(link, target);
    assert_int_equal(archive_write_header(archive, link), ARCHIVE_OK);
    archive_entry_free(link);
    free(link_name);
    free(target);
    for (size_t i = 0; i < 4; i++) {
        free(names[i]);
        free(texts[i]);
    }
    close(fds[0]);
    close(fds[1]);
    assert_int_equal(archive_write_close(archive), ARCHIVE_OK);
    archive_write_free(archive);
    lseek(spool, 0, SEEK_SET);
    return spool;
}

static void a_docker_archive_becomes_a_base(void **state)
{
    struct world *world = *state;
    for (int packed = 0; packed < 2; packed++) {
        struct cay_base_options options = {.replaces = true};
        int fd = docker_archive(false, packed);
        if (!import(world, fd, &options))
            fail_msg("%s", world->err.text);
        close(fd);
        assert_int_equal(world->info.format, CAY_BASE_FORMAT_DOCKER);
        assert_true(cay_str_is(world->info.source, "me/app:1"));
        int root = view(world);
        holds(root, "one", NULL);
        holds(root, "two", "2");
        holds(root, "three", "3");
        close(root);
    }
    assert_true(cay_store_base_remove(world->store, "it", &world->err));
    int fd = docker_archive(true, false);
    assert_false(import(world, fd, NULL));
    assert_int_equal(world->err.reason, CAY_R_INVALID_ARGUMENT);
    close(fd);
    nothing_is_left(world);
}

/* One bit of each file of the layout is turned in its turn. */
static void parts_without_their_digest_are_refused(void **state)
{
    struct world *world = *state;
    make_image(world);
    int fd = openat(world->image_fd, "blobs/sha256", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct cay_dir_list names = {};
    assert_return_code(cay_dir_list_read(&names, fd), 0);
    size_t refusals = 0;
    for (size_t i = 0; i < names.count; i++) {
        int blob = openat(fd, cay_dir_list_name(&names, i), O_RDWR | O_CLOEXEC);
        char byte = 0;
        struct stat st;
        assert_return_code(fstat(blob, &st), errno);
        assert_int_equal(pread(blob, &byte, 1, st.st_size / 2), 1);
        byte ^= 1;
        assert_int_equal(pwrite(blob, &byte, 1, st.st_size / 2), 1);
        struct cay_base_options options = {.replaces = true};
        if (!import(world, world->image_fd, &options)) {
            assert_int_equal(world->err.reason, CAY_R_INVALID_ARGUMENT);
            nothing_is_left(world);
            refusals++;
        } else {
            assert_true(cay_store_base_remove(world->store, "it", &world->err));
        }
        byte ^= 1;
        assert_int_equal(pwrite(blob, &byte, 1, st.st_size / 2), 1);
        close(blob);
    }
    /* Two layers, manifest, configuration; those of the other platform do not matter. */
    assert_int_equal(refusals, 4);
    cay_dir_list_finish(&names);
    close(fd);
    cay_arena_finish(&world->info.arena);
}

static void refuse_layer(struct world *world, const struct member *members, size_t count)
{
    char *layers[] = {add_layer(world, first_layer, CAY_COUNT(first_layer), ARCHIVE_FILTER_NONE),
                      add_layer(world, members, count, ARCHIVE_FILTER_NONE)};
    char *manifest = add_manifest(world, layers, 2, cay_image_architecture(), "");
    write_index(world, &manifest, 1);
    refused(world, NULL, CAY_R_INVALID_ARGUMENT);
    free(layers[0]);
    free(layers[1]);
    free(manifest);
}

static void layers_that_reach_outside_are_refused(void **state)
{
    struct world *world = *state;
    static const struct member evil[] = {
        {"etc/.wh...", AE_IFREG, ""},       {"etc/.wh..", AE_IFREG, ""},
        {"etc/.wh.", AE_IFREG, ""},         {"../../outside", AE_IFREG, "evil"},
        {"../.wh.outside", AE_IFREG, ""},   {"a/../../.wh..wh..opq", AE_IFREG, ""},
        {"hard", 0, "../../../../outside"},
    };
    for (size_t i = 0; i < CAY_COUNT(evil); i++)
        refuse_layer(world, &evil[i], 1);
}

static void a_link_in_a_layer_leads_nowhere_else(void **state)
{
    struct world *world = *state;
    char target[96];
    snprintf(target, sizeof(target), "%s", world->directory);
    const struct member bottom[] = {{"up", AE_IFLNK, "../../../../../../.."},
                                    {"abs", AE_IFLNK, target}};
    static const struct member top[] = {{"up/.wh.etc", AE_IFREG, ""},
                                        {"abs/.wh.outside", AE_IFREG, ""}};
    char *layers[] = {add_layer(world, bottom, 2, ARCHIVE_FILTER_NONE),
                      add_layer(world, top, 2, ARCHIVE_FILTER_NONE)};
    char *manifest = add_manifest(world, layers, 2, cay_image_architecture(), "");
    write_index(world, &manifest, 1);
    if (!import(world, world->image_fd, NULL))
        fail_msg("%s", world->err.text);
    cay_arena_finish(&world->info.arena);
    free(layers[0]);
    free(layers[1]);
    free(manifest);
}

static void images_that_are_none_are_refused(void **state)
{
    struct world *world = *state;
    static const char *const indexes[] = {
        "",
        "{}",
        "[]",
        "{\"manifests\": []}",
        "{\"manifests\": [{}]}",
        "{\"manifests\": [{\"digest\": \"sha256:0\"}]}",
        "{\"manifests\": [{\"digest\": \"sha512:00\"}]}",
        "{\"manifests\": [{\"digest\": \"sha256:../../../../../../etc/passwd\"}]}",
        "{\"manifests\": [{\"digest\": "
        "\"sha256:0000000000000000000000000000000000000000000000000000000000000000\"}]}",
        "{\"manifests\": {\"digest\": 1}}",
        "{\"manifests\": [{\"size\": -1}]}",
    };
    for (size_t i = 0; i < CAY_COUNT(indexes); i++) {
        write_bytes(world->image_fd, "index.json", indexes[i], strlen(indexes[i]));
        refused(world, NULL, CAY_R_INVALID_ARGUMENT);
    }
    /* Two images, and nobody says which. */
    const struct member one[] = {{"one", AE_IFREG, "1"}};
    const struct member two[] = {{"two", AE_IFREG, "2"}};
    char *layers[] = {add_layer(world, one, 1, ARCHIVE_FILTER_NONE),
                      add_layer(world, two, 1, ARCHIVE_FILTER_NONE)};
    char *manifests[] = {add_manifest(world, &layers[0], 1, cay_image_architecture(), ""),
                         add_manifest(world, &layers[1], 1, cay_image_architecture(), "")};
    write_index(world, manifests, 2);
    refused(world, NULL, CAY_R_INVALID_ARGUMENT);
    write_index(world, manifests, 1);
    struct cay_base_options foreign = {.platform = "linux/pdp11"};
    refused(world, &foreign, CAY_R_INVALID_ARGUMENT);
    for (size_t i = 0; i < 2; i++) {
        free(layers[i]);
        free(manifests[i]);
    }
}

static void images_are_bounded(void **state)
{
    struct world *world = *state;
    char *zeros = cay_alloc((1 << 20) + 1);
    memset(zeros, 'z', 1 << 20);
    const struct member large[] = {{"a", AE_IFREG, zeros}, {"b", AE_IFREG, zeros}};
    char *layers[] = {add_layer(world, large, 2, ARCHIVE_FILTER_GZIP),
                      add_layer(world, large, 2, ARCHIVE_FILTER_GZIP)};
    char *manifest = add_manifest(world, layers, 2, cay_image_architecture(), "");
    write_index(world, &manifest, 1);
    struct cay_base_options bytes = {.bytes_max = 3 << 20};
    refused(world, &bytes, CAY_R_RESOURCE_EXHAUSTED);
    struct cay_base_options entries = {.entries_max = 3};
    refused(world, &entries, CAY_R_RESOURCE_EXHAUSTED);
    /* The archive around it is bounded, too. */
    int fd = pack_layout(world, false, ARCHIVE_FILTER_NONE);
    struct cay_base_options tiny = {.bytes_max = 100};
    assert_false(import(world, fd, &tiny));
    assert_int_equal(world->err.reason, CAY_R_RESOURCE_EXHAUSTED);
    nothing_is_left(world);
    close(fd);
    /* Cut anywhere, it is refused. */
    fd = pack_layout(world, true, ARCHIVE_FILTER_NONE);
    struct stat st;
    assert_return_code(fstat(fd, &st), errno);
    for (off_t at = st.st_size - 11 * 1024; at > 0; at -= 1024) {
        assert_return_code(ftruncate(fd, at), errno);
        lseek(fd, 0, SEEK_SET);
        assert_false(import(world, fd, NULL));
        assert_int_equal(world->err.reason, CAY_R_INVALID_ARGUMENT);
    }
    close(fd);
    nothing_is_left(world);
    free(zeros);
    free(layers[0]);
    free(layers[1]);
    free(manifest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_layout_becomes_a_base, setup, teardown),
        cmocka_unit_test_setup_teardown(an_archive_of_a_layout_becomes_a_base, setup, teardown),
        cmocka_unit_test_setup_teardown(a_docker_archive_becomes_a_base, setup, teardown),
        cmocka_unit_test_setup_teardown(parts_without_their_digest_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(layers_that_reach_outside_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_link_in_a_layer_leads_nowhere_else, setup, teardown),
        cmocka_unit_test_setup_teardown(images_that_are_none_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(images_are_bounded, setup, teardown),
    };
    if (geteuid() != 0) {
        print_message("skipped: the overlay store needs root\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
