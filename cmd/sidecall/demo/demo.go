// Package demo shows Sidecall surviving the incidents that agents die of. It
// starts a real sidecar (this binary, in a process of its own, embedded store)
// and an upstream that misbehaves on purpose, and prints, call by call, what a
// model would have seen beside what the upstream really did. Each scene checks
// its promise; Run fails when one was not kept.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// ErrBroken is returned when a promise was not kept.
var ErrBroken = errors.New("a promise was not kept")

// scene is one incident.
type scene struct {
	title string
	play  func(ctx context.Context, s *stage) error
}

var scenes = []scene{
	{"A tool throws", throws},
	{"Noise on the line", noise},
	{"The acknowledgement of a payment is lost, and the upstream honours keys", lostAcknowledgement},
	{"The same, and the upstream knows no keys", lostCharge},
	{"A duplicate arrives", duplicate},
	{"The model makes the same payment under a new id", plannedAnew},
	{"The model sends malformed arguments", malformed},
	{"The model invents a tool", unknownTool},
	{"A result of some megabytes", hugeOutput},
	{"An upstream is dead", deadUpstream},
	{"The model goes round in circles", runaway},
	{"A prompt has used up its budget", spent},
	{"The sidecar crashes in the middle of a payment, and the agent resumes", crash},
}

// Run plays every scene and prints to out.
func Run(ctx context.Context, out io.Writer) (err error) {
	began := time.Now()
	dir, err := os.MkdirTemp("", "sidecall-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &stage{out: out}
	if s.shop, err = newShop(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.shop.close(context.WithoutCancel(ctx))) }()
	if s.dead, err = freePort(); err != nil {
		return err
	}
	if s.sidecar, err = newChild(dir, s.shop.url(), "http://"+s.dead); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.sidecar.stop()) }()
	if err := s.sidecar.start(ctx); err != nil {
		return err
	}
	for i, scene := range scenes {
		s.printf("\n%d. %s\n", i+1, scene.title)
		if err := scene.play(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", scene.title, err)
		}
	}
	s.printf("\n%s kept, %d broken, %s, %s\n", tool.Count(s.kept, "promise"), s.broken, tool.Count(s.calls, "call"), time.Since(began).Round(100*time.Millisecond))
	if s.broken > 0 {
		return ErrBroken
	}
	return nil
}
