package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// product is where the code is that reads what is deployed.
var product = "../.."

var (
	// variable is the name of one of the environment.
	variable = regexp.MustCompile(`\bSIDECALL_[A-Z_]+\b`)
	// released is an image of the sidecar by its version.
	released = regexp.MustCompile(`\bsidecall:([0-9][^\s"]*)`)
)

// names checks that somebody reads the variables that are set, and that the images of the
// sidecar are those of the chart's version.
func names(root string) (found int, err error) {
	var errs []error
	set, err := matches(root, variable, func(string) bool { return true })
	errs = append(errs, err)
	read, err := matches(product, variable, isSource)
	errs = append(errs, err)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if !read[name] {
			errs = append(errs, fmt.Errorf("nothing reads %s", name))
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "helm", "sidecall", "Chart.yaml"))
	errs = append(errs, err)
	var chart struct {
		AppVersion string `json:"appVersion"`
	}
	errs = append(errs, yaml.Unmarshal(text, &chart))
	images, err := matches(root, released, func(string) bool { return true })
	errs = append(errs, err)
	for image := range images {
		if image != "sidecall:"+chart.AppVersion {
			errs = append(errs, fmt.Errorf("%s is not of the version %s", image, chart.AppVersion))
		}
	}
	return len(set) + len(images), errors.Join(errs...)
}

// isSource reports that a file is code of the sidecar or of its clients, and no test.
func isSource(path string) bool {
	switch filepath.Ext(path) {
	case ".go":
		return !strings.HasSuffix(path, "_test.go")
	case ".py", ".ts":
		return true
	}
	return false
}

// notProduct are directories without code that runs where something is deployed.
var notProduct = []string{"tools", "testkit", "e2e", "prove", "bench", "tests", "node_modules", "deploy", "docs", "dist", "generated"}

// matches are what a pattern finds in the files below a directory.
func matches(dir string, pattern *regexp.Regexp, in func(path string) bool) (map[string]bool, error) {
	found := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if path != dir && (strings.HasPrefix(entry.Name(), ".") || slices.Contains(notProduct, entry.Name())) {
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular() || !in(path):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, match := range pattern.FindAllString(string(text), -1) {
			found[match] = true
		}
		return err
	})
	return found, err
}
