// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/test/bed"
	"github.com/fairslice/fairslice/test/bed/binaries"
)

// devicePluginAccount is the service account that the manifests give the device
// plugin.
const devicePluginAccount = "fairslice-device-plugin"

// RealNodeOptions of a node with kubelet, containerd and device plugin.
type RealNodeOptions struct {
	Kubelet bed.KubeletOptions
	// Profile is the simulated machine whose GPUs the device plugin serves;
	// default "dgx-a100", which has 8.
	Profile string
	// PluginFlags are appended to the device plugin's.
	PluginFlags []string
	// Capabilities of the device plugin, which has no other: "kill". The manifests
	// give it none, their components one or two.
	Capabilities []string
}

// RealNode is a real node that serves simulated GPUs, those in MIG mode not
// counted.
type RealNode struct {
	*bed.Node
	GPUs int
}

// Plugin is the component name of the node's device plugin.
func (n *RealNode) Plugin() string { return n.Name + "-device-plugin" }

// StartRealNode starts the node and waits until its GPUs are allocatable. It
// needs root.
func (s *Stack) StartRealNode(ctx context.Context, o RealNodeOptions) (*RealNode, error) {
	if o.Profile == "" {
		o.Profile = "dgx-a100"
	}
	node, err := s.StartKubelet(ctx, o.Kubelet)
	if err != nil {
		return nil, err
	}
	n := &RealNode{Node: node}
	kubeconfig, err := s.pluginKubeconfig(ctx, n)
	if err != nil {
		return nil, err
	}
	setpriv, err := binaries.LookHost("setpriv")
	if err != nil {
		return nil, err
	}
	bounds := "-all"
	for _, c := range o.Capabilities {
		bounds += ",+" + c
	}
	err = s.StartProcess(ctx, bed.Process{
		Name: n.Plugin(), Path: setpriv,
		Args: append([]string{
			"--bounding-set=" + bounds, "--inh-caps=-all", "--no-new-privs", s.Binary, "device-plugin", "--node-name=" + n.Name, "--kubeconfig=" + kubeconfig,
			"--device-plugin-dir=" + n.DevicePluginDir(), "--pod-resources-socket=" + n.PodResourcesSocket(),
			"--cdi-dir=" + n.CDIDir(), "--simulate=" + o.Profile,
		}, o.PluginFlags...),
	})
	if err != nil {
		return nil, err
	}
	return n, s.awaitGPUs(ctx, n)
}

// pluginKubeconfig holds a token that is bound to the node, as the one that a
// pod of the DaemonSet gets: the admission policy lets it write there alone.
func (s *Stack) pluginKubeconfig(ctx context.Context, n *RealNode) (string, error) {
	object, err := s.Client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	token, err := s.Client.CoreV1().ServiceAccounts(Namespace).CreateToken(ctx, devicePluginAccount, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{
			Kind: "Node", APIVersion: "v1", Name: n.Name, UID: object.UID,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("make a token for the device plugin of node %s: %w", n.Name, err)
	}
	admin, err := s.AdminConfig()
	if err != nil {
		return "", err
	}
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken = token.Status.Token
	return s.WriteKubeconfig(n.Plugin(), config)
}

func (s *Stack) awaitGPUs(ctx context.Context, n *RealNode) error {
	err := poll(ctx, time.Minute, "the GPUs of node "+n.Name, func() (bool, error) {
		object, err := s.Client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		inventory, err := v1alpha1.DecodeInventory(object.Annotations[v1alpha1.AnnotationGPUs])
		n.GPUs = 0
		missing := false
		for _, g := range inventory.GPUs {
			if g.MIG == "" {
				n.GPUs++
			}
			for _, r := range g.Resources {
				q := object.Status.Allocatable[corev1.ResourceName(r)]
				missing = missing || q.IsZero()
			}
		}
		slices := object.Status.Allocatable[v1alpha1.ResourceGPUSlice]
		return err == nil && !missing && slices.Value() == int64(100*n.GPUs), nil
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, s.lastLines(n.Plugin(), 20))
	}
	return nil
}
