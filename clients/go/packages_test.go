package sidecall_test

import (
	"os/exec"
	"strings"
	"testing"
)

// What the client compiles into a program is the contract, gRPC and what that needs. Beside
// them it has the API of OpenTelemetry, since a span is nowhere but in its context, and what
// makes a schema of a type, for workers.
func TestThePackagesOfTheClient(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./...").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 2 {
		t.Fatalf("it has %q", packages)
	}
	allowed := []string{
		"github.com/sidecall/sidecall/clients/go", "github.com/sidecall/sidecall/proto/sidecall/v1",
		"google.golang.org/grpc", "google.golang.org/protobuf", "google.golang.org/genproto/googleapis/rpc", "golang.org/x/net", "golang.org/x/sys", "golang.org/x/text",
		"go.opentelemetry.io/otel", "github.com/cespare/xxhash/v2", // which that needs
		"github.com/google/jsonschema-go/jsonschema",
	}
	for _, pkg := range packages {
		ok := false
		for _, prefix := range allowed {
			ok = ok || pkg == prefix || strings.HasPrefix(pkg, prefix+"/")
		}
		if !ok {
			t.Errorf("it compiles %s into a program", pkg)
		}
	}
}
