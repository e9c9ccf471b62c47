package app

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// A caller gets the profiles that its listener offers, whatever name it gives: a
// narrow profile is no fence if another can be had for the asking.
func TestACallerGetsTheProfilesOfItsListener(t *testing.T) {
	dir := harness.ShortDir(t)
	address := func(name string) string { return "unix://" + filepath.Join(dir, name) }
	s := started(t, parsed(t, fmt.Sprintf(`
listen: [%q, {address: %q, profiles: [reader]}, {address: %q, profiles: [writer, reader]}]
admin: "off"
operator: %q
store: {memory: {}}
default_profile: reader
profiles: {reader: {tools: [see], loop_guard: {off: true}}, writer: {tools: [see, "do"], loop_guard: {off: true}}}
backends: {sh: {exec: {env: [PATH]}}}
tools: {see: {backend: sh, exec: {argv: [pwd]}}, "do": {backend: sh, exec: {argv: [pwd]}}}
`, address("all"), address("reader"), address("both"), address("op"))), quiet())
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	const no, see, do = "PERMISSION_DENIED", "see", "do see" // what may be called
	for listener, want := range map[string]map[string]string{
		"all":    {"": see, "reader": see, "writer": do, "code": no, "interactive": no},
		"reader": {"": see, "reader": see, "writer": no, "code": no},
		"both":   {"": do, "reader": see, "writer": do, "interactive": no},
		"op":     {"": see, "reader": see, "writer": do, "code": no},
	} {
		client := sidecallv1.NewToolServiceClient(connected(t, address(listener)))
		for profile, tools := range want {
			res, err := client.ListTools(t.Context(), &sidecallv1.ListToolsRequest{Profile: profile})
			var names []string
			for _, tool := range res.GetTools() {
				if tool.GetName() != "read_output" {
					names = append(names, tool.GetName())
				}
			}
			if tools == no && status.Code(err) != codes.InvalidArgument || tools != no && (err != nil || strings.Join(names, " ") != tools) {
				t.Errorf("%s, the profile %q: %v, %v; want %s", listener, profile, names, err, tools)
			}
			called, err := client.ExecuteTool(t.Context(), &sidecallv1.ExecuteToolRequest{
				ConversationId: "c", ToolUseId: listener + profile, ToolName: "do", Profile: profile,
			})
			if err != nil || called.GetIsError() != (tools != do) || called.GetIsError() && called.GetError().GetCode() != no {
				t.Errorf("%s, the profile %q: do gets %v, %v", listener, profile, called, err)
			}
		}
	}
}
