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
	"strings"
	"time"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// ErrBroken is returned when a promise was not kept.
var ErrBroken = errors.New("a promise was not kept")

// shown is how much of a content is printed, in characters.
const shown = 420

// stage is a running demo.
type stage struct {
	out     io.Writer
	shop    *shop
	sidecar *child
	dead    string // address of the upstream that is down
	kept    int
	broken  int
	calls   int
}

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
	{"The model sends malformed arguments", malformed},
	{"The model invents a tool", unknownTool},
	{"A result of some megabytes", hugeOutput},
	{"An upstream is dead", deadUpstream},
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
	s.printf("\n%d promises kept, %d broken, %d calls, %s\n", s.kept, s.broken, s.calls, time.Since(began).Round(100*time.Millisecond))
	if s.broken > 0 {
		return ErrBroken
	}
	return nil
}

func (s *stage) printf(format string, args ...any) {
	// A demo whose reader has gone has nobody to tell.
	_, _ = fmt.Fprintf(s.out, format, args...)
}

// promise checks what a scene is about.
func (s *stage) promise(kept bool, format string, args ...any) {
	mark := "kept  "
	if kept {
		s.kept++
	} else {
		s.broken++
		mark = "BROKEN"
	}
	s.printf("   %s  %s\n", mark, fmt.Sprintf(format, args...))
}

// call makes one call and prints what the model sees.
func (s *stage) call(ctx context.Context, id, tool, arguments string) (*sidecallv1.ExecuteToolResponse, error) {
	res, err := s.quiet(ctx, id, tool, arguments)
	if err != nil {
		return nil, err
	}
	s.show(id, tool, arguments, res)
	return res, nil
}

// quiet makes one call.
func (s *stage) quiet(ctx context.Context, id, tool, arguments string) (*sidecallv1.ExecuteToolResponse, error) {
	s.calls++
	return s.sidecar.client.ExecuteTool(ctx, request(id, tool, arguments))
}

func request(id, tool, arguments string) *sidecallv1.ExecuteToolRequest {
	return &sidecallv1.ExecuteToolRequest{
		ToolUseId: id, ToolName: tool, ArgumentsJson: arguments, ConversationId: "demo", TurnId: "1",
	}
}

func (s *stage) show(id, tool, arguments string, res *sidecallv1.ExecuteToolResponse) {
	replayed := ""
	if res.GetReplayed() {
		replayed = "  (replayed: nothing ran)"
	}
	s.printf("   call   %s %s  [%s]%s\n   model  %s\n", tool, arguments, id, replayed, excerpt(res.GetContent()))
}

// upstream prints what the shop really did.
func (s *stage) upstream(path string) (requests, effects int) {
	requests, effects = s.shop.count(path)
	s.printf("   truth  upstream %s: %d requests, %d effects\n", path, requests, effects)
	return requests, effects
}

// excerpt shortens a content to what fits a screen.
func excerpt(content string) string {
	runes := []rune(content)
	if len(runes) > shown {
		runes = append(append(runes[:shown/2:shown/2], []rune(" … ")...), runes[len(runes)-shown/2:]...)
	}
	return strings.ReplaceAll(string(runes), "\n", "\n          ")
}
