// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/fairslice/fairslice/test/bed/binaries"
	"github.com/fairslice/fairslice/test/bed/image"
)

// Images that every real node has. Pods name them with imagePullPolicy: Never.
const (
	// BusyboxImage has a shell and the usual tools.
	BusyboxImage = "fairslice.test/busybox:1"
	pauseImage   = "fairslice.test/pause:1"
)

// KubeletOptions of a real node.
type KubeletOptions struct {
	// Name of the node; default "node-1".
	Name string
	// Labels of the node, beside those that the kubelet sets.
	Labels map[string]string
	// Config is a KubeletConfiguration in YAML whose top-level fields replace
	// the test bed's, for example "podPidsLimit: 100".
	Config string
	// Flags are appended to the kubelet's.
	Flags []string
}

// Node is a real node: a kubelet and a containerd of its own, in a mount and a
// process-ID namespace of their own. Inside, the kubelet has its usual paths
// (/var/lib/kubelet, /var/run/cdi, …), so that a DaemonSet's hostPath volumes
// work as on any node; outside, the same folders are below Folder.
//
// Pods must set hostNetwork: true (there is no network plugin) and
// imagePullPolicy: Never.
type Node struct {
	Name string
	// Address is an address of this machine that is not loopback.
	Address string

	cluster *Cluster
	folder  string
	holder  *process
}

// Folder holds everything that the node writes.
func (n *Node) Folder() string { return n.folder }

// KubeletDir is the kubelet's root, /var/lib/kubelet inside the node. It
// outlives kills and restarts of the kubelet.
func (n *Node) KubeletDir() string { return filepath.Join(n.folder, "kubelet") }

// DevicePluginDir is where device plugins find kubelet.sock and put their own.
func (n *Node) DevicePluginDir() string { return filepath.Join(n.KubeletDir(), "device-plugins") }

// PodResourcesSocket is the kubelet's PodResources service.
func (n *Node) PodResourcesSocket() string {
	return filepath.Join(n.KubeletDir(), "pod-resources", "kubelet.sock")
}

// CDIDir is the folder whose CDI specifications containerd applies,
// /var/run/cdi inside the node.
func (n *Node) CDIDir() string { return filepath.Join(n.folder, "cdi") }

// ContainerdSocket is the container runtime's.
func (n *Node) ContainerdSocket() string { return filepath.Join(n.folder, "c.sock") }

// CgroupRoot is the control group, in every hierarchy, below which the node's
// pods lie.
func (n *Node) CgroupRoot() string {
	return "/" + cgroupName(n.cluster.folder) + "/" + filepath.Base(n.folder)
}

// Kubelet and Containerd are the names of the node's components, for Kill,
// Restart, Signal and Logs.
func (n *Node) Kubelet() string { return n.Name + "-kubelet" }

// Containerd see Kubelet.
func (n *Node) Containerd() string { return n.Name + "-containerd" }

// Command runs a program inside the node's namespaces.
func (n *Node) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", n.enter(program, args...)...)
}

func (n *Node) enter(program string, args ...string) []string {
	return append([]string{"--target=" + strconv.Itoa(n.holder.pid()), "--mount", "--pid", "--", program}, args...)
}

// Import makes the image of a tar archive (see package image) available to the
// node's pods.
func (n *Node) Import(ctx context.Context, archive string) error {
	ctr := n.cluster.programs.Path(binaries.Ctr)
	cmd := n.Command(ctx, ctr, "--address="+n.ContainerdSocket(), "--namespace=k8s.io", "images", "import", "--local", archive)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("import image %s into node %s: %w: %s", archive, n.Name, err, out)
	}
	return nil
}

// StartKubelet adds a real node and returns when it is ready for pods. It needs
// root, and installs Debian's runc and busybox-static if they are missing.
func (c *Cluster) StartKubelet(ctx context.Context, options KubeletOptions) (*Node, error) {
	if options.Name == "" {
		options.Name = "node-1"
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("start node %s: a real node needs root", options.Name)
	}
	if err := binaries.EnsureHost(ctx, c.options.Progress, "runc", "busybox", "nsenter", "setpriv"); err != nil {
		return nil, err
	}
	if _, err := binaries.Ensure(ctx, c.options.Progress, binaries.Node...); err != nil {
		return nil, err
	}
	n := &Node{Name: options.Name, cluster: c}
	for _, step := range []func(context.Context, KubeletOptions) error{
		n.makeFolder, n.startHolder, n.startContainerd, n.importImages, n.startKubelet, n.label,
	} {
		if err := step(ctx, options); err != nil {
			return nil, fmt.Errorf("start node %s: %w", n.Name, err)
		}
	}
	return n, nil
}

// nodeFolders are made at the start; those with a target are bound there inside
// the node.
var nodeFolders = map[string]string{
	"kubelet": "/var/lib/kubelet", "pods": "/var/log/pods", "containers": "/var/log/containers",
	"run": "/run/containerd", "cdi": "/var/run/cdi", "containerd": "", "cni": "", "sysctl": "",
}

func (n *Node) makeFolder(context.Context, KubeletOptions) error {
	// The name is short for the sake of sockets; it is in no other's way.
	for i := 1; ; i++ {
		n.folder = filepath.Join(n.cluster.folder, "n"+strconv.Itoa(i))
		if err := os.Mkdir(n.folder, 0o755); err == nil {
			break
		} else if !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	for name := range nodeFolders {
		if err := os.Mkdir(filepath.Join(n.folder, name), 0o755); err != nil {
			return err
		}
	}
	// So that device plugins may wait for kubelet.sock before the first start.
	if err := os.Mkdir(n.DevicePluginDir(), 0o755); err != nil {
		return err
	}
	return makeCgroups(n.CgroupRoot())
}

// startHolder starts the first process of the node's namespaces; with its end
// the kernel kills all others and drops all mounts.
func (n *Node) startHolder(ctx context.Context, _ KubeletOptions) error {
	ready := filepath.Join(n.folder, "ready")
	n.holder = &process{
		name: n.Name + "-holder", path: "/proc/self/exe",
		env:   []string{envRole + "=node", envNode + "=" + n.folder},
		flags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		ready: func(context.Context) error {
			_, err := os.Stat(ready)
			return err
		},
	}
	return n.cluster.run(ctx, n.holder)
}

func (n *Node) startContainerd(ctx context.Context, _ KubeletOptions) error {
	runc, err := binaries.LookHost("runc")
	if err != nil {
		return err
	}
	config := filepath.Join(n.folder, "containerd.toml")
	if err := os.WriteFile(config, []byte(n.containerdConfig(runc)), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(n.folder, "cni", "10-none.conflist"), []byte(noNetwork), 0o644); err != nil {
		return err
	}
	ctr := n.cluster.programs.Path(binaries.Ctr)
	return n.cluster.run(ctx, &process{
		name: n.Containerd(), path: "nsenter",
		args: n.enter(n.cluster.programs.Path(binaries.Containerd), "--config="+config),
		// The shim is looked up in PATH.
		env: []string{"PATH=" + string(n.cluster.programs) + ":" + os.Getenv("PATH") + ":/usr/sbin:/sbin"},
		ready: func(ctx context.Context) error {
			return exec.CommandContext(ctx, ctr, "--address="+n.ContainerdSocket(), "--connect-timeout=1s", "version").Run()
		},
	})
}

// importImages makes the pause image, whose one process waits until it is
// killed, and the busybox image for pods.
func (n *Node) importImages(ctx context.Context, _ KubeletOptions) error {
	path, err := binaries.LookHost("busybox")
	if err != nil {
		return err
	}
	busybox, err := image.Busybox(BusyboxImage, path)
	if err != nil {
		return err
	}
	pause := busybox
	pause.Ref, pause.Entrypoint, pause.Cmd = pauseImage, []string{"/bin/sleep", "2147483647"}, nil
	for i, spec := range []image.Spec{busybox, pause} {
		archive := filepath.Join(n.folder, fmt.Sprintf("image-%d.tar", i))
		if err := image.WriteFile(archive, spec); err != nil {
			return err
		}
		if err := n.Import(ctx, archive); err != nil {
			return err
		}
		if err := os.Remove(archive); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) startKubelet(ctx context.Context, options KubeletOptions) error {
	address, err := machineAddress()
	if err != nil {
		return err
	}
	n.Address = address
	kubeconfig, err := n.cluster.Kubeconfig("system:node:"+n.Name, "system:nodes")
	if err != nil {
		return err
	}
	serving, err := n.cluster.ca.server(n.Name, address)
	if err != nil {
		return err
	}
	if err := serving.write(n.folder, "kubelet"); err != nil {
		return err
	}
	config, err := n.kubeletConfig(options.Config)
	if err != nil {
		return err
	}
	raw, err := yaml.Marshal(config)
	if err != nil {
		return err
	}
	path := filepath.Join(n.folder, "kubelet.yaml")
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		return err
	}
	flags := append([]string{
		"--config=" + path, "--kubeconfig=" + kubeconfig, "--hostname-override=" + n.Name, "--node-ip=" + address,
		"--root-dir=/var/lib/kubelet", "--cert-dir=" + n.folder,
	}, options.Flags...)
	return n.cluster.run(ctx, &process{
		name: n.Kubelet(), path: "nsenter",
		args:  n.enter(n.cluster.programs.Path(binaries.Kubelet), flags...),
		ready: n.ready(config["healthzPort"].(int)),
	})
}

// ready says whether the kubelet serves and the scheduler may use the node.
func (n *Node) ready(healthzPort int) func(context.Context) error {
	healthy := httpReady(fmt.Sprintf("http://127.0.0.1:%d/healthz", healthzPort))
	return func(ctx context.Context) error {
		if err := healthy(ctx); err != nil {
			return err
		}
		node, err := n.cluster.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, taint := range node.Spec.Taints {
			if taint.Key == corev1.TaintNodeNotReady && !n.cluster.options.NoControllerManager {
				return fmt.Errorf("node has taint %s", taint.Key)
			}
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
				return fmt.Errorf("node is not ready: %s", condition.Message)
			}
		}
		return nil
	}
}

// label sets what the kubelet may not set on its own node.
func (n *Node) label(ctx context.Context, options KubeletOptions) error {
	if len(options.Labels) == 0 {
		return nil
	}
	patch, err := yaml.Marshal(map[string]any{"metadata": map[string]any{"labels": options.Labels}})
	if err != nil {
		return err
	}
	if patch, err = yaml.YAMLToJSON(patch); err != nil {
		return err
	}
	_, err = n.cluster.client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// machineAddress is an IPv4 address of an interface that is up and not
// loopback: the kubelet takes no other for its node.
func machineAddress() (string, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP.String(), nil
		}
	}
	return "", errors.New("this machine has no IPv4 address beside loopback, and a kubelet takes no loopback address for its node (ip address add 192.0.2.1/32 dev lo gives one)")
}
