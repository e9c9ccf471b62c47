package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/yaml"
)

// rendering is of values for which the chart is rendered, and what a value that makes no
// sense has to be refused with.
type rendering struct{ name, values, refused string }

var cases = []rendering{
	{"as it comes", "", ""},
	{"a Redis with a password", `secrets: {redis-password: one, shop-token: other}
config:
  store: {redis: {addrs: ["redis:6379"], password: "${file:/etc/sidecall/secrets/redis-password}", wait_replicas: 1}}
  journal: {max_bytes: 32MiB}
  backends: {shop: {http: {base_url: "http://shop:8080", allow_private: true, headers: {Authorization: "Bearer ${file:/etc/sidecall/secrets/shop-token}"}}}}
  tools: {get_order: {backend: shop, description: Looks., http: {method: GET, path: "/orders/{id}"}, input_schema: {type: object, properties: {id: {type: string}}, required: [id], additionalProperties: false}}}
`, ""},
	{"a cluster, a Secret of its own", `config: {store: {redis: {addrs: ["a:6379", "b:6379"], cluster: true, username: sidecall, password: "${env:REDIS_PASSWORD}"}}}
envFrom: [{secretRef: {name: redis}}]
existingSecret: mine
`, ""},
	{"a larger volume", "stateMiB: 1024\n", ""},
	{"a password in a ConfigMap", "config: {store: {redis: {addrs: [\"redis:6379\"], password: hunter2}}}\n", "password"},
	{"a store that is not the chart's", "config: {store: {memory: {}}}\n", "redis"},
	{"a volume that holds nothing", "stateMiB: 64\n", "stateMiB"},
	{"another user, everything set", `transport: tcp
restartOnConfigChange: true
env: [{name: OTEL_EXPORTER_OTLP_ENDPOINT, value: "http://collector:4318"}]
agent: {enabled: true, image: "agent:1.2.3", command: [python, agent.py], args: [-v], env: [{name: A, value: b}], ports: [{containerPort: 80}], resources: {limits: {memory: 1Gi}}, terminationSeconds: 5}
image: {repository: registry/sidecall, digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}
imagePullSecrets: [{name: pull}]
podAnnotations: {a: b}
podLabels: {a: b}
nodeSelector: {a: b}
tolerations: [{key: a, operator: Exists}]
affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: kubernetes.io/hostname}}]}}
serviceAccountName: agent
`, ""},
	{"without an agent", "agent: {enabled: false, image: none}\n", ""},
	{"a key that the chart does not have", "redis: {addrs: [a]}\n", "additional"},
	{"an address of its own", "config: {listen: [\"tcp://127.0.0.1:1\"]}\n", "config"},
	{"a transport that there is not", "transport: smoke\n", "transport"},
	{"rules of its own", `networkPolicy: {ingress: [{from: [{podSelector: {}}]}], egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8}}]}]}
image: {tag: v1.2.3}
`, ""},
	{"whatever image is the latest", "image: {tag: latest}\n", "tag"},
	{"an agent that is the latest", "agent: {image: \"agent:latest\"}\n", "image"},
	{"no memory", "resources: {requests: null}\n", "requests"},
}

// examples are the values beside the chart.
func examples(root string) (all []rendering, err error) {
	files, err := filepath.Glob(filepath.Join(root, "helm", "*.yaml"))
	if err == nil && len(files) == 0 {
		err = errors.New("there is no example beside the chart")
	}
	for _, file := range files {
		text, readErr := os.ReadFile(file)
		err = errors.Join(err, readErr)
		all = append(all, rendering{name: filepath.Base(file), values: string(text)})
	}
	return all, err
}

// chart lints the chart and checks what it makes of the cases.
func chart(root string) (objects int, err error) {
	dir := filepath.Join(root, "helm", "sidecall")
	loaded, err := loader.LoadDir(dir)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, message := range lint.AllWithKubeVersion(dir, nil, "default", &chartutil.DefaultCapabilities.KubeVersion).Messages {
		if message.Severity > support.InfoSev {
			errs = append(errs, message)
		}
	}
	all, err := examples(root)
	if err != nil {
		return 0, err
	}
	for _, c := range append(all, cases...) {
		values := map[string]any{}
		err := yaml.UnmarshalStrict([]byte(c.values), &values)
		release := chartutil.ReleaseOptions{Name: "agent", Namespace: "default", IsInstall: true}
		var given chartutil.Values
		if err == nil {
			given, err = chartutil.ToRenderValues(loaded, values, release, chartutil.DefaultCapabilities)
		}
		var rendered map[string]string
		if err == nil {
			rendered, err = engine.Render(loaded, given)
		}
		switch {
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			errs = append(errs, fmt.Errorf("%s: want an error about %s, got %w", c.name, c.refused, errors.Join(err, errors.New("none"))))
		case c.refused == "" && err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
		}
		if c.refused != "" {
			continue
		}
		var made applied
		for _, name := range slices.Sorted(maps.Keys(rendered)) {
			if strings.HasSuffix(name, ".yaml") {
				errs = append(errs, made.decode(c.name+": "+name, []byte(rendered[name])))
			}
		}
		if err := made.guarded(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
		}
		objects += made.count
	}
	return objects, errors.Join(errs...)
}
