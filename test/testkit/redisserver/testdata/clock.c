/* A wall clock that a test can move: loaded before the C library, it adds the
 * seconds that stand in a file to what the kernel says. The monotonic clock, by
 * which a server waits, is left alone, as by whoever sets the clock of a machine. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *ahead;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("SIDECALL_TEST_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		_exit(97);
	void *shared = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, fd, 0);
	if (shared == MAP_FAILED)
		_exit(98);
	close(fd);
	ahead = shared;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int failed = syscall(SYS_clock_gettime, clock, now);
	if (!failed && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		now->tv_sec += *ahead;
	return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec exact;
	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &exact))
		return -1;
	now->tv_sec = exact.tv_sec;
	now->tv_usec = exact.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *out)
{
	struct timespec exact;
	clock_gettime(CLOCK_REALTIME, &exact);
	if (out)
		*out = exact.tv_sec;
	return exact.tv_sec;
}
