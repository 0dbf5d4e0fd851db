// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairslice/fairslice/deviceplugin/hostproc"
	"github.com/fairslice/fairslice/deviceplugin/match"
)

// Directory tells a container's name from what its cgroup says.
type Directory struct {
	mu   sync.Mutex
	pods map[string]*entry      // by the API's UID
	ids  map[string]match.Owner // by container ID
	// mirror maps the kubelet's UID of a static pod to the API's.
	mirror map[string]string
}

type entry struct {
	ids []string
	// only is the pod's container, where it has no other.
	only   match.Owner
	mirror string
}

// NewDirectory returns an empty one.
func NewDirectory() *Directory {
	return &Directory{pods: map[string]*entry{}, ids: map[string]match.Owner{}, mirror: map[string]string{}}
}

// Upsert takes a pod as the informer sees it.
func (d *Directory) Upsert(p *corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	uid := string(p.UID)
	d.drop(uid)
	owner := match.Owner{PodUID: uid, Namespace: p.Namespace, Pod: p.Name}
	e := &entry{mirror: p.Annotations[corev1.MirrorPodAnnotationKey]}
	if len(p.Spec.Containers) == 1 && len(p.Spec.InitContainers)+len(p.Spec.EphemeralContainers) == 0 {
		e.only = owner
		e.only.Container = p.Spec.Containers[0].Name
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses) {
		// "containerd://<id>"
		if _, id, found := strings.Cut(s.ContainerID, "://"); found && id != "" {
			owner.Container = s.Name
			d.ids[id] = owner
			e.ids = append(e.ids, id)
		}
	}
	d.pods[uid] = e
	if e.mirror != "" {
		d.mirror[e.mirror] = uid
	}
}

// Delete forgets a pod.
func (d *Directory) Delete(uid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(uid)
}

func (d *Directory) drop(uid string) {
	e := d.pods[uid]
	if e == nil {
		return
	}
	for _, id := range e.ids {
		delete(d.ids, id)
	}
	delete(d.mirror, e.mirror)
	delete(d.pods, uid)
}

// Owner of what runs in the container. A container that the pod's status does not
// name yet is known only where the pod has no other.
func (d *Directory) Owner(c hostproc.Container) (match.Owner, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if owner, known := d.ids[c.ID]; known {
		return owner, true
	}
	uid := c.PodUID
	if api, static := d.mirror[uid]; static {
		uid = api
	}
	e := d.pods[uid]
	if c.ID == "" || e == nil || e.only == (match.Owner{}) {
		return match.Owner{}, false
	}
	return e.only, true
}
