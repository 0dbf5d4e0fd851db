// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// TestTranscripts runs testdata/*.txt. Commands, each with optional
// as=<who> (default alice) and ns=<namespace> (default plain):
//
//	create            the object, in YAML; a pod's tedious fields are filled in
//	try               the same, but nothing is stored
//	patch <kind> <name> [sub=<subresource>]   a JSON merge patch, in YAML
//	bind <pod> <node>                         with metadata of the Binding, in YAML
//	show <kind> <name>                        what the server stored and we care for
//	delete <kind> <name>
//	can <verb and resource, one a line>       what RBAC says
//	table <kind>                              what kubectl get prints
//
// $<node> in an object stands for the UID of that node. The answer is the
// server's own sentence.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if !strings.HasSuffix(path, ".txt") {
			return
		}
		s := &transcript{}
		t.Cleanup(func() { s.cleanUp(t) })
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			return s.command(ctx, t, d)
		})
	})
}

type transcript struct {
	created []created
}

type created struct {
	resource  schema.GroupVersionResource
	namespace string
	name      string
}

func (s *transcript) command(ctx context.Context, t *testing.T, d *datadriven.TestData) string {
	who, namespace := "alice", "plain"
	d.MaybeScanArgs(t, "as", &who)
	d.MaybeScanArgs(t, "ns", &namespace)
	client, err := server.client(ctx, who)
	if err != nil {
		t.Fatalf("%s: client of %s: %v", d.Pos, who, err)
	}
	c := call{ctx: ctx, client: client, namespace: namespace}
	switch d.Cmd {
	case "create":
		return s.create(c, t, d, false)
	case "try":
		return s.create(c, t, d, true)
	case "patch":
		return c.patch(t, d)
	case "bind":
		return c.bind(t, d)
	case "show":
		return c.show(t, d)
	case "delete":
		return c.delete(t, d)
	case "can":
		return can(ctx, t, who, d.Input)
	case "table":
		out, err := server.cluster.Kubectl(ctx, append([]string{"get", d.CmdArgs[0].Key, "-n", namespace}, wide(d)...)...)
		return answer(err, trimTable(out))
	}
	t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	return ""
}

func wide(d *datadriven.TestData) []string {
	if d.HasArg("wide") {
		return []string{"-o", "wide"}
	}
	return nil
}

// trimTable drops the last column, AGE, and spaces at line ends.
func trimTable(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	cut := strings.LastIndex(lines[0], "AGE")
	for i, line := range lines {
		if cut >= 0 && len(line) > cut {
			line = line[:cut]
		}
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

func answer(err error, good string) string {
	if err == nil {
		return good
	}
	return err.Error() + "\n"
}

// call is one request by one user.
type call struct {
	ctx       context.Context
	client    dynamic.Interface
	namespace string
}

func (c call) resource(t *testing.T, gvk schema.GroupVersionKind) (dynamic.ResourceInterface, schema.GroupVersionResource, bool) {
	mapping, err := server.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		t.Fatal(err)
	}
	if mapping.Scope.Name() == "root" {
		return c.client.Resource(mapping.Resource), mapping.Resource, false
	}
	return c.client.Resource(mapping.Resource).Namespace(c.namespace), mapping.Resource, true
}

func (s *transcript) create(c call, t *testing.T, d *datadriven.TestData, dry bool) string {
	object := decode(t, d)
	ri, gvr, namespaced := c.resource(t, object.GroupVersionKind())
	options := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	server.warnings.take()
	if _, err := ri.Create(c.ctx, object, options); err != nil {
		return answer(err, "")
	}
	if dry {
		return "accepted\n" + server.warnings.take()
	}
	entry := created{resource: gvr, name: object.GetName()}
	if namespaced {
		entry.namespace = c.namespace
	}
	s.created = append(s.created, entry)
	return "created\n" + server.warnings.take()
}

func (s *transcript) cleanUp(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	admin, err := server.client(ctx, "admin")
	if err != nil {
		t.Fatal(err)
	}
	now := int64(0)
	for _, o := range s.created {
		err := admin.Resource(o.resource).Namespace(o.namespace).Delete(ctx, o.name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("clean up %s %s: %v", o.resource.Resource, o.name, err)
		}
	}
}

var kinds = map[string]schema.GroupVersionKind{
	"pod":      {Version: "v1", Kind: "Pod"},
	"node":     {Version: "v1", Kind: "Node"},
	"queue":    {Group: "fairslice.io", Version: "v1alpha1", Kind: "Queue"},
	"podgroup": {Group: "fairslice.io", Version: "v1alpha1", Kind: "PodGroup"},
	"topology": {Group: "fairslice.io", Version: "v1alpha1", Kind: "Topology"},
}

// named returns the client and the name of "<kind> <name>" in the arguments.
func (c call) named(t *testing.T, d *datadriven.TestData) (dynamic.ResourceInterface, string) {
	gvk, ok := kinds[d.CmdArgs[0].Key]
	if !ok {
		t.Fatalf("%s: unknown kind %s", d.Pos, d.CmdArgs[0].Key)
	}
	ri, _, _ := c.resource(t, gvk)
	return ri, d.CmdArgs[1].Key
}

func (c call) patch(t *testing.T, d *datadriven.TestData) string {
	ri, name := c.named(t, d)
	var sub []string
	if d.HasArg("sub") {
		var s string
		d.ScanArgs(t, "sub", &s)
		sub = []string{s}
	}
	body, err := yaml.YAMLToJSON([]byte(d.Input))
	if err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	_, err = ri.Patch(c.ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict}, sub...)
	return answer(err, "patched\n")
}

func (c call) bind(t *testing.T, d *datadriven.TestData) string {
	pod, node := d.CmdArgs[0].Key, d.CmdArgs[1].Key
	binding := map[string]any{}
	if err := yaml.Unmarshal([]byte(d.Input), &binding); err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	object := &unstructured.Unstructured{Object: binding}
	object.SetAPIVersion("v1")
	object.SetKind("Binding")
	object.SetName(pod)
	object.Object["target"] = map[string]any{"apiVersion": "v1", "kind": "Node", "name": node}
	pods := c.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(c.namespace)
	_, err := pods.Create(c.ctx, object, metav1.CreateOptions{}, "binding")
	return answer(err, "bound\n")
}

func (c call) delete(t *testing.T, d *datadriven.TestData) string {
	ri, name := c.named(t, d)
	now := int64(0)
	return answer(ri.Delete(c.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}), "deleted\n")
}

func (c call) show(t *testing.T, d *datadriven.TestData) string {
	ri, name := c.named(t, d)
	object, err := ri.Get(c.ctx, name, metav1.GetOptions{})
	if err != nil {
		return answer(err, "")
	}
	shown := map[string]any{}
	for key, path := range map[string][]string{
		"labels":          {"metadata", "labels"},
		"annotations":     {"metadata", "annotations"},
		"schedulingGates": {"spec", "schedulingGates"},
		"schedulerName":   {"spec", "schedulerName"},
		"nodeName":        {"spec", "nodeName"},
	} {
		if value, ok, _ := unstructured.NestedFieldNoCopy(object.Object, path...); ok {
			shown[key] = value
		}
	}
	if containers, ok, _ := unstructured.NestedSlice(object.Object, "spec", "containers"); ok {
		for _, c := range containers {
			m := c.(map[string]any)
			shown["container "+m["name"].(string)] = m["resources"]
		}
	} else if spec, ok := object.Object["spec"]; ok && object.GetKind() != "Node" {
		shown["spec"] = spec
	}
	out, err := yaml.Marshal(shown)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// decode reads an object and fills in what a transcript leaves out of a pod.
func decode(t *testing.T, d *datadriven.TestData) *unstructured.Unstructured {
	raw, err := yaml.YAMLToJSON([]byte(d.Input))
	if err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	if name, after, found := strings.Cut(string(raw), `"$`); found {
		node, rest, _ := strings.Cut(after, `"`)
		raw = []byte(name + `"` + nodeUID(t, node) + `"` + rest)
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &object.Object); err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	switch object.GetKind() {
	case "":
		object.SetKind("Pod")
		object.SetAPIVersion("v1")
		fillPod(object.Object)
	case "Queue", "PodGroup", "Topology":
		object.SetAPIVersion("fairslice.io/v1alpha1")
	}
	if object.GetName() == "" {
		object.SetName("it")
	}
	return object
}

func fillPod(object map[string]any) {
	spec, _ := object["spec"].(map[string]any)
	if spec == nil {
		spec = map[string]any{}
		object["spec"] = spec
	}
	if spec["containers"] == nil {
		spec["containers"] = []any{map[string]any{}}
	}
	for _, field := range []string{"containers", "initContainers"} {
		list, _ := spec[field].([]any)
		for i, item := range list {
			c := item.(map[string]any)
			setDefault(c, "name", fmt.Sprintf("%c%d", field[0], i))
			setDefault(c, "image", "none")
			// "limits" beside the name is short for resources.limits.
			if limits, ok := c["limits"]; ok {
				c["resources"] = map[string]any{"limits": limits}
				delete(c, "limits")
			}
		}
	}
}

func setDefault(m map[string]any, key string, value any) {
	if _, ok := m[key]; !ok {
		m[key] = value
	}
}

func nodeUID(t *testing.T, name string) string {
	node, err := server.core().CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(node.UID)
}
