/* SPDX-License-Identifier: Apache-2.0 */
#include "host/net/dns_servers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DNS_PORT = 53, FILE_BYTES_MAX = 16 * 1024, ADDRESS_BYTES = 96 };

static bool parse_address(struct cay_str text, struct cay_dns_server *out_server)
{
    char address[ADDRESS_BYTES];
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(DNS_PORT)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(DNS_PORT)};
    if (text.len >= sizeof(address))
        return false;
    memcpy(address, text.ptr, text.len);
    address[text.len] = '\0';
    if (inet_pton(AF_INET, address, &four.sin_addr) == 1) {
        memcpy(&out_server->address, &four, sizeof(four));
        out_server->len = sizeof(four);
        return true;
    }
    char *scope = strchr(address, '%');
    if (scope) {
        *scope = '\0';
        six.sin6_scope_id = if_nametoindex(scope + 1);
    }
    if (inet_pton(AF_INET6, address, &six.sin6_addr) != 1)
        return false;
    out_server->address = six;
    out_server->len = sizeof(six);
    return true;
}

static struct cay_str next_word(struct cay_str *line)
{
    *line = cay_str_trim(*line);
    size_t len = 0;
    while (len < line->len && line->ptr[len] != ' ' && line->ptr[len] != '\t')
        len++;
    struct cay_str word = {line->ptr, len};
    line->ptr += len;
    line->len -= len;
    return word;
}

static void parse(struct cay_dns_servers *servers, struct cay_str text)
{
    struct cay_str line;
    servers->count = 0;
    while (servers->count < CAY_DNS_SERVERS_MAX && cay_str_split(&text, '\n', &line)) {
        if (line.len && cay_str_is(next_word(&line), "nameserver") &&
            parse_address(next_word(&line), &servers->list[servers->count]))
            servers->count++;
    }
    if (!servers->count) /* what resolvers do then */
        servers->count = parse_address(CAY_STR("127.0.0.1"), &servers->list[0]);
}

void cay_dns_servers_refresh(struct cay_dns_servers *servers, const char *path)
{
    struct stat info = {};
    char text[FILE_BYTES_MAX];
    bool exists = stat(path, &info) == 0;
    int64_t changed_ns = (int64_t)info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
    if (servers->count && changed_ns == servers->changed_ns && info.st_ino == servers->inode)
        return;
    cay_autoclose int fd = exists ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    ssize_t len = fd < 0 ? 0 : read(fd, text, sizeof(text));
    servers->changed_ns = changed_ns;
    servers->inode = info.st_ino;
    parse(servers, (struct cay_str){text, len > 0 ? (size_t)len : 0});
}
