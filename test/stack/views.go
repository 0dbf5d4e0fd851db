// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/fairslice/fairslice/test/bed"
)

// View reads a path of the control plane's HTTP server into v.
func (s *Stack) View(ctx context.Context, path string, v any) error {
	raw, err := s.get(ctx, path)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}

// Metrics reads the control plane's metrics.
func (s *Stack) Metrics(ctx context.Context) (string, error) {
	raw, err := s.get(ctx, "/metrics")
	return string(raw), err
}

// ServerFlags let a command of the fairslice binary ask the control plane.
func (s *Stack) ServerFlags() []string {
	return []string{
		"--server=" + s.ExtenderURL(), "--server-name=" + extenderName, "--server-ca=" + s.certs.ca,
		"--client-cert=" + s.certs.clientCert, "--client-key=" + s.certs.clientKey,
	}
}

// WithFlags ends the control plane and starts it again under the same address
// with more flags. It returns the component's name, for Kill, Restart and Logs,
// and back ends it and brings the one without them back.
func (s *Stack) WithFlags(ctx context.Context, flags ...string) (component string, back func(context.Context) error, err error) {
	if err := s.Kill(ControlPlane); err != nil {
		return "", nil, err
	}
	s.flagged++
	component = fmt.Sprintf("%s-%d", ControlPlane, s.flagged)
	err = s.StartProcess(ctx, bed.Process{
		Name: component, Path: s.Binary,
		Args:  append(s.controlPlaneArgs(s.kubeconfig), flags...),
		Ready: s.httpOK("/readyz"),
	})
	return component, func(ctx context.Context) error {
		if err := s.Kill(component); err != nil {
			return err
		}
		return s.Restart(ctx, ControlPlane)
	}, err
}
