// Package profiled lets the benchmark ask a program, which imports it for that alone, where its
// processor time goes: SIGUSR1 begins a profile, and ends it.
package profiled

import (
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
)

// To is the variable of the environment that names the file of the profile. It is there when
// the profile is whole. Without it nothing is profiled.
const To = "BENCH_PROFILE"

func init() { //nolint:gochecknoinits // it is built into programs that do not know it
	path := os.Getenv(To)
	if path == "" {
		return
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() { // as long as the process
		for {
			if err := profile(path, asked); err != nil {
				fmt.Fprintln(os.Stderr, "bench:", err)
			}
		}
	}()
}

func profile(path string, asked <-chan os.Signal) error {
	<-asked
	file, err := os.Create(path + ".part")
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	<-asked
	pprof.StopCPUProfile()
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
