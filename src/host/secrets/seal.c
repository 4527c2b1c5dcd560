/* SPDX-License-Identifier: Apache-2.0 */
#include "host/secrets/seal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"

enum {
    VERSION = 1,
    NONCE_BYTES = 12,
    TAG_BYTES = 16,
    HEAD_BYTES = 1 + NONCE_BYTES,
    VALUE_BYTES_MAX = 1 << 20, /* far more than anybody may keep */
};

static_assert(CAY_SEAL_EXTRA_BYTES == HEAD_BYTES + TAG_BYTES);

/* --- the key --- */

static bool is_private(const struct stat *info)
{
    return S_ISREG(info->st_mode) && !(info->st_mode & 077) &&
           (info->st_uid == geteuid() || info->st_uid == 0);
}

static int read_key(struct cay_seal *seal)
{
    struct stat info;
    cay_autoclose int fd =
        openat(seal->dir_fd, seal->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &info) < 0)
        return -errno;
    if (!is_private(&info))
        return -EPERM;
    if (info.st_size != CAY_SEAL_KEY_BYTES)
        return -EBADMSG;
    ssize_t len = read(fd, seal->key, sizeof(seal->key));
    return len == CAY_SEAL_KEY_BYTES ? 0 : (len < 0 ? -errno : -EBADMSG);
}

bool cay_seal_open(struct cay_seal *seal, int dir_fd, const char *path, struct cay_error *err)
{
    *seal = (struct cay_seal){
        .path = cay_strdup(path && *path ? path : "secrets.key"),
        .dir_fd = dir_fd,
    };
    int status = read_key(seal);
    seal->has_key = status == 0;
    if (seal->has_key || status == -ENOENT)
        return true;
    cay_wipe(seal->key, sizeof(seal->key));
    cay_fail_errno(err, status == -EBADMSG ? CAY_R_DATA_LOSS : CAY_R_FAILED_PRECONDITION, status,
                   "the key of secrets '%s' must be a file of %d bytes that nobody but the "
                   "daemon's user can read (mode 0600)",
                   seal->path, CAY_SEAL_KEY_BYTES);
    cay_seal_finish(seal);
    return false;
}

void cay_seal_finish(struct cay_seal *seal)
{
    cay_wipe(seal->key, sizeof(seal->key));
    seal->has_key = false;
    free(cay_take_ptr(seal->path));
}

static int sync_dir(const struct cay_seal *seal)
{
    cay_autofree char *dir = cay_strdup(seal->path);
    char *slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir] = '\0'; /* what stands before it, or the root */
    cay_autoclose int fd =
        openat(seal->dir_fd, slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

/* Under its name only when it is whole. */
static int write_key(const struct cay_seal *seal)
{
    cay_autofree char *new_path = cay_asprintf("%s.new", seal->path);
    (void)unlinkat(seal->dir_fd, new_path, 0); /* of a daemon that died */
    cay_autoclose int fd =
        openat(seal->dir_fd, new_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    ssize_t len = write(fd, seal->key, sizeof(seal->key));
    if (len != (ssize_t)sizeof(seal->key))
        return len < 0 ? -errno : -EIO;
    if (fsync(fd) < 0 || renameat(seal->dir_fd, new_path, seal->dir_fd, seal->path) < 0)
        return -errno;
    return sync_dir(seal);
}

bool cay_seal_need(struct cay_seal *seal, struct cay_error *err)
{
    if (seal->has_key)
        return true;
    cay_random_bytes(seal->key, sizeof(seal->key));
    int status = write_key(seal);
    seal->has_key = status == 0;
    if (seal->has_key)
        return true;
    cay_wipe(seal->key, sizeof(seal->key));
    return cay_fail_errno(err, CAY_R_INTERNAL, status, "write the key of secrets '%s'", seal->path);
}

/* --- what is sealed --- */

static bool encrypt(const struct cay_seal *seal, EVP_CIPHER_CTX *context, struct cay_str about,
                    struct cay_str value, unsigned char *out)
{
    int len = 0;
    out[0] = VERSION;
    cay_random_bytes(out + 1, NONCE_BYTES);
    return EVP_EncryptInit_ex(context, EVP_aes_256_gcm(), NULL, seal->key, out + 1) == 1 &&
           EVP_EncryptUpdate(context, NULL, &len, out, 1) == 1 &&
           EVP_EncryptUpdate(context, NULL, &len, (const unsigned char *)about.ptr,
                             (int)about.len) == 1 &&
           EVP_EncryptUpdate(context, out + HEAD_BYTES, &len, (const unsigned char *)value.ptr,
                             (int)value.len) == 1 &&
           EVP_EncryptFinal_ex(context, out + HEAD_BYTES + len, &len) == 1 &&
           EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, TAG_BYTES,
                               out + HEAD_BYTES + value.len) == 1;
}

bool cay_seal_wrap(const struct cay_seal *seal, struct cay_str about, struct cay_str value,
                   struct cay_buf *out, struct cay_error *err)
{
    assert(seal->has_key && value.len <= VALUE_BYTES_MAX && about.len);
    size_t len = value.len + CAY_SEAL_EXTRA_BYTES;
    char *place = cay_buf_reserve(out, len);
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    bool is_sealed =
        place && context && encrypt(seal, context, about, value, (unsigned char *)place);
    EVP_CIPHER_CTX_free(context);
    if (!is_sealed)
        return cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
    cay_buf_grew(out, len);
    return true;
}

static bool decrypt(const struct cay_seal *seal, EVP_CIPHER_CTX *context, struct cay_str about,
                    struct cay_str sealed, unsigned char *out)
{
    const unsigned char *in = (const unsigned char *)sealed.ptr;
    int value_len = (int)(sealed.len - CAY_SEAL_EXTRA_BYTES);
    unsigned char tag[TAG_BYTES];
    int len = 0;
    memcpy(tag, in + HEAD_BYTES + value_len, TAG_BYTES);
    return EVP_DecryptInit_ex(context, EVP_aes_256_gcm(), NULL, seal->key, in + 1) == 1 &&
           EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, TAG_BYTES, tag) == 1 &&
           EVP_DecryptUpdate(context, NULL, &len, in, 1) == 1 &&
           EVP_DecryptUpdate(context, NULL, &len, (const unsigned char *)about.ptr,
                             (int)about.len) == 1 &&
           EVP_DecryptUpdate(context, out, &len, in + HEAD_BYTES, value_len) == 1 &&
           EVP_DecryptFinal_ex(context, out + len, &len) == 1;
}

bool cay_seal_unwrap(const struct cay_seal *seal, struct cay_str about, struct cay_str sealed,
                     struct cay_secret *out_value, struct cay_error *err)
{
    if (!seal->has_key)
        return cay_fail(err, CAY_R_DATA_LOSS, "the key '%s' is not there", seal->path);
    if (sealed.len < CAY_SEAL_EXTRA_BYTES || sealed.len > CAY_SEAL_EXTRA_BYTES + VALUE_BYTES_MAX ||
        sealed.ptr[0] != VERSION)
        return cay_fail(err, CAY_R_DATA_LOSS, "the record is damaged");
    size_t len = sealed.len - CAY_SEAL_EXTRA_BYTES;
    unsigned char *value = cay_alloc(len + 1);
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    bool is_open = context && decrypt(seal, context, about, sealed, value);
    EVP_CIPHER_CTX_free(context);
    if (is_open)
        cay_secret_set(out_value, (struct cay_str){(const char *)value, len});
    cay_wipe(value, len + 1); /* also what does not have the right tag */
    free(value);
    return is_open ||
           cay_fail(err, CAY_R_DATA_LOSS, "it was not sealed with the key '%s'", seal->path);
}
