/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * LD_PRELOAD: a program that asks for a TCP socket gets an MPTCP one, and plain TCP where MPTCP is refused.
 *
 * A statically linked program never asks libc's socket(), and a set-user-ID one ignores LD_PRELOAD: neither can be
 * helped this way. Go programs have MPTCP of their own (GODEBUG=multipathtcp=1).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

#define TYPE_MASK 0xf /* the rest of `type` are flags, linux/net.h */

static int (*next)(int, int, int);

static int set(int fd, const char *name)
{
	return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, strlen(name));
}

/* An MPTCP socket without subflows takes any name and later ignores it: a TCP socket tells whether there is such a one.
 */
static void check_controller(int domain, const char *name)
{
	static int checked;
	int fd;

	if (checked)
		return;
	checked = 1;
	fd = next(domain, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
	if (fd >= 0 && set(fd, name))
		fprintf(stderr, "multipilot: cannot use the congestion controller %s: %s\n", name, strerror(errno));
	if (fd >= 0)
		close(fd);
}

static void choose_controller(int fd, int domain)
{
	const char *name = getenv("MULTIPILOT_CONTROLLER");

	if (!name || !*name)
		return;
	check_controller(domain, name);
	set(fd, name);
}

int socket(int domain, int type, int protocol)
{
	int fd = -1, error = errno;

	if (!next)
		next = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
	if ((domain != AF_INET && domain != AF_INET6) || (type & TYPE_MASK) != SOCK_STREAM ||
	    (protocol && protocol != IPPROTO_TCP))
		return next(domain, type, protocol);
	if (!getenv("MULTIPILOT_TCP"))
		fd = next(domain, type, IPPROTO_MPTCP);
	if (fd < 0)
		fd = next(domain, type, protocol);
	if (fd >= 0) {
		choose_controller(fd, domain);
		errno = error;
	}
	return fd;
}
