package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
)

// least is what the sidecar needs of the grace of its pod, in seconds: 25 for its calls,
// 7 for what they stood on.
const least = 32

// deployment checks what docs/deploy.md says of a pod with a sidecar.
func deployment(d *apps.Deployment) error {
	pod := d.Spec.Template.Spec
	var errs []error
	must := func(ok bool, what string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(what, args...))
		}
	}
	labels := d.Spec.Template.Labels
	for key, value := range d.Spec.Selector.MatchLabels {
		must(labels[key] == value, "the pod does not have the label %s: %s", key, value)
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		errs = append(errs, pinned(c.Image))
		must(c.ImagePullPolicy != "", "%s does not say when its image is pulled", c.Name)
	}
	at := slices.IndexFunc(pod.InitContainers, func(c core.Container) bool { return c.Name == "sidecall" })
	if at < 0 {
		return errors.New("there is no init container sidecall")
	}
	c := pod.InitContainers[at]
	must(c.RestartPolicy != nil && *c.RestartPolicy == core.ContainerRestartPolicyAlways, "the sidecar is no native one: restartPolicy Always")
	must(pod.TerminationGracePeriodSeconds != nil && *pod.TerminationGracePeriodSeconds >= least, "the pod has less than %d s to end", least)
	must(c.StartupProbe != nil && c.ReadinessProbe != nil && c.LivenessProbe != nil, "a probe is missing")
	for _, probe := range []*core.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		must(probe != nil && probe.Exec != nil && !slices.Contains(probe.Exec.Command, "--config"), "a probe asks from outside of the pod, or reads the config")
	}
	must(!c.Resources.Requests.Memory().IsZero(), "no memory is requested, so GOMEMLIMIT would be the node's")
	must(c.Resources.Limits.Memory().IsZero() || c.Resources.Limits.Memory().Cmp(*c.Resources.Requests.Memory()) > 0, "the limit leaves no room beside Go's memory")
	must(memoryLimit(c.Env), "GOMEMLIMIT does not come from the resources")
	errs = append(errs, security(c, pod.SecurityContext), mounts(c, pod))
	return errors.Join(errs...)
}

func memoryLimit(env []core.EnvVar) bool {
	return slices.ContainsFunc(env, func(e core.EnvVar) bool {
		return e.Name == "GOMEMLIMIT" && e.ValueFrom != nil && e.ValueFrom.ResourceFieldRef != nil && e.ValueFrom.ResourceFieldRef.ContainerName == "sidecall"
	})
}

func security(c core.Container, pod *core.PodSecurityContext) error {
	its := c.SecurityContext
	nonRoot := its != nil && its.RunAsNonRoot != nil && *its.RunAsNonRoot || pod != nil && pod.RunAsNonRoot != nil && *pod.RunAsNonRoot
	switch {
	case its == nil || its.ReadOnlyRootFilesystem == nil || !*its.ReadOnlyRootFilesystem:
		return errors.New("the root file system can be written")
	case its.AllowPrivilegeEscalation == nil || *its.AllowPrivilegeEscalation:
		return errors.New("privileges can grow")
	case its.Capabilities == nil || !slices.Contains(its.Capabilities.Drop, "ALL"):
		return errors.New("capabilities are kept")
	case !nonRoot:
		return errors.New("it may run as root")
	}
	return nil
}

// mounts checks that every mount has its volume, that what is reloaded is mounted so that
// it can change, and that the agent has the socket and nothing else of the sidecar's.
func mounts(c core.Container, pod core.PodSpec) error {
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = false
	}
	var errs []error
	for _, container := range append(slices.Clone(pod.Containers), c) {
		for _, m := range container.VolumeMounts {
			if _, ok := volumes[m.Name]; !ok {
				errs = append(errs, fmt.Errorf("%s mounts %s, and there is no such volume", container.Name, m.Name))
			}
			volumes[m.Name] = true
			if m.SubPath != "" {
				errs = append(errs, fmt.Errorf("%s mounts %s by a subPath, which never changes", container.Name, m.Name))
			}
			if container.Name != c.Name && m.Name != "sidecall-socket" && slices.ContainsFunc(c.VolumeMounts, func(its core.VolumeMount) bool { return its.Name == m.Name }) {
				errs = append(errs, fmt.Errorf("%s mounts %s, which is the sidecar's", container.Name, m.Name))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(volumes)) {
		if !volumes[name] {
			errs = append(errs, fmt.Errorf("nobody mounts the volume %s", name))
		}
	}
	return errors.Join(errs...)
}
