/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "egress/confine.h"
#include "egress/egress.h"

/* cay-egress UID TRUST: started by cayd, which has the other end of descriptor 3. TRUST is a file
 * of those who vouch for servers, for the image that looks into TLS (intercept.c). */

enum { CONTROL_FD = 3, USAGE = 64, UNCONFINED = 71 };

int main(int argc, char **argv)
{
    static struct egress egress;
    uint64_t uid = 0;
    struct egress_interception *interception = NULL;
    if (argc != 3 || cay_str_to_u64(cay_str(argv[1]), UINT32_MAX - 1, &uid) < 0 || !uid)
        return USAGE;
    /* The daemon had them all blocked when it made us. */
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)prctl(PR_SET_NAME, "cay-egress");
    if (egress_interception_open(argv[2], &interception) < 0)
        return EXIT_FAILURE;
    if (egress_confine((uint32_t)uid) < 0)
        return UNCONFINED;
    if (egress_init(&egress, CONTROL_FD) < 0)
        return EXIT_FAILURE;
    egress.interception = interception;
    while (egress_turn(&egress, -1))
        ;
    egress_finish(&egress);
    return EXIT_SUCCESS;
}
