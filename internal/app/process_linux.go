package app

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// world names the machine, its boot and the namespaces by which a process can be
// told by its number and its start: the numbers of another one say nothing here.
func world() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	pids, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	times, _ := os.Readlink("/proc/self/ns/time") // older kernels have none
	return strings.Join([]string{strings.TrimSpace(string(boot)), pids, times}, " ")
}

// startOf tells when a process was started, in ticks since the boot; empty when
// that cannot be seen. exists is false when nothing runs under the number.
func startOf(pid int) (start string, exists bool) {
	// Whether it is there is asked in a way that no mount option of /proc hides.
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return "", false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", true
	}
	// The name of the command is in brackets, and may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const state, threads, startTime = 0, 17, 19 // the manual's fields 3, 20 and 22
	if len(fields) <= startTime {
		return "", true
	}
	// Dead, and not waited for yet. One whose first thread alone has ended has others.
	if n, err := strconv.Atoi(fields[threads]); fields[state] == "Z" && err == nil && n <= 1 {
		return "", false
	}
	return fields[startTime], true
}
