/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The RPC door: Connect, gRPC and gRPC-Web calls become cay_calls on a service, and their answers
 * become bytes again. What is no method of the service is answered with an error.
 */

#include "front/http/door.h"

extern const struct cay_door cay_connect_door;
