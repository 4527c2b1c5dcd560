/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Init's side of the protocol on a blocking socket, until the other side closes it. */
void cay_fake_serve(int fd);
