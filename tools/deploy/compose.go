package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
	"sigs.k8s.io/yaml"
)

// password is what the Compose file is given as that of Redis.
const password = "the-password-of-redis"

// compose loads the Compose file as Compose does, and checks what it mounts.
func compose(root string) (objects int, err error) {
	dir := filepath.Join(root, "compose")
	options, err := cli.NewProjectOptions([]string{filepath.Join(dir, "compose.yaml")}, cli.WithEnv([]string{"REDIS_PASSWORD=" + password}))
	if err != nil {
		return 0, err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, name := range []string{"sidecall", "agent"} {
		s := project.Services[name]
		if !s.ReadOnly || len(s.CapDrop) == 0 {
			errs = append(errs, fmt.Errorf("%s may write to its image, or has capabilities", name))
		}
	}
	if grace := project.Services["sidecall"].StopGracePeriod; grace == nil || grace.String() != "40s" {
		errs = append(errs, errors.New("the sidecar has not 40s to end"))
	}
	for _, s := range project.Services {
		errs = append(errs, pinned(s.Image))
		if said := fmt.Sprint(s.Command, s.Entrypoint, s.HealthCheck); strings.Contains(said, password) {
			errs = append(errs, fmt.Errorf("%s has the password among its arguments", s.Name))
		}
		for _, volume := range s.Volumes {
			if _, err := os.Stat(volume.Source); volume.Type == "bind" && err != nil {
				errs = append(errs, err)
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "sidecall", "sidecall.yaml"))
	errs = append(errs, err, sidecallConfig("compose/sidecall/sidecall.yaml", text), collector(filepath.Join(dir, "collector.yaml")))
	return len(project.Services), errors.Join(errs...)
}

// collector checks that what the pipelines of a collector name is there.
func collector(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var c struct {
		Receivers, Processors, Exporters map[string]any
		Service                          struct {
			Pipelines map[string]struct{ Receivers, Processors, Exporters []string }
		}
	}
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return err
	}
	var errs []error
	for name, p := range c.Service.Pipelines {
		for _, part := range []struct {
			names []string
			there map[string]any
		}{{p.Receivers, c.Receivers}, {p.Processors, c.Processors}, {p.Exporters, c.Exporters}} {
			for _, one := range part.names {
				if _, ok := part.there[one]; !ok {
					errs = append(errs, fmt.Errorf("%s: the pipeline %s names %s, which is not there", file, name, one))
				}
			}
		}
	}
	return errors.Join(errs...)
}
