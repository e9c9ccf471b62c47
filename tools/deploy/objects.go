package main

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// separator is between the documents of a file.
var separator = regexp.MustCompile(`(?m)^---\s*$`)

// applied are the objects that are applied together.
type applied struct {
	count    int
	pods     []labels.Set // of deployments
	policies []networking.NetworkPolicy
	// stores are the bounds of embedded stores, and states the sizes of the volumes that
	// they are on.
	stores, states []resource.Quantity
}

// decode reads the objects of a file; an unknown key, or one twice, is an error.
func (a *applied) decode(name string, text []byte) error {
	var errs []error
	for i, document := range separator.Split(string(text), -1) {
		if len(bytes.TrimSpace([]byte(withoutComments(document)))) == 0 {
			continue
		}
		a.count++
		if err := a.object([]byte(document)); err != nil {
			errs = append(errs, fmt.Errorf("%s, document %d: %w", name, i+1, err))
		}
	}
	return errors.Join(errs...)
}

// guarded checks that every pod has a policy of where it may go, and who may reach it.
func (a *applied) guarded() error {
	for _, pod := range a.pods {
		if !slices.ContainsFunc(a.policies, func(p networking.NetworkPolicy) bool {
			selector, err := meta.LabelSelectorAsSelector(&p.Spec.PodSelector)
			return err == nil && selector.Matches(pod) && len(p.Spec.PolicyTypes) == 2
		}) {
			return fmt.Errorf("no NetworkPolicy for both ways selects the pods with the labels %s", pod)
		}
	}
	return a.bounded()
}

// bounded checks that no embedded store can outgrow its volume, which would evict its pod.
func (a *applied) bounded() error {
	for _, store := range a.stores {
		for _, state := range a.states {
			if store.Cmp(state) >= 0 {
				return fmt.Errorf("the store may have %s of a volume of %s", store.String(), state.String())
			}
		}
	}
	return nil
}

// store takes down how large the embedded store of a config may be.
func (a *applied) store(text []byte) error {
	var config struct {
		Store struct {
			Embedded *struct {
				MaxBytes string `json:"max_bytes"`
			} `json:"embedded"`
		} `json:"store"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return err
	}
	if config.Store.Embedded == nil {
		return nil
	}
	most, err := resource.ParseQuantity(strings.TrimSuffix(config.Store.Embedded.MaxBytes, "B"))
	if err != nil {
		return fmt.Errorf("store.embedded.max_bytes: %w", err)
	}
	a.stores = append(a.stores, most)
	return nil
}

// policy checks that no rule lets a pod reach the addresses of its node, but for names.
func policy(p *networking.NetworkPolicy) error {
	for _, rule := range p.Spec.Egress {
		if len(rule.To) == 0 && slices.ContainsFunc(rule.Ports, func(port networking.NetworkPolicyPort) bool { return port.Port.IntValue() != 53 }) ||
			len(rule.To) == 0 && len(rule.Ports) == 0 {
			return errors.New("a rule lets the pod go anywhere")
		}
		for _, to := range rule.To {
			if to.IPBlock != nil && strings.HasSuffix(to.IPBlock.CIDR, "/0") && len(to.IPBlock.Except) == 0 {
				return errors.New("a rule lets the pod reach the metadata of its node")
			}
		}
	}
	return nil
}

// version is the end of the name of an image that nobody moves by accident.
var version = regexp.MustCompile(`(:v?[0-9]+\.[0-9]+\.[0-9]+([-+.][0-9A-Za-z.-]+)?|@sha256:[0-9a-f]{64})$`)

// pinned checks that an image is named by its version or its digest.
func pinned(image string) error {
	if !version.MatchString(image) {
		return fmt.Errorf("the image %s has neither a version of three numbers nor a digest", image)
	}
	return nil
}

var comment = regexp.MustCompile(`(?m)^\s*#.*$`)

func withoutComments(text string) string { return comment.ReplaceAllString(text, "") }

func (a *applied) object(document []byte) error {
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
		return errors.Join(a.store([]byte(text)), sidecallConfig(it.Name, []byte(text)))
	case "v1 Secret":
		return strict(document, &core.Secret{})
	case "apps/v1 Deployment":
		var it apps.Deployment
		if err := strict(document, &it); err != nil {
			return err
		}
		a.pods = append(a.pods, it.Spec.Template.Labels)
		for _, v := range it.Spec.Template.Spec.Volumes {
			if v.Name == "sidecall-state" && v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil {
				a.states = append(a.states, *v.EmptyDir.SizeLimit)
			}
		}
		return deployment(&it)
	case "networking.k8s.io/v1 NetworkPolicy":
		var it networking.NetworkPolicy
		if err := strict(document, &it); err != nil {
			return err
		}
		a.policies = append(a.policies, it)
		return policy(&it)
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
