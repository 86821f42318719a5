/* Preloaded: the wall clock is SKEW seconds off, as that of a machine without a battery is. */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t which, struct timespec *time)
{
	int failed = syscall(SYS_clock_gettime, which, time);

	if (!failed && which == CLOCK_REALTIME)
		time->tv_sec += SKEW;
	return failed;
}
