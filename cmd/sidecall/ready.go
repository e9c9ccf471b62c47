package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/server"
)

const (
	defaultAdmin = "127.0.0.1:8471"
	// readyTimeout is longer than the sidecar's own look at its store takes.
	readyTimeout = 4 * time.Second
	// maxReadiness bounds the answer that is read, in bytes.
	maxReadiness = 1 << 20
)

// aboutReady is its help.
const aboutReady = `Ask /readyz of the admin address, which only this machine, or this pod, can reach,
and print the answer with its reasons. It is made for the exec probe of an
orchestrator: readiness, not liveness, since a sidecar whose store is away gets
well by itself, and not by a restart. For liveness there is --live, which asks
/healthz: whether the process answers at all.

A sidecar is ready when every backend that finds its tools by itself (mcp) has
found them once, but for those with optional: true. With --wait the command asks
until it is, or that much time is over.

Exit codes: 0 ready, or degraded (calls are taken, something is amiss); 1 not
ready, or nobody answers within 4 s; 2 the command line or the config file is
wrong, or its admin address is off.`

func newReady() *cobra.Command {
	var path, admin string
	var wait time.Duration
	var live bool
	cmd := &cobra.Command{
		Use:   "ready [--config FILE | --admin HOST:PORT] [--wait 30s]",
		Short: "Ask the sidecar on this machine whether it can take calls",
		Long:  aboutReady,
		Example: `  sidecall ready
  sidecall ready --config /etc/sidecall/sidecall.yaml
  sidecall ready --live
  sidecall ready --wait 30s && python agent.py`,
		Args: between(0, 0, "", "a config file is named by --config"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path != "" {
				var err error
				if admin, err = unlessAsked(cmd.Context(), func() (string, error) { return adminOf(path) }); err != nil {
					return err
				}
			}
			if _, port, err := net.SplitHostPort(admin); err != nil || port == "" {
				return fail(exitUsage, fmt.Errorf("--admin %q: want host:port", admin))
			}
			if wait < 0 {
				return fail(exitUsage, fmt.Errorf("--wait %s: must not be negative", wait))
			}
			if live {
				return alive(cmd.Context(), cmd.OutOrStdout(), admin)
			}
			answer, ready, err := readyWithin(cmd.Context(), admin, wait)
			if err != nil {
				return fail(exitFailed, fmt.Errorf("no sidecar answers at %s: start one with `sidecall serve`, or name its admin address with --admin, or with --config the file that has it (%w)", admin, err))
			}
			if err := printReadiness(cmd.OutOrStdout(), answer); err != nil {
				return err
			}
			if !ready {
				return fail(exitFailed, nil)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&path, "config", "c", "", "the config file of the sidecar, which has the admin address")
	flags.StringVar(&admin, "admin", defaultAdmin, "the admin address itself")
	flags.DurationVar(&wait, "wait", 0, "ask again until it is ready, for so long at the most")
	flags.BoolVar(&live, "live", false, "ask whether the process answers, be it ready or not")
	cmd.MarkFlagsMutuallyExclusive("config", "admin")
	cmd.MarkFlagsMutuallyExclusive("live", "wait")
	return cmd
}

// adminOf is the admin address of a config file, whatever else is wrong with that: the
// sidecar that serves an earlier one is there all the same.
func adminOf(path string) (string, error) {
	cfg, problems := config.Examine(path)
	if cfg == nil || slices.ContainsFunc(problems, func(p config.Problem) bool { return p.Path == "admin" }) {
		return "", problems
	}
	admin := cfg.Admin.Reveal()
	if admin == "off" {
		return "", fmt.Errorf("%s: admin is off: there is nobody to ask", path)
	}
	return admin, nil
}

// askAgain is how long who waits for a sidecar leaves it alone between two questions.
const askAgain = 100 * time.Millisecond

// readyWithin asks until the sidecar is ready or the wait is over, once at least.
func readyWithin(ctx context.Context, admin string, wait time.Duration) (answer server.Readiness, ready bool, err error) {
	over := time.NewTimer(wait)
	defer over.Stop()
	for {
		answer, ready, err = readiness(ctx, admin)
		if ready && err == nil {
			return answer, ready, nil
		}
		again := time.NewTimer(askAgain)
		select {
		case <-again.C:
		case <-over.C:
			again.Stop()
			return answer, ready, err
		case <-ctx.Done():
			again.Stop()
			return answer, ready, err
		}
	}
}

// alive asks /healthz.
func alive(ctx context.Context, out io.Writer, admin string) error {
	var answer struct {
		Status string `json:"status"`
	}
	ok, err := askAdmin(ctx, admin, "/healthz", &answer)
	switch {
	case err != nil:
		return fail(exitFailed, fmt.Errorf("no sidecar answers at %s: %w", admin, err))
	case !ok || answer.Status != "ok":
		return fail(exitFailed, fmt.Errorf("what answers at %s is no sidecar", admin))
	}
	_, err = fmt.Fprintln(out, "alive")
	return err
}

// readiness asks /readyz. The error is that nobody there gives an answer.
func readiness(ctx context.Context, admin string) (answer server.Readiness, ready bool, err error) {
	ready, err = askAdmin(ctx, admin, "/readyz", &answer)
	if err == nil && answer.Status == "" {
		err = errors.New("what answers there is no sidecar")
	}
	return answer, ready, err
}

// askAdmin asks for a page of the admin address; ok is that it says 200.
func askAdmin(ctx context.Context, admin, page string, answer any) (ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+page, http.NoBody)
	if err != nil {
		return false, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // and never a proxy
	res, err := client.Do(req)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	err = json.NewDecoder(io.LimitReader(res.Body, maxReadiness)).Decode(answer)
	return res.StatusCode == http.StatusOK, err
}

// printReadiness prints the status, and a line for each reason.
func printReadiness(out io.Writer, answer server.Readiness) error {
	var lines []string
	if answer.Store != "" {
		lines = append(lines, "store: "+answer.Store)
	}
	for _, name := range slices.Sorted(maps.Keys(answer.Undiscovered)) {
		lines = append(lines, fmt.Sprintf("backend %s is not discovered yet: %s", name, answer.Undiscovered[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(answer.BackendsDown)) {
		if answer.Undiscovered[name] != "" {
			continue
		}
		lines = append(lines, fmt.Sprintf("backend %s is down: %s", name, answer.BackendsDown[name]))
	}
	for _, collision := range answer.Collisions {
		lines = append(lines, "name collision: "+collision)
	}
	if answer.Journal != nil {
		lines = append(lines, "journal: "+answer.Journal.Detail)
	}
	if answer.ConfigRefused != "" {
		lines = append(lines, "config refused, the one before it stays in force: "+answer.ConfigRefused)
	}
	if answer.ConfigWaiting != "" {
		lines = append(lines, "config waiting: "+answer.ConfigWaiting)
	}
	_, err := fmt.Fprintf(out, "%s: %s\n", answer.Status, tool.Count(answer.Tools, "tool"))
	for _, line := range lines {
		if err == nil {
			_, err = fmt.Fprintln(out, line)
		}
	}
	return err
}
