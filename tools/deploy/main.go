// Deploy checks the files below deploy/ without a cluster, an engine or a network: the
// manifests and what the Helm chart makes of several values, decoded strictly as the
// types of Kubernetes; the pods by what docs/deploy.md promises of them; the Compose file
// by Compose's own loader. The sidecar imports none of it.
//
//	[SIDECALL_CONFIGS=DIRECTORY] deploy DIRECTORY
//
// With SIDECALL_CONFIGS every config of a sidecar in them is written there, to be checked.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: deploy DIRECTORY")
		os.Exit(2)
	}
	root := os.Args[1]
	product = filepath.Dir(filepath.Clean(root))
	var errs []error
	for _, check := range []struct {
		name string
		run  func(root string) (objects int, err error)
	}{
		{"kubernetes", manifests}, {"helm", chart}, {"compose", compose}, {"names", names},
	} {
		n, err := check.run(root)
		if err == nil && n == 0 {
			err = errors.New("there was nothing to check")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", check.name, err))
		}
		fmt.Printf("%s: %d objects\n", check.name, n)
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// manifests checks the plain manifests.
func manifests(root string) (objects int, err error) {
	files, err := filepath.Glob(filepath.Join(root, "kubernetes", "*.yaml"))
	var all applied
	for _, file := range files {
		text, readErr := os.ReadFile(file)
		err = errors.Join(err, readErr, all.decode(filepath.Base(file), text))
	}
	return all.count, errors.Join(err, all.guarded())
}
