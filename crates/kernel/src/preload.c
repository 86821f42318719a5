/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * LD_PRELOAD: a program that asks for a TCP socket gets an MPTCP one, and plain TCP where MPTCP is refused. Where
 * MULTIPILOT_FROM names addresses, its connections start from them: what primary.bpf.c does, as well as it can be done
 * without BPF.
 *
 * A statically linked program never asks libc's socket(), and a set-user-ID one ignores LD_PRELOAD: neither can be
 * helped this way. Go programs have MPTCP of their own (GODEBUG=multipathtcp=1).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
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

/* multipilot has seen that there is MPTCP: since then it was switched off, or this program is where it is not. */
static void tell_of_tcp(int why)
{
	static int told;

	if (told)
		return;
	told = 1;
	fprintf(stderr, "multipilot: MPTCP is refused (%s): %s goes on in TCP\n", strerror(why),
		program_invocation_short_name);
}

int socket(int domain, int type, int protocol)
{
	int fd = -1, error = errno, why = 0;

	if (!next)
		next = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
	if ((domain != AF_INET && domain != AF_INET6) || (type & TYPE_MASK) != SOCK_STREAM ||
	    (protocol && protocol != IPPROTO_TCP))
		return next(domain, type, protocol);
	if (!getenv("MULTIPILOT_TCP")) {
		fd = next(domain, type, IPPROTO_MPTCP);
		why = fd < 0 ? errno : 0;
	}
	if (fd < 0)
		fd = next(domain, type, protocol);
	if (fd >= 0) {
		if (why)
			tell_of_tcp(why);
		choose_controller(fd, domain);
		errno = error;
	}
	return fd;
}

static int is_loopback(const struct sockaddr *to)
{
	if (to->sa_family == AF_INET)
		return *(const unsigned char *)&((const struct sockaddr_in *)to)->sin_addr == 127;
	return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)to)->sin6_addr);
}

/* The address of this family in the list `a.b.c.d,e:f::g`. */
static socklen_t source(int family, struct sockaddr_storage *from)
{
	const char *list = getenv("MULTIPILOT_FROM");
	char word[INET6_ADDRSTRLEN];

	memset(from, 0, sizeof(*from));
	while (list && *list) {
		size_t length = strcspn(list, ",");

		if (length < sizeof(word)) {
			memcpy(word, list, length);
			word[length] = 0;
			from->ss_family = family;
			if (family == AF_INET && inet_pton(AF_INET, word, &((struct sockaddr_in *)from)->sin_addr) == 1)
				return sizeof(struct sockaddr_in);
			if (family == AF_INET6 &&
			    inet_pton(AF_INET6, word, &((struct sockaddr_in6 *)from)->sin6_addr) == 1)
				return sizeof(struct sockaddr_in6);
		}
		list += length + (list[length] == ',');
	}
	return 0;
}

/* The address only: bound to the interface, an MPTCP socket would keep its further subflows there too. */
static void choose_source(int fd, const struct sockaddr *to)
{
	struct sockaddr_storage from, now;
	socklen_t length = source(to->sa_family, &from), now_length = sizeof(now);
	int type, one = 1;
	socklen_t type_length = sizeof(type);

	if (!length || is_loopback(to) || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_length) ||
	    type != SOCK_STREAM)
		return;
	/* bound by the program itself, or connected already */
	memset(&now, 0, sizeof(now));
	if (getsockname(fd, (struct sockaddr *)&now, &now_length) || ((struct sockaddr_in *)&now)->sin_port)
		return;
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
	bind(fd, (struct sockaddr *)&from, length);
}

int connect(int fd, const struct sockaddr *to, socklen_t length)
{
	static int (*next_connect)(int, const struct sockaddr *, socklen_t);
	int error = errno;

	if (!next_connect)
		next_connect = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "connect");
	if (to && length >= sizeof(struct sockaddr_in) &&
	    (to->sa_family == AF_INET || (to->sa_family == AF_INET6 && length >= sizeof(struct sockaddr_in6))))
		choose_source(fd, to);
	errno = error;
	return next_connect(fd, to, length);
}
