/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * LD_PRELOAD: a program that asks for a TCP socket gets an MPTCP one, and plain TCP where MPTCP is refused. Where
 * MULTIPILOT_FROM names addresses, its connections start from them: what initial_path.bpf.c does, as well as it can be
 * done without BPF. Where MULTIPILOT_RELAY names a port of this host, its TCP connections lead through the relay there.
 * MULTIPILOT_WHILE, of a user session, names a file that is there while the daemon is at work.
 *
 * A statically linked program never asks libc's socket(), and a set-user-ID one ignores LD_PRELOAD: neither can be
 * helped this way. Go programs have MPTCP of their own (GODEBUG=multipathtcp=1).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
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

/* As mptcpify.bpf.c has it: what multipilot itself opens, it opens as it wants it. */
static int is_off(const char *sign)
{
	return sign && *sign && (access(sign, F_OK) || !strcmp(program_invocation_short_name, "multipilot"));
}

int socket(int domain, int type, int protocol)
{
	const char *sign = getenv("MULTIPILOT_WHILE");
	int fd = -1, error = errno, why = 0;

	if (!next)
		next = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
	if ((domain != AF_INET && domain != AF_INET6) || (type & TYPE_MASK) != SOCK_STREAM ||
	    (protocol && protocol != IPPROTO_TCP))
		return next(domain, type, protocol);
	if (!getenv("MULTIPILOT_TCP") && !is_off(sign)) {
		fd = next(domain, type, IPPROTO_MPTCP);
		why = fd < 0 ? errno : 0;
	}
	if (fd < 0)
		fd = next(domain, type, protocol);
	if (fd >= 0) {
		/* A whole session is not to hear of it. */
		if (why && !(sign && *sign))
			tell_of_tcp(why);
		choose_controller(fd, domain);
		errno = error;
	}
	return fd;
}

static int is_loopback(const struct sockaddr *to)
{
	const struct in6_addr *v6;

	if (to->sa_family == AF_INET)
		return *(const unsigned char *)&((const struct sockaddr_in *)to)->sin_addr == 127;
	v6 = &((const struct sockaddr_in6 *)to)->sin6_addr;
	return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
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

/* An IPv6 socket reaches ::ffff:a.b.c.d by IPv4, and from an address of it. */
static socklen_t source_to(const struct sockaddr *to, struct sockaddr_storage *from)
{
	struct sockaddr_in6 *mapped = (struct sockaddr_in6 *)from;
	struct in_addr v4;

	if (to->sa_family == AF_INET || !IN6_IS_ADDR_V4MAPPED(&((const struct sockaddr_in6 *)to)->sin6_addr))
		return source(to->sa_family, from);
	if (!source(AF_INET, from))
		return 0;
	v4 = ((struct sockaddr_in *)from)->sin_addr;
	memset(from, 0, sizeof(*from));
	mapped->sin6_family = AF_INET6;
	memset(&mapped->sin6_addr.s6_addr[10], 0xff, 2);
	memcpy(&mapped->sin6_addr.s6_addr[12], &v4, sizeof(v4));
	return sizeof(*mapped);
}

/* The address only: bound to the interface, an MPTCP socket would keep its further subflows there too. */
static void choose_source(int fd, const struct sockaddr *to)
{
	struct sockaddr_storage from, now;
	socklen_t length = source_to(to, &from), now_length = sizeof(now);
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

#define TOKEN 16             /* bytes; crates/relay/src/front.rs has the other end */
#define RELAY_PATIENCE 30000 /* ms */

static int (*next_connect)(int, const struct sockaddr *, socklen_t);

/* `PORT,TOKEN` with the token in hexadecimal; 0 where there is none. */
static int relay(unsigned char *token)
{
	const char *text = getenv("MULTIPILOT_RELAY");
	char *rest;
	long port;
	int i;

	if (!text)
		return 0;
	port = strtol(text, &rest, 10);
	if (port < 1 || port > 65535 || *rest != ',' || strlen(++rest) != 2 * TOKEN)
		return 0;
	for (i = 0; i < TOKEN; i++)
		if (sscanf(rest + 2 * i, "%2hhx", &token[i]) != 1)
			return 0;
	return port;
}

static int is_tcp(int fd)
{
	int type, protocol;
	socklen_t length = sizeof(int);

	return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) && type == SOCK_STREAM &&
	       !getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) && protocol == IPPROTO_TCP;
}

/* enum Refusal of crates/relay/src/wire/frame.rs */
static int refusal(int number)
{
	static const int errors[] = { 0,         ECONNRESET,   EACCES,  ENETUNREACH, EHOSTUNREACH, ECONNREFUSED,
				      ETIMEDOUT, EHOSTUNREACH, ENOBUFS, EACCES };

	return number < (int)(sizeof(errors) / sizeof(*errors)) ? errors[number] : ECONNRESET;
}

/* What the relay's end says of the target; -1 where it says nothing. */
static int ask(int fd, const unsigned char *greeting, size_t length)
{
	struct pollfd answer = { .fd = fd, .events = POLLIN };
	unsigned char byte;

	if (send(fd, greeting, length, MSG_NOSIGNAL) != (ssize_t)length)
		return -1;
	while (poll(&answer, 1, RELAY_PATIENCE) < 0)
		if (errno != EINTR)
			return -1;
	return recv(fd, &byte, 1, MSG_DONTWAIT) == 1 ? byte : -1;
}

/*
 * Waits for the target also where the socket does not block: a program that goes on to another address when the first
 * one fails needs the truth.
 */
static int connect_relayed(int fd, const struct sockaddr *to, int port, const unsigned char *token)
{
	static const struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)to;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)to;
	unsigned char greeting[TOKEN + 19] = { 0 }; /* token, family, port, address */
	int flags = fcntl(fd, F_GETFL), off = 0, status, failed;
	struct sockaddr_in6 mapped = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = htons(port) };

	memcpy(greeting, token, TOKEN);
	here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (to->sa_family == AF_INET) {
		greeting[TOKEN] = 4;
		memcpy(greeting + TOKEN + 1, &v4->sin_port, 2);
		memcpy(greeting + TOKEN + 3, &v4->sin_addr, 4);
	} else {
		greeting[TOKEN] = 6;
		memcpy(greeting + TOKEN + 1, &v6->sin6_port, 2);
		memcpy(greeting + TOKEN + 3, &v6->sin6_addr, 16);
		inet_pton(AF_INET6, "::ffff:127.0.0.1", &mapped.sin6_addr);
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	}
	fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
	failed = to->sa_family == AF_INET ? next_connect(fd, (struct sockaddr *)&here, sizeof(here))
					  : next_connect(fd, (struct sockaddr *)&mapped, sizeof(mapped));
	status = failed ? -1 : ask(fd, greeting, sizeof(greeting));
	fcntl(fd, F_SETFL, flags);
	if (!status)
		return 0;
	/* the program may try another address on the same socket */
	next_connect(fd, &nowhere, sizeof(nowhere));
	errno = status < 0 ? ECONNREFUSED : refusal(status);
	return -1;
}

int connect(int fd, const struct sockaddr *to, socklen_t length)
{
	unsigned char token[TOKEN];
	int error = errno, port;

	if (!next_connect)
		next_connect = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "connect");
	if (to && length >= sizeof(struct sockaddr_in) &&
	    (to->sa_family == AF_INET || (to->sa_family == AF_INET6 && length >= sizeof(struct sockaddr_in6)))) {
		port = is_loopback(to) ? 0 : relay(token);
		if (port && is_tcp(fd))
			return connect_relayed(fd, to, port, token);
		choose_source(fd, to);
	}
	errno = error;
	return next_connect(fd, to, length);
}
