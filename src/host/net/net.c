/* SPDX-License-Identifier: Apache-2.0 */
#include "host/net/net.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { DESCRIPTOR_SHARE = 8 }; /* two per connection: a quarter of what the daemon may have */

bool cay_net_is_address(const char *text)
{
    struct in6_addr address;
    return inet_pton(AF_INET, text, &address) == 1 || inet_pton(AF_INET6, text, &address) == 1;
}

void cay_net_join(char *out, size_t size, const char *host, uint16_t port)
{
    snprintf(out, size, strchr(host, ':') && host[0] != '[' ? "[%s]:%u" : "%s:%u", host, port);
}

bool cay_net_init(struct cay_net *net, struct cay_loop *loop, const char *bind_address,
                  const char *advertised, struct cay_error *err)
{
    struct rlimit limit = {};
    if (!cay_net_is_address(bind_address))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "port_bind '%s' is not an address; write it as numbers, e.g. 127.0.0.1",
                        bind_address);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    *net = (struct cay_net){
        .loop = loop,
        .bind_address = cay_strdup(bind_address),
        .advertised = advertised && *advertised ? cay_strdup(advertised) : NULL,
        .connection_count_max =
            (size_t)CAY_MIN(limit.rlim_cur / DESCRIPTOR_SHARE, (rlim_t)CAY_NET_CONNECTIONS),
    };
    return true;
}

bool cay_net_has_room(const struct cay_net *net, size_t own_count)
{
    size_t most = net->connection_count_max;
    return own_count < most - CAY_MIN(most, net->connection_count);
}

void cay_net_set_domain(struct cay_net *net, const char *domain, bool is_https)
{
    net->domain = domain && *domain ? cay_strdup(domain) : NULL;
    net->is_domain_https = is_https;
}

void cay_net_finish(struct cay_net *net)
{
    free(cay_take_ptr(net->domain));
    free(cay_take_ptr(net->bind_address));
    free(cay_take_ptr(net->advertised));
}
