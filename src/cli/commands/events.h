/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The stream of events, for the commands that show some of it. */

#include "api/cay_v1.h"
#include "cli/command.h"

/* Called with every frame. */
typedef bool cay_events_fn(void *context, const struct cay_v1_watch_events_response *frame,
                           struct cay_error *err);

/* Until it ends; one that is cut goes on behind what was shown. Changes the request's cursor. */
[[nodiscard]] bool cay_events_watch(struct cay_cli *cli,
                                    struct cay_v1_watch_events_request *request,
                                    cay_events_fn *show, void *context, struct cay_error *err);

/* 13:37:02, where we are; empty when nothing says when. */
enum { CAY_EVENTS_TIME_BYTES = 32 };
void cay_events_time(const struct google_protobuf_timestamp *time, char out[CAY_EVENTS_TIME_BYTES]);

/* What became of a connection, without an end of line. */
void cay_events_print_receipt(struct cay_output *out, const struct cay_v1_network_receipt *receipt);
