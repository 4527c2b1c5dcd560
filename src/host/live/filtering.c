/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "host/authority/authority.h"
#include "host/live/filtered_internal.h"

static int make_dir(int dir_fd, const char *name)
{
    if (mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST)
        return -errno;
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static bool open_parts(struct cay_filtering *filtering, struct cay_host *host,
                       const char *egress_path, const char *run_dir, struct cay_error *err)
{
    if (!egress_path)
        return cay_fail(err, CAY_R_NOT_SUPPORTED, "network filtered: there is no cay-egress");
    filtering->image_fd = open(egress_path, O_RDONLY | O_CLOEXEC);
    if (filtering->image_fd < 0)
        return cay_fail_errno(err, CAY_R_NOT_SUPPORTED, -errno, "network filtered: %s",
                              egress_path);
    cay_autofree char *tls_path = cay_asprintf("%s-tls", egress_path);
    filtering->tls_image_fd = open(tls_path, O_RDONLY | O_CLOEXEC);
    cay_autoclose int run_fd = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    filtering->doors_fd = run_fd < 0 ? -errno : make_dir(run_fd, "egress");
    filtering->names_fd = make_dir(host->data_fd, "egress");
    int status = CAY_MIN(filtering->doors_fd, filtering->names_fd);
    return status >= 0 ||
           cay_fail_errno(err, CAY_R_NOT_SUPPORTED, status, "network filtered: its directories");
}

static void open_authority(struct cay_host *host)
{
    struct cay_error err = {};
    int status = cay_authority_open(host->data_fd, &host->authority);
    if (status == 0)
        return;
    cay_fail_errno(&err, CAY_R_INTERNAL, status,
                   "authority.pem in the data directory; when it is "
                   "removed, a new one is made at the next start");
    cay_log(CAY_ERROR, "network.authority_failed", CAY_ERR(&err));
}

struct cay_filtering *cay_filtering_create(struct cay_host *host, const char *egress_path,
                                           const char *run_dir)
{
    struct cay_filtering *filtering = cay_new(struct cay_filtering);
    *filtering =
        (struct cay_filtering){.image_fd = -1, .tls_image_fd = -1, .doors_fd = -1, .names_fd = -1};
    pthread_mutex_init(&filtering->lock, NULL);
    open_authority(host);
    filtering->can = cay_gateway_check(&filtering->why) &&
                     cay_filter_check((enum cay_filter_way)host->settings->network_steering,
                                      &filtering->way, &filtering->why) &&
                     open_parts(filtering, host, egress_path, run_dir, &filtering->why);
    return filtering;
}

void cay_filtering_destroy(struct cay_filtering *filtering)
{
    if (!filtering)
        return;
    for (size_t i = 0; i < filtering->waiting_count; i++)
        cay_filter_close(&filtering->waiting[i].filter);
    free(filtering->waiting);
    cay_cleanup_close(&filtering->image_fd);
    cay_cleanup_close(&filtering->tls_image_fd);
    cay_cleanup_close(&filtering->doors_fd);
    cay_cleanup_close(&filtering->names_fd);
    pthread_mutex_destroy(&filtering->lock);
    free(filtering);
}

bool cay_filtering_check(const struct cay_filtering *filtering, struct cay_error *err)
{
    if (!filtering->can)
        *err = filtering->why;
    return filtering->can;
}

bool cay_filtering_can_intercept(const struct cay_filtering *filtering, struct cay_error *err)
{
    return filtering->tls_image_fd >= 0 ||
           cay_fail(err, CAY_R_NOT_SUPPORTED,
                    "network: nothing on this host looks into TLS; install cay-egress-tls beside "
                    "cay-egress and start cayd again");
}

bool cay_filtering_attach_gateway(struct cay_host *host, int netns_fd, uint32_t slot,
                                  struct cay_error *err)
{
    struct cay_gateway_notes notes;
    if (!cay_gateway_attach(&host->gateway, netns_fd, slot, &notes, err))
        return false;
    if (notes.is_forwarding_set || notes.is_forwarding6_set)
        cay_log(CAY_WARN, "network.forwarding_enabled",
                CAY_S("families", notes.is_forwarding_set && notes.is_forwarding6_set
                                      ? "ipv4 ipv6"
                                      : (notes.is_forwarding_set ? "ipv4" : "ipv6")),
                CAY_S("why", "a session has a way out; this host passes packets on now"));
    return true;
}

bool cay_filtering_take(struct cay_filtering *filtering, uint32_t slot,
                        struct cay_filter *out_filter)
{
    bool is_there = false;
    pthread_mutex_lock(&filtering->lock);
    for (size_t i = 0; i < filtering->waiting_count && !is_there; i++) {
        if (filtering->waiting[i].slot != slot)
            continue;
        *out_filter = filtering->waiting[i].filter;
        filtering->waiting[i] = filtering->waiting[--filtering->waiting_count];
        is_there = true;
    }
    pthread_mutex_unlock(&filtering->lock);
    return is_there;
}

bool cay_filtering_has(struct cay_filtering *filtering, uint32_t slot)
{
    bool is_there = false;
    pthread_mutex_lock(&filtering->lock);
    for (size_t i = 0; i < filtering->waiting_count && !is_there; i++)
        is_there = filtering->waiting[i].slot == slot;
    pthread_mutex_unlock(&filtering->lock);
    return is_there;
}

bool cay_filtering_attach(struct cay_host *host, int netns_fd, uint32_t slot, struct cay_error *err)
{
    struct cay_filtering *filtering = host->filtering;
    struct cay_waiting_filter one = {.slot = slot, .filter = CAY_FILTER_CLOSED};
    struct cay_filter old = CAY_FILTER_CLOSED;
    if (!cay_filtering_check(filtering, err) ||
        !cay_filter_open(netns_fd, filtering->way, &one.filter, err))
        return false;
    if (cay_filtering_take(filtering, slot, &old))
        cay_filter_close(&old);
    pthread_mutex_lock(&filtering->lock);
    filtering->waiting = cay_realloc_array(filtering->waiting, filtering->waiting_count + 1,
                                           sizeof(*filtering->waiting));
    filtering->waiting[filtering->waiting_count++] = one;
    pthread_mutex_unlock(&filtering->lock);
    return true;
}

bool cay_filtering_detach(struct cay_host *host, int netns_fd, uint32_t slot, struct cay_error *err)
{
    struct cay_filter filter = CAY_FILTER_CLOSED;
    if (cay_filtering_take(host->filtering, slot, &filter))
        cay_filter_close(&filter);
    return (netns_fd < 0 || cay_filter_remove(netns_fd, err)) &&
           cay_gateway_detach(&host->gateway, slot, err);
}

/* --- names --- */

int cay_filtering_open_names(const struct cay_filtering *filtering, const char *store_id)
{
    int fd = openat(filtering->names_fd, store_id, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : fd;
}

/* Without the totals: those are of the session. */
void cay_filtering_copy_names(struct cay_host *host, const char *from_id, const char *to_id)
{
    const struct cay_filtering *filtering = host->filtering;
    enum {
        MOST = CAY_EGRESS_NAMES_AT + CAY_EGRESS_NAMES_MAX * CAY_EGRESS_NAME_SLOT_BYTES,
        PIECE = 1 << 16
    };
    if (filtering->names_fd < 0)
        return;
    cay_autoclose int from =
        openat(filtering->names_fd, from_id, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    cay_autoclose int to = from < 0 ? -1 : cay_filtering_open_names(filtering, to_id);
    cay_autofree char *piece = cay_alloc(PIECE);
    off_t at = CAY_EGRESS_NAMES_AT;
    while (to >= 0 && at < MOST) {
        ssize_t len = pread(from, piece, PIECE, at);
        if (len <= 0 || pwrite(to, piece, (size_t)len, at) != len)
            return; /* programs in the fork ask for names again */
        at += len;
    }
}

void cay_filtering_remove_names(struct cay_host *host, const char *store_id)
{
    if (host->filtering->names_fd >= 0)
        (void)unlinkat(host->filtering->names_fd, store_id, 0);
}

/* --- what is left of others --- */

struct sweep {
    struct cay_filtering *filtering;
    cay_filtering_wanted_fn *wanted;
    void *context;
};

static bool sweep_one(void *context, uint32_t slot)
{
    const struct sweep *sweep = context;
    struct cay_helper helper = CAY_HELPER_NONE;
    if (sweep->wanted(sweep->context, slot))
        return true;
    if (cay_helper_find(sweep->filtering->doors_fd, slot, &helper) == 0) {
        cay_helper_kill(&helper);
    }
    cay_helper_remove_door(sweep->filtering->doors_fd, slot);
    return true;
}

void cay_filtering_sweep(struct cay_host *host, cay_filtering_wanted_fn *wanted, void *context)
{
    struct sweep sweep = {.filtering = host->filtering, .wanted = wanted, .context = context};
    if (host->filtering->doors_fd >= 0)
        cay_helper_list(host->filtering->doors_fd, sweep_one, &sweep);
}
