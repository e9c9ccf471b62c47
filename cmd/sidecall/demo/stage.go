package demo

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

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
	s.calls++
	res, err := s.sidecar.client.ExecuteTool(ctx, request(id, tool, arguments))
	if err != nil {
		return nil, err
	}
	s.show(id, tool, arguments, res)
	return res, nil
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
	s.printf("   truth  upstream %s: %s, %s\n", path, tool.Count(requests, "request"), tool.Count(effects, "effect"))
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
