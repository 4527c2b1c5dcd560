/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Measuring what sessions have on disk, on workers, for their limits (quota.h) and for telling.
 *
 * When: a session that has a limit is looked at as long as something runs or was written, as often
 * as it takes to fill what is left at 1 GiB per second, between 250 ms and 2 s; never for more than
 * a fifth of the time. It may be exceeded by what is written in that time. What the daemon itself
 * writes is counted as it comes. Sessions without limits are measured now and then, for telling.
 */

struct cay_host;

void cay_measure_start(struct cay_host *host);
void cay_measure_stop(struct cay_host *host);
