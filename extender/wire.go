// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// podRef is the part of a pod in a request that the extender reads. All else
// comes from the ledger, so a request is scanned, not built up as objects.
type podRef struct {
	UID, Namespace, Name string
	Labels               map[string]string
	// Resources names everything that a container requests or limits.
	Resources map[string]bool
}

func (p podRef) String() string { return p.Namespace + "/" + p.Name }

// nodeArgs are the arguments of filter and prioritize. Exactly one of the two
// forms was sent: names (nodeCacheCapable), or objects, whose raw text is kept
// so that it can be sent back unchanged.
type nodeArgs struct {
	Pod     podRef
	Names   []string
	Objects map[string]jsontext.Value // nil in the names form
}

// candidate is a node on which kube-scheduler's dry run found victims.
type candidate struct {
	Victims       []string // UIDs
	PDBViolations int64
}

// preemptArgs are the arguments of preempt.
type preemptArgs struct {
	Pod   podRef
	Nodes map[string]candidate
}

// bindArgs are the arguments of bind.
type bindArgs struct{ UID, Namespace, Name, Node string }

func decodeNodeArgs(r io.Reader) (nodeArgs, error) {
	var args nodeArgs
	var sawPod bool
	d := decoder{jsontext.NewDecoder(r)}
	err := d.document(func(key string) error {
		switch {
		case strings.EqualFold(key, "Pod"):
			return d.pod(&args.Pod, &sawPod)
		case strings.EqualFold(key, "NodeNames"):
			return d.array("NodeNames", func() error {
				name, err := d.text("NodeNames")
				args.Names = append(args.Names, name)
				return err
			})
		case strings.EqualFold(key, "Nodes"):
			return d.nodeList(&args)
		}
		return d.SkipValue()
	})
	if err == nil && !sawPod {
		err = errors.New("field Pod is missing or null, must be the pod to place")
	}
	return args, err
}

func decodePreemptArgs(r io.Reader) (preemptArgs, error) {
	args := preemptArgs{Nodes: map[string]candidate{}}
	var sawPod bool
	d := decoder{jsontext.NewDecoder(r)}
	err := d.document(func(key string) error {
		switch {
		case strings.EqualFold(key, "Pod"):
			return d.pod(&args.Pod, &sawPod)
		case strings.EqualFold(key, "NodeNameToMetaVictims"), strings.EqualFold(key, "NodeNameToVictims"):
			return d.object(key, func(node string) error {
				c, err := d.candidate(node)
				args.Nodes[node] = c
				return err
			})
		}
		return d.SkipValue()
	})
	if err == nil && !sawPod {
		err = errors.New("field Pod is missing or null, must be the pod to place")
	}
	return args, err
}

func decodeBindArgs(r io.Reader) (bindArgs, error) {
	var args bindArgs
	d := decoder{jsontext.NewDecoder(r)}
	fields := map[string]*string{
		"poduid": &args.UID, "podnamespace": &args.Namespace, "podname": &args.Name, "node": &args.Node,
	}
	err := d.document(func(key string) error {
		into, known := fields[strings.ToLower(key)]
		if !known {
			return d.SkipValue()
		}
		s, err := d.text(key)
		*into = s
		return err
	})
	if err != nil {
		return args, err
	}
	for _, f := range []struct{ name, value string }{
		{"PodUID", args.UID}, {"PodNamespace", args.Namespace}, {"PodName", args.Name}, {"Node", args.Node},
	} {
		if f.value == "" {
			return args, fmt.Errorf("field %s is empty, must be set", f.name)
		}
	}
	return args, nil
}

// decoder adds to jsontext.Decoder the shapes that the extender protocol uses.
// Null stands for an absent value everywhere.
type decoder struct{ *jsontext.Decoder }

// document reads one object and demands that nothing follows it.
func (d decoder) document(field func(key string) error) error {
	if d.PeekKind() != '{' {
		if _, err := d.ReadValue(); err != nil {
			return fmt.Errorf("body is not JSON: %w", err)
		}
		return errors.New("body must be a JSON object")
	}
	if err := d.object("body", field); err != nil {
		return err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("body must hold one JSON object and nothing after it")
	}
	return nil
}

func (d decoder) object(name string, field func(key string) error) error {
	tok, err := d.ReadToken()
	if err != nil {
		return fmt.Errorf("field %s: %w", name, err)
	}
	switch tok.Kind() {
	case 'n':
		return nil
	case '{':
	default:
		return fmt.Errorf("field %s must be an object", name)
	}
	for d.PeekKind() != '}' {
		key, err := d.ReadToken()
		if err != nil {
			return fmt.Errorf("field %s: %w", name, err)
		}
		if err := field(key.String()); err != nil {
			return err
		}
	}
	_, err = d.ReadToken()
	return err
}

func (d decoder) array(name string, element func() error) error {
	tok, err := d.ReadToken()
	if err != nil {
		return fmt.Errorf("field %s: %w", name, err)
	}
	switch tok.Kind() {
	case 'n':
		return nil
	case '[':
	default:
		return fmt.Errorf("field %s must be a list", name)
	}
	for d.PeekKind() != ']' {
		if err := element(); err != nil {
			return err
		}
	}
	_, err = d.ReadToken()
	return err
}

func (d decoder) text(name string) (string, error) {
	tok, err := d.ReadToken()
	if err != nil {
		return "", fmt.Errorf("field %s: %w", name, err)
	}
	switch tok.Kind() {
	case 'n':
		return "", nil
	case '"':
		return tok.String(), nil
	}
	return "", fmt.Errorf("field %s must be a string", name)
}

func (d decoder) pod(p *podRef, saw *bool) error {
	*saw = d.PeekKind() == '{'
	return d.object("Pod", func(key string) error {
		switch key {
		case "metadata":
			return d.object("metadata", func(key string) error { return d.metadataField(key, p) })
		case "spec":
			return d.object("spec", func(key string) error {
				if key != "containers" && key != "initContainers" {
					return d.SkipValue()
				}
				return d.array(key, func() error { return d.container(p) })
			})
		}
		return d.SkipValue()
	})
}

func (d decoder) metadataField(key string, p *podRef) (err error) {
	switch key {
	case "uid":
		p.UID, err = d.text(key)
	case "namespace":
		p.Namespace, err = d.text(key)
	case "name":
		p.Name, err = d.text(key)
	case "labels":
		p.Labels = map[string]string{}
		return d.object(key, func(label string) error {
			value, err := d.text(label)
			p.Labels[label] = value
			return err
		})
	default:
		return d.SkipValue()
	}
	return err
}

func (d decoder) container(p *podRef) error {
	return d.object("container", func(key string) error {
		if key != "resources" {
			return d.SkipValue()
		}
		return d.object(key, func(key string) error {
			if key != "requests" && key != "limits" {
				return d.SkipValue()
			}
			return d.object(key, func(resource string) error {
				if p.Resources == nil {
					p.Resources = map[string]bool{}
				}
				p.Resources[resource] = true
				return d.SkipValue()
			})
		})
	})
}

func (d decoder) nodeList(args *nodeArgs) error {
	return d.object("Nodes", func(key string) error {
		if key != "items" {
			return d.SkipValue()
		}
		args.Objects = map[string]jsontext.Value{}
		return d.array(key, func() error {
			raw, err := d.ReadValue()
			if err != nil {
				return fmt.Errorf("field Nodes: %w", err)
			}
			raw = raw.Clone()
			name, err := nodeName(raw)
			if err != nil {
				return err
			}
			args.Names = append(args.Names, name)
			args.Objects[name] = raw
			return nil
		})
	})
}

func nodeName(raw jsontext.Value) (name string, err error) {
	d := decoder{jsontext.NewDecoder(strings.NewReader(string(raw)))}
	err = d.object("node", func(key string) error {
		if key != "metadata" {
			return d.SkipValue()
		}
		return d.object(key, func(key string) error {
			if key != "name" {
				return d.SkipValue()
			}
			var err error
			name, err = d.text(key)
			return err
		})
	})
	return name, err
}

// candidate reads Victims (whole pods) or MetaVictims (UIDs alone).
func (d decoder) candidate(node string) (c candidate, err error) {
	err = d.object(node, func(key string) error {
		switch {
		case strings.EqualFold(key, "Pods"):
			return d.array(key, func() error {
				uid, err := d.victim()
				if uid != "" {
					c.Victims = append(c.Victims, uid)
				}
				return err
			})
		case strings.EqualFold(key, "NumPDBViolations") && d.PeekKind() == '0':
			tok, err := d.ReadToken()
			if err != nil {
				return err
			}
			if c.PDBViolations, err = tok.Int(); err != nil {
				return fmt.Errorf("field NumPDBViolations: %w", err)
			}
			return nil
		}
		return d.SkipValue()
	})
	return c, err
}

func (d decoder) victim() (uid string, err error) {
	err = d.object("Pods", func(key string) error {
		switch key {
		case "UID":
			var err error
			uid, err = d.text(key)
			return err
		case "metadata":
			var p podRef
			err := d.object(key, func(key string) error { return d.metadataField(key, &p) })
			uid = p.UID
			return err
		}
		return d.SkipValue()
	})
	return uid, err
}
