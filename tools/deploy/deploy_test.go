package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// deployed is the directory that is checked.
const deployed = "../../deploy"

// A check that finds nothing has to be one that would.
func TestMistakesAreFound(t *testing.T) {
	configs := configsIn
	configsIn = "" // those of mistakes are nobody's
	defer func() { configsIn = configs }()
	for name, c := range map[string]struct {
		file, old, now string
		check          func(root string) (int, error)
		says           string
	}{
		"a key that there is not":      {"kubernetes/agent-with-sidecall.yaml", "readOnlyRootFilesystem: true", "readOnlyRootFileSystem: true", manifests, "readOnlyRootFileSystem"},
		"a value of another type":      {"kubernetes/agent-with-sidecall.yaml", "replicas: 2", "replicas: two", manifests, "replicas"},
		"no native sidecar":            {"kubernetes/agent-with-sidecall.yaml", "          restartPolicy: Always\n", "", manifests, "native"},
		"a grace that is too short":    {"kubernetes/agent-with-sidecall.yaml", "terminationGracePeriodSeconds: 60", "terminationGracePeriodSeconds: 30", manifests, "32 s"},
		"a probe of the config":        {"kubernetes/agent-with-sidecall.yaml", "[/usr/bin/sidecall, ready]", "[/usr/bin/sidecall, ready, --config, x]", manifests, "probe"},
		"a volume that there is not":   {"kubernetes/agent-with-sidecall.yaml", "{name: sidecall-state, mountPath", "{name: state, mountPath", manifests, "no such volume"},
		"a file that never changes":    {"kubernetes/agent-with-sidecall.yaml", "mountPath: /etc/sidecall/config,", "mountPath: /etc/sidecall/config, subPath: x,", manifests, "never changes"},
		"the agent reads the secrets":  {"kubernetes/agent-with-sidecall.yaml", "{name: sidecall-socket, mountPath: /run/sidecall} # and", "{name: sidecall-secrets, mountPath: /x} # and", manifests, "the sidecar's"},
		"a template that is wrong":     {"helm/sidecall/templates/deployment.yaml", "terminationGracePeriodSeconds:", "terminationGracePeriod:", chart, "terminationGracePeriod"},
		"a template without a limit":   {"helm/sidecall/templates/_sidecar.tpl", "name: GOMEMLIMIT", "name: GOGC", chart, "GOMEMLIMIT"},
		"a key that Compose has not":   {"compose/compose.yaml", "mem_limit:", "memory_limit:", compose, "memory_limit"},
		"an image that is the latest":  {"kubernetes/agent-with-sidecall.yaml", "image: agent:1.0.0", "image: agent:latest", manifests, "agent:latest"},
		"an image that moves":          {"compose/compose.yaml", "redis:7.4.6-alpine", "redis:7.4-alpine", compose, "redis:7.4-alpine"},
		"a password that all can see":  {"compose/compose.yaml", "\"$$REDISCLI_AUTH\"", "\"$REDIS_PASSWORD\"", compose, "password"},
		"a policy of other pods":       {"kubernetes/agent-with-sidecall.yaml", "  podSelector:\n    matchLabels: {app.kubernetes.io/name: agent}", "  podSelector:\n    matchLabels: {app.kubernetes.io/name: other}", manifests, "no NetworkPolicy"},
		"the way to the metadata":      {"helm/sidecall/templates/networkpolicy.yaml", ", except: [169.254.0.0/16]", "", chart, "metadata"},
		"a variable that nobody reads": {"kubernetes/agent-with-sidecall.yaml", "SIDECALL_ADDR,", "SIDECALL_ADDRESS,", names, "SIDECALL_ADDRESS"},
		"the same in the chart":        {"helm/sidecall/templates/deployment.yaml", "SIDECALL_ADDR,", "SIDECALL_ADDRESS,", names, "SIDECALL_ADDRESS"},
		"another version":              {"compose/compose.yaml", "image: sidecall:0.1.0", "image: sidecall:0.0.9", names, "0.0.9"},
		"an image without a policy":    {"kubernetes/agent-with-sidecall.yaml", "          imagePullPolicy: IfNotPresent\n", "", manifests, "pulled"},
		"a store like its volume":      {"helm/sidecall/templates/_sidecar.tpl", "mul 3 .Values", "mul 4 .Values", chart, "the store may have"},
		"a pipeline without an end":    {"compose/collector.yaml", "exporters: [prometheus]", "exporters: [prom]", compose, "prom"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			if err := os.CopyFS(root, os.DirFS(deployed)); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(root, filepath.FromSlash(c.file))
			text, err := os.ReadFile(file)
			if err != nil || !strings.Contains(string(text), c.old) {
				t.Fatalf("no %q in %s: %v", c.old, c.file, err)
			}
			if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), c.old, c.now)), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := c.check(root); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("want an error with %q: %v", c.says, err)
			}
		})
	}
}

func TestWhatIsDeployed(t *testing.T) {
	for name, check := range map[string]func(root string) (int, error){"kubernetes": manifests, "helm": chart, "compose": compose, "names": names} {
		if n, err := check(deployed); err != nil || n == 0 {
			t.Errorf("%s: %d objects, %v", name, n, err)
		}
	}
}
