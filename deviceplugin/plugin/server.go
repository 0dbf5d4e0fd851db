// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/fairslice/fairslice/deviceplugin/match"
	"github.com/fairslice/fairslice/deviceplugin/pool"
)

// coalesce is how long changes are collected before the kubelet hears of them: it
// writes its checkpoint at every message.
const coalesce = 20 * time.Millisecond

// server serves one resource.
type server struct {
	deviceplugin.UnimplementedDevicePluginServer
	kind pool.Kind
	cfg  *Config
	log  *slog.Logger
	stop <-chan struct{}

	mu     sync.Mutex
	missed map[int]time.Time // by number of devices: nobody was waiting for so many
}

// GetDevicePluginOptions says that both optional calls are wanted.
func (s *server) GetDevicePluginOptions(context.Context, *deviceplugin.Empty) (*deviceplugin.DevicePluginOptions, error) {
	return options(), nil
}

func options() *deviceplugin.DevicePluginOptions {
	return &deviceplugin.DevicePluginOptions{PreStartRequired: true, GetPreferredAllocationAvailable: true}
}

// ListAndWatch sends the devices, and again after each change.
func (s *server) ListAndWatch(_ *deviceplugin.Empty, stream deviceplugin.DevicePlugin_ListAndWatchServer) error {
	var sent []pool.Device
	for {
		changed := s.cfg.Book.Changed()
		if now := s.cfg.Book.Devices(s.kind); sent == nil || !slices.Equal(now, sent) {
			if err := stream.Send(listing(now)); err != nil {
				return fmt.Errorf("sending the devices of %s: %w", s.cfg.Names[s.kind], err)
			}
			sent = now
		}
		select {
		case <-s.stop:
			return nil
		case <-stream.Context().Done():
			return nil
		case <-changed:
		}
		pause(stream.Context(), coalesce)
	}
}

// listing carries no topology: the control plane has chosen the GPU, and the
// topology manager would count free IDs where we count memory.
func listing(devices []pool.Device) *deviceplugin.ListAndWatchResponse {
	out := &deviceplugin.ListAndWatchResponse{Devices: make([]*deviceplugin.Device, 0, len(devices))}
	for _, d := range devices {
		health := deviceplugin.Healthy
		if !d.Healthy {
			health = deviceplugin.Unhealthy
		}
		out.Devices = append(out.Devices, &deviceplugin.Device{ID: d.ID, Health: health})
	}
	return out
}

// GetPreferredAllocation steers the kubelet to the planned GPUs.
func (s *server) GetPreferredAllocation(ctx context.Context, req *deviceplugin.PreferredAllocationRequest) (*deviceplugin.PreferredAllocationResponse, error) {
	s.settle()
	out := &deviceplugin.PreferredAllocationResponse{}
	for _, c := range req.GetContainerRequests() {
		size := int(c.GetAllocationSize())
		var ids []string
		s.untilKnown(ctx, size, func(bool) bool {
			var certain bool
			ids, certain = s.cfg.Book.Prefer(s.kind, c.GetAvailableDeviceIDs(), c.GetMustIncludeDeviceIDs(), size)
			return certain
		})
		out.ContainerResponses = append(out.ContainerResponses, &deviceplugin.ContainerPreferredAllocationResponse{DeviceIDs: ids})
	}
	return out, nil
}

// Allocate gives all containers of the request their devices, or none.
func (s *server) Allocate(ctx context.Context, req *deviceplugin.AllocateRequest) (*deviceplugin.AllocateResponse, error) {
	s.settle()
	out := &deviceplugin.AllocateResponse{}
	var done []match.Grant
	for _, c := range req.GetContainerRequests() {
		g, response, err := s.allocate(ctx, c.GetDevicesIds())
		if err != nil {
			for _, g := range done {
				s.cfg.Book.Undo(g)
			}
			s.cfg.Book.CountRefusal()
			s.log.Warn("refused devices", "resource", s.cfg.Names[s.kind], "devices", len(c.GetDevicesIds()), "reason", err)
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		}
		done = append(done, g)
		out.ContainerResponses = append(out.ContainerResponses, response)
	}
	return out, nil
}

func (s *server) allocate(ctx context.Context, ids []string) (match.Grant, *deviceplugin.ContainerAllocateResponse, error) {
	var (
		g   match.Grant
		err error
	)
	s.untilKnown(ctx, len(ids), func(final bool) bool {
		g, err = s.cfg.Book.Allocate(s.kind, ids, final, s.cfg.Now())
		var refusal *match.Refusal
		return !errors.As(err, &refusal) || !refusal.Transient
	})
	if err != nil {
		return g, nil, err
	}
	response, err := s.cfg.Respond.respond(g)
	if err != nil {
		s.cfg.Book.Undo(g)
		return g, nil, err
	}
	s.log.Info("gave devices", "resource", s.cfg.Names[s.kind], "devices", len(ids), "gpus", response.Envs[EnvUUIDs], "likely", g.Predicted.String())
	return g, response, nil
}

// untilKnown repeats an attempt at each change of the book, until it is satisfied
// or the informer had its time; the last attempt is final. Right after a vain wait
// for the same number of devices it does not wait again, so that a pod that is
// hopeless, or a controller that makes one after another, holds up the node once.
func (s *server) untilKnown(ctx context.Context, devices int, attempt func(final bool) bool) {
	s.mu.Lock()
	patient := s.cfg.Now().Sub(s.missed[devices]) > missMemory
	s.mu.Unlock()
	deadline := time.NewTimer(s.cfg.InformerWait)
	defer deadline.Stop()
	for patient {
		changed := s.cfg.Book.Changed()
		if attempt(false) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			patient = false
		case <-deadline.C:
			patient = false
			s.mu.Lock()
			s.missed[devices] = s.cfg.Now()
			s.mu.Unlock()
		}
	}
	attempt(true)
}

// missMemory is how long a vain wait is remembered.
const missMemory = 5 * time.Second

// PreStartContainer is called before every start of a container. By now the
// kubelet has recorded whose devices they are.
func (s *server) PreStartContainer(ctx context.Context, req *deviceplugin.PreStartContainerRequest) (*deviceplugin.PreStartContainerResponse, error) {
	ids := slices.Sorted(slices.Values(req.GetDevicesIds()))
	owner, known := s.cfg.Identify(ctx, s.kind, ids)
	if !known {
		// The devices alone define GPU and limits; only names are missing.
		s.log.Warn("the kubelet has no record of devices that it starts a container with", "resource", s.cfg.Names[s.kind], "devices", len(ids))
	}
	if err := s.cfg.Start(s.kind, ids); err != nil {
		return nil, status.Error(codes.Unavailable, fmt.Sprintf("%s is not ready to start: %v", owner, err))
	}
	return &deviceplugin.PreStartContainerResponse{}, nil
}

// settle brings the book up to the kubelet's checkpoint.
func (s *server) settle() {
	if err := s.cfg.Settle(); err != nil {
		s.log.Debug("no checkpoint to settle by", "reason", err)
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
