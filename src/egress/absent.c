/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What OpenSSL would call to load code and to look names up: in a static program that is confined
 * there is none of it, and with these the linker leaves out what the C library has for it.
 */
#include <dlfcn.h>
#include <netdb.h>
#include <stddef.h>

#include "base/base.h"

void *dlopen(const char *, int)
{
    return NULL;
}

void *dlsym(void *restrict, const char *restrict)
{
    return NULL;
}

int dlclose(void *)
{
    return 0;
}

char *dlerror(void)
{
    return NULL;
}

int dladdr(const void *, Dl_info *)
{
    return 0;
}

int getaddrinfo(const char *restrict, const char *restrict, const struct addrinfo *restrict,
                struct addrinfo **restrict)
{
    return EAI_FAIL;
}

void freeaddrinfo(struct addrinfo *)
{
}

const char *gai_strerror(int)
{
    return "";
}

struct hostent *gethostbyname(const char *)
{
    return NULL;
}
