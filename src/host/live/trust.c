/* SPDX-License-Identifier: Apache-2.0 */
#include "host/live/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "host/authority/authority.h"
#include "host/session/host.h"
#include "tool/tree/tree.h"

/* One of the base's may be this large: some 200 kB are usual. */
enum { BUNDLE_BYTES_MAX = 4 << 20 };

/* /dev is a file system of the sandbox's own, which goes with it over every change of its tree. A
 * kernel of its own has its own /dev, which we do not see. */
static const char in_dev[] = "/dev/cay-certificates.pem";
static const char in_tree[] = "/run/cay-certificates.pem";

static bool has_requests(struct cay_pb_strs rules)
{
    for (size_t i = 0; i < rules.count; i++) {
        if (memmem(rules.items[i].ptr, rules.items[i].len, "://", 3))
            return true;
    }
    return false;
}

/* Sets of the configuration may have some: whoever names any set trusts this host then. */
static bool has_sets(const struct cay_host *host, struct cay_pb_strs rules)
{
    bool is_there = false;
    for (size_t i = 0; i < rules.count && !is_there; i++)
        is_there = cay_str_starts(rules.items[i], "@");
    for (size_t i = 0; is_there && i < host->settings->network_sets.count; i++) {
        if (strstr(host->settings->network_sets.items[i], "://"))
            return true;
    }
    return false;
}

bool cay_trust_is_needed(const struct cay_host *host, const struct cay_v1_session *spec)
{
    const struct cay_v1_network_policy *policy = spec->network;
    if (!policy || policy->mode != CAY_V1_NETWORK_MODE_FILTERED)
        return false;
    return spec->secrets.count || has_requests(policy->allow) || has_requests(policy->deny) ||
           has_sets(host, policy->allow) || has_sets(host, policy->deny);
}

static bool sees_dev(const struct cay_runtime *runtime)
{
    return !cay_runtime_can(runtime, CAY_RUNTIME_OWN_KERNEL);
}

size_t cay_trust_env(const struct cay_session *session,
                     struct cay_pb_pair out_env[static CAY_TRUST_VARIABLES_MAX])
{
    static const char *const names[CAY_TRUST_VARIABLES_MAX] = {
        "SSL_CERT_FILE",      "CURL_CA_BUNDLE",      "GIT_SSL_CAINFO",
        "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
    };
    const char *path = sees_dev(session->runtime) ? in_dev : in_tree;
    for (size_t i = 0; i < CAY_TRUST_VARIABLES_MAX; i++)
        out_env[i] = (struct cay_pb_pair){.key = cay_str(names[i]), .value = cay_str(path)};
    return CAY_TRUST_VARIABLES_MAX;
}

/* What the tree's own programs trust; nothing where it has none. */
static void append_own(const struct cay_tool_tree *tree, struct cay_buf *out)
{
    static const char *const places[] = {"/etc/ssl/certs/ca-certificates.crt",
                                         "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"};
    for (size_t i = 0; i < CAY_COUNT(places) && !out->len; i++) {
        struct stat info;
        cay_autoclose int fd = cay_tree_open(tree, places[i], O_RDONLY);
        if (fd < 0 || fstat(fd, &info) < 0 || !S_ISREG(info.st_mode) || info.st_size <= 0 ||
            info.st_size > BUNDLE_BYTES_MAX)
            continue;
        char *room = cay_buf_reserve(out, (size_t)info.st_size);
        ssize_t len = room ? pread(fd, room, (size_t)info.st_size, 0) : 0;
        if (len > 0)
            cay_buf_grew(out, (size_t)len);
    }
    if (out->len && out->data[out->len - 1] != '\n')
        cay_buf_append_byte(out, '\n');
}

static int write_all(int fd, struct cay_str text)
{
    while (text.len) {
        ssize_t len = write(fd, text.ptr, text.len);
        if (len < 0)
            return -errno;
        text.ptr += len;
        text.len -= (size_t)len;
    }
    return fchmod(fd, 0444) < 0 ? -errno : 0;
}

/* In place of one that is there: whoever reads that one has it whole. */
static int write_file(const struct cay_tool_tree *tree, const char *path, struct cay_str text)
{
    static const char part[] = ".cay-certificates";
    char name[CAY_TREE_NAME_BYTES];
    bool has_slash = false;
    cay_autoclose int dir_fd = cay_tree_parent(tree, path, true, name, &has_slash);
    if (dir_fd < 0)
        return dir_fd;
    (void)unlinkat(dir_fd, part, 0);
    cay_autoclose int fd =
        openat(dir_fd, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int status = write_all(fd, text);
    if (status == 0 && renameat(dir_fd, part, dir_fd, name) < 0)
        status = -errno;
    if (status < 0)
        (void)unlinkat(dir_fd, part, 0);
    return status;
}

void cay_trust_write(struct cay_host *host, const struct cay_runtime *runtime,
                     const struct cay_sandbox *sandbox, int root_fd, uint32_t id_base)
{
    bool is_dev = sees_dev(runtime);
    int living_fd = is_dev && sandbox ? cay_sandbox_root(sandbox) : -1;
    /* As the sandbox's root: whatever is in the way there is in nobody else's. */
    const struct cay_tool_tree tree = {.root_fd = living_fd >= 0 ? living_fd : root_fd,
                                       .has_mounts = living_fd >= 0,
                                       .id_base = id_base,
                                       .cwd = CAY_STR("/")};
    struct cay_str certificate =
        host->authority ? cay_authority_certificate(host->authority) : (struct cay_str){};
    cay_auto(cay_tree_leave) struct cay_tree_visit visit = {};
    cay_auto(cay_buf_finish) struct cay_buf text;
    struct cay_error err = {};
    const char *path = is_dev ? in_dev : in_tree;
    cay_buf_init(&text, BUNDLE_BYTES_MAX + CAY_AUTHORITY_LEAF_BYTES_MAX);
    if (!cay_tree_enter(&tree, &visit, &err)) {
        cay_log(CAY_WARN, "network.trust_failed", CAY_ERR(&err));
        return;
    }
    append_own(&tree, &text);
    cay_buf_append_str(&text, certificate);
    int status =
        certificate.len && !text.failed ? write_file(&tree, path, cay_buf_str(&text)) : -EIO;
    if (status < 0) {
        cay_fail_errno(&err, CAY_R_INTERNAL, status, "write '%s' in the sandbox", path);
        cay_log(CAY_WARN, "network.trust_failed", CAY_ERR(&err));
    }
}
