// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Who a process is, in one word that can be claimed with one compare-and-swap:
//
//   63 sweeping | 50..62 PID namespace | 28..49 PID | 0..27 start time in ticks
//
// A PID alone is not enough: a restarted container meets its predecessor's
// slots with the same small PIDs. Start time and namespace tell them apart.

#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define START_BITS 28
#define PID_BITS 22
#define NS_BITS 13
#define MASK(bits) ((1ull << (bits)) - 1)

struct stat_line {
	char state;
	uint64_t threads;
	uint64_t start;
};

static const char *skip_fields(const char *p, int n)
{
	while (n-- > 0 && (p = strchr(p, ' ')) != NULL)
		p++;
	return p;
}

static uint64_t number(const char *p)
{
	uint64_t n = 0;
	for (; p != NULL && *p >= '0' && *p <= '9'; p++)
		n = n * 10 + (uint64_t)(*p - '0');
	return n;
}

// read_stat reads /proc/PID/stat. The command name may hold anything, so the
// fields are counted from its last closing parenthesis.
static bool read_stat(uint32_t pid, struct stat_line *out)
{
	char path[40], text[1024];
	snprintf(path, sizeof path, "/proc/%u/stat", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, text, sizeof text - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = 0;
	const char *p = strrchr(text, ')');
	if (p == NULL || p[1] != ' ')
		return false;
	p += 2; // field 3, the state
	out->state = *p;
	out->threads = number(skip_fields(p, 17));
	out->start = number(skip_fields(p, 19));
	return true;
}

static uint64_t pid_namespace(void)
{
	char link[64];
	ssize_t n = readlink("/proc/self/ns/pid", link, sizeof link - 1);
	if (n <= 0)
		return 0;
	link[n] = 0;
	const char *open = strchr(link, '[');
	return open ? number(open + 1) : 0;
}

uint64_t fs_identity(void)
{
	uint32_t pid = (uint32_t)getpid();
	struct stat_line s = {0};
	read_stat(pid, &s);
	return (pid_namespace() & MASK(NS_BITS)) << (PID_BITS + START_BITS) |
	       ((uint64_t)pid & MASK(PID_BITS)) << START_BITS | (s.start & MASK(START_BITS));
}

uint32_t fs_identity_pid(uint64_t identity) { return (uint32_t)(identity >> START_BITS & MASK(PID_BITS)); }

// A zombie has given its GPU memory back when its last thread has ended; a
// leader that called pthread_exit shows as a zombie while its threads run on.
bool fs_identity_dead(uint64_t identity, uint64_t me)
{
	if (((identity ^ me) >> (PID_BITS + START_BITS) & MASK(NS_BITS)) != 0)
		return false; // its PID means nothing here
	uint32_t pid = fs_identity_pid(identity);
	if (kill((pid_t)pid, 0) != 0 && errno == ESRCH)
		return true;
	struct stat_line s;
	if (!read_stat(pid, &s))
		return false; // /proc may hide other users' processes
	if ((s.state == 'Z' && s.threads <= 1) || s.state == 'X')
		return true;
	uint64_t start = identity & MASK(START_BITS);
	return start != 0 && (s.start & MASK(START_BITS)) != start;
}
