/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tells the service manager how the daemon is doing, in systemd's notification protocol: "READY=1",
 * "STOPPING=1". Does nothing when nobody asked to be told (no NOTIFY_SOCKET), and a message that
 * cannot be delivered is dropped: the manager notices a daemon that never gets ready by itself.
 */

void cayd_notify(const char *state);

/* The daemon is about to be replaced; it says READY=1 when it has been. */
void cayd_notify_reloading(void);
