// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/fairslice/fairslice/deviceplugin"
)

const pluginFolder = folder + "/deviceplugin"

// pluginWith renders the device plugin with components, as docs/deviceplugin.md
// tells an administrator to.
func pluginWith(t *testing.T, components ...string) (rendered string, d appsv1.DaemonSet, rights []rbacv1.PolicyRule) {
	t.Helper()
	dir := t.TempDir()
	relative := func(to string) string {
		t.Helper()
		to, err := filepath.Abs(to)
		if err == nil {
			to, err = filepath.Rel(dir, to)
		}
		if err != nil {
			t.Fatal(err)
		}
		return to
	}
	text := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- " + relative(pluginFolder) + "\n"
	if len(components) > 0 {
		text += "components:\n"
	}
	for _, c := range components {
		text += "- " + relative(filepath.Join(pluginFolder, "components", c)) + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	rendered, err := server.cluster.Kubectl(t.Context(), "kustomize", dir)
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(rendered, "\n---\n") {
		var kind struct{ Kind string }
		role := rbacv1.ClusterRole{}
		err := yaml.Unmarshal([]byte(document), &kind)
		switch kind.Kind {
		case "DaemonSet":
			err = yaml.UnmarshalStrict([]byte(document), &d)
		case "ClusterRole":
			err = yaml.UnmarshalStrict([]byte(document), &role)
			rights = append(rights, role.Rules...)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return rendered, d, rights
}

func components(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(pluginFolder, "components"))
	if err != nil || len(entries) == 0 {
		t.Fatalf("no components: %v", err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// TestBaseHasNoPrivileges: what is installed unless somebody chooses more.
func TestBaseHasNoPrivileges(t *testing.T) {
	_, d, rights := pluginWith(t)
	spec := d.Spec.Template.Spec
	if spec.HostPID || spec.HostNetwork || spec.HostIPC || len(spec.InitContainers) > 0 || len(rights) > 0 {
		t.Errorf("a namespace of the host, an init container, or rights of its own: %+v", spec)
	}
	for _, c := range spec.Containers {
		s := c.SecurityContext
		if s == nil || s.Capabilities == nil || s.SeccompProfile == nil {
			t.Fatalf("container %s: %+v", c.Name, s)
		}
		for what, holds := range map[string]bool{
			"privileged: false":               s.Privileged != nil && !*s.Privileged,
			"allowPrivilegeEscalation: false": s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation,
			"readOnlyRootFilesystem: true":    s.ReadOnlyRootFilesystem != nil && *s.ReadOnlyRootFilesystem,
			"all capabilities dropped":        slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) && len(s.Capabilities.Add) == 0,
			"seccomp profile of the runtime":  s.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		} {
			if !holds {
				t.Errorf("container %s lacks %s", c.Name, what)
			}
		}
	}
}

// TestPrivilegesAreAsDocumented: the table of docs/deviceplugin.md says exactly what
// each component adds to the base, and names all of them.
func TestPrivilegesAreAsDocumented(t *testing.T) {
	raw, err := os.ReadFile("../../docs/deviceplugin.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(raw), "| component | capabilities | host's PIDs | host folders | rights | flags |\n")
	if !found {
		t.Fatal("docs/deviceplugin.md has no table of components")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	var got []string
	for line := range strings.Lines(table) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "|---") {
			got = append(got, line)
		}
	}
	_, base, _ := pluginWith(t)
	want := []string{row("(base)", appsv1.DaemonSet{}, base, nil)}
	for _, c := range components(t) {
		_, d, rights := pluginWith(t, c)
		want = append(want, row("`"+c+"`", base, d, rights))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("docs/deviceplugin.md has\n%s\nthe manifests say\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// row tells what d has and base has not.
func row(name string, base, d appsv1.DaemonSet, rights []rbacv1.PolicyRule) string {
	had := main(base)
	has := main(d)
	var caps, folders, flags, allowed []string
	if s := has.SecurityContext; s != nil {
		for _, c := range s.Capabilities.Add {
			caps = append(caps, string(c))
		}
		if *s.Privileged {
			caps = []string{"privileged"}
		}
	}
	paths := func(d appsv1.DaemonSet, c corev1.Container) (out []string) {
		for _, v := range d.Spec.Template.Spec.Volumes {
			for _, m := range c.VolumeMounts {
				if v.HostPath == nil || m.Name != v.Name {
					continue
				}
				text := "`" + v.HostPath.Path + "`"
				if m.ReadOnly {
					text += " (read only)"
				}
				out = append(out, text)
			}
		}
		return out
	}
	for _, p := range paths(d, has) {
		if !slices.Contains(paths(base, had), p) {
			folders = append(folders, p)
		}
	}
	for _, a := range has.Args {
		if strings.HasPrefix(a, "--") && !strings.HasPrefix(a, "--node-name") && !slices.Contains(had.Args, a) {
			flags = append(flags, "`"+a+"`")
		}
	}
	for _, r := range rights {
		allowed = append(allowed, "`"+strings.Join(r.Verbs, ", ")+"` "+strings.Join(r.Resources, ", "))
	}
	pids := "no"
	if d.Spec.Template.Spec.HostPID {
		pids = "yes"
	}
	cell := func(list []string) string {
		if len(list) == 0 {
			return "–"
		}
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s |", name, cell(caps), pids, cell(folders), cell(allowed), cell(flags))
}

// main is the plugin's container.
func main(d appsv1.DaemonSet) corev1.Container {
	for _, c := range d.Spec.Template.Spec.Containers {
		if c.Name == "device-plugin" {
			return c
		}
	}
	return corev1.Container{}
}

// TestComponentsAreAccepted: the API server takes the base with each of them, and
// with all that go together; the plugin takes the flags that come out.
func TestComponentsAreAccepted(t *testing.T) {
	sets := map[string][]string{"base": nil, "together": {"cgroup", "mig", "volume-mounts", "watch-evict", "watch-kill"}}
	for _, c := range components(t) {
		sets[c] = []string{c}
	}
	for name, set := range sets {
		t.Run(name, func(t *testing.T) {
			rendered, d, _ := pluginWith(t, set...)
			file := filepath.Join(t.TempDir(), "rendered.yaml")
			if err := os.WriteFile(file, []byte(rendered), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := server.cluster.Kubectl(t.Context(), "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", file); err != nil {
				t.Error(err)
			}
			o := deviceplugin.DefaultOptions()
			f := pflag.NewFlagSet("device-plugin", pflag.ContinueOnError)
			o.AddFlags(f)
			if err := f.Parse(main(d).Args[1:]); err != nil {
				t.Error(err)
			} else if err := o.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}
