// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

//go:build kubelet

package bed_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	devicev1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/fairslice/fairslice/test/bed"
)

const widget = "example.com/widget"

// widgets is a device plugin with one device, which it hands out by CDI.
type widgets struct {
	devicev1.UnimplementedDevicePluginServer
}

func (widgets) GetDevicePluginOptions(context.Context, *devicev1.Empty) (*devicev1.DevicePluginOptions, error) {
	return &devicev1.DevicePluginOptions{}, nil
}

func (widgets) ListAndWatch(_ *devicev1.Empty, stream grpc.ServerStreamingServer[devicev1.ListAndWatchResponse]) error {
	devices := []*devicev1.Device{{ID: "w0", Health: devicev1.Healthy}}
	if err := stream.Send(&devicev1.ListAndWatchResponse{Devices: devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (widgets) Allocate(context.Context, *devicev1.AllocateRequest) (*devicev1.AllocateResponse, error) {
	device := []*devicev1.CDIDevice{{Name: widget + "=w0"}}
	return &devicev1.AllocateResponse{ContainerResponses: []*devicev1.ContainerAllocateResponse{{CdiDevices: device}}}, nil
}

// serveWidgets registers the plugin with the node's kubelet, from outside the
// node.
func serveWidgets(t *testing.T, node *bed.Node) {
	t.Helper()
	const socket = "widgets.sock"
	listener, err := net.Listen("unix", filepath.Join(node.DevicePluginDir(), socket))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	devicev1.RegisterDevicePluginServer(server, widgets{})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("the plugin's server ended with %v", err)
		}
	})
	connection := dial(t, filepath.Join(node.DevicePluginDir(), "kubelet.sock"))
	request := &devicev1.RegisterRequest{Version: devicev1.Version, Endpoint: socket, ResourceName: widget}
	if _, err := devicev1.NewRegistrationClient(connection).Register(t.Context(), request); err != nil {
		t.Fatal(err)
	}
}

func dial(t *testing.T, socket string) *grpc.ClientConn {
	t.Helper()
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return connection
}

func TestDevicePluginReachesContainerByCDI(t *testing.T) {
	cluster, node := realNode(t)
	spec := `{"cdiVersion": "0.6.0", "kind": "` + widget + `", "devices": [{"name": "w0", "containerEdits": {"env": ["WIDGET=w0"]}}]}`
	if err := os.WriteFile(filepath.Join(node.CDIDir(), "widget.json"), []byte(spec), 0o644); err != nil {
		t.Fatal(err)
	}
	serveWidgets(t, node)
	eventually(t, 30*time.Second, func(ctx context.Context) error {
		object, err := cluster.Client().CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
		if err == nil && object.Status.Allocatable.Name(widget, resource.DecimalSI).Value() != 1 {
			err = fmt.Errorf("node has allocatable %v, want one %s", object.Status.Allocatable, widget)
		}
		return err
	})
	pod := shellPod("owner", "echo $WIDGET; sleep 1000")
	pod.Spec.Containers[0].Resources.Limits[widget] = resource.MustParse("1")
	create(t, cluster, pod)
	eventually(t, 60*time.Second, hasPhase(cluster, "owner", corev1.PodRunning))
	eventually(t, 10*time.Second, func(ctx context.Context) error {
		out, err := cluster.Kubectl(ctx, "logs", "owner")
		if err == nil && strings.TrimSpace(out) != "w0" {
			err = fmt.Errorf("container prints %q, want the device's variable w0", out)
		}
		return err
	})
	lister := podresourcesv1.NewPodResourcesListerClient(dial(t, node.PodResourcesSocket()))
	list, err := lister.List(t.Context(), &podresourcesv1.ListPodResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(list.PodResources); !strings.Contains(text, `name:"owner"`) || !strings.Contains(text, `device_ids:"w0"`) {
		t.Errorf("kubelet lists %s, want pod owner with device w0", text)
	}
}
