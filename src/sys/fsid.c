/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/fsid.h"

#include <errno.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A change of the fsuid from 0 drops the file-system capabilities from the effective set; they are
 * put back (capabilities(7), "Effect of user ID changes on capabilities"). */
int cay_fsid_enter(struct cay_fsid *fsid, uint32_t id)
{
    fsid->header = (struct __user_cap_header_struct){_LINUX_CAPABILITY_VERSION_3, 0};
    if (syscall(SYS_capget, &fsid->header, fsid->caps) < 0)
        return -errno;
    setfsgid(id);
    setfsuid(id);
    if (syscall(SYS_capset, &fsid->header, fsid->caps) == 0)
        return 0;
    int rc = -errno;
    cay_fsid_leave(fsid);
    return rc;
}

void cay_fsid_leave(struct cay_fsid *fsid)
{
    setfsuid(0);
    setfsgid(0);
    (void)syscall(SYS_capset, &fsid->header, fsid->caps);
}
