package main

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// separator is between the documents of a file.
var separator = regexp.MustCompile(`(?m)^---\s*$`)

// decode reads the objects of a file; an unknown key, or one twice, is an error.
func decode(name string, text []byte) (objects int, err error) {
	var errs []error
	for i, document := range separator.Split(string(text), -1) {
		if len(bytes.TrimSpace([]byte(withoutComments(document)))) == 0 {
			continue
		}
		objects++
		if err := object([]byte(document)); err != nil {
			errs = append(errs, fmt.Errorf("%s, document %d: %w", name, i+1, err))
		}
	}
	return objects, errors.Join(errs...)
}

var comment = regexp.MustCompile(`(?m)^\s*#.*$`)

func withoutComments(text string) string { return comment.ReplaceAllString(text, "") }

func object(document []byte) error {
	var head struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(document, &head); err != nil {
		return err
	}
	switch head.APIVersion + " " + head.Kind {
	case "v1 ConfigMap":
		var it core.ConfigMap
		if err := strict(document, &it); err != nil {
			return err
		}
		text, ok := it.Data["sidecall.yaml"]
		if !ok {
			return errors.New("it has no sidecall.yaml")
		}
		return sidecallConfig(it.Name, []byte(text))
	case "v1 Secret":
		return strict(document, &core.Secret{})
	case "apps/v1 Deployment":
		var it apps.Deployment
		if err := strict(document, &it); err != nil {
			return err
		}
		return deployment(&it)
	default:
		return fmt.Errorf("nothing here knows %s %s", head.APIVersion, head.Kind)
	}
}

// strict reads as the API server does: an unknown key, one twice, or one in other letters
// is an error.
func strict(document []byte, into any) error {
	text, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return err
	}
	unknown, err := json.UnmarshalStrict(text, into)
	return errors.Join(append(unknown, err)...)
}
