// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/mux"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"

	"github.com/fairslice/fairslice/api/v1alpha1"
)

// tokenGuard lets those in who have a client certificate that the verbs accept,
// and users of the cluster whose bearer token the API server knows and who may,
// by its rules, get the virtual subresource queues/pending of the queue, or
// queues/consolidation for what concerns no queue.
type tokenGuard struct {
	client kubernetes.Interface
	// certificates is false where nobody is asked who they are.
	certificates bool
	// reviews are what the API server said about tokens, by their SHA-256: one
	// that is shown again and again is not a request to it each time.
	reviews *cache.LRUExpireCache
}

const (
	reviewFor   = 10 * time.Second
	mostReviews = 1000
)

func newTokenGuard(client kubernetes.Interface, certificates bool) tokenGuard {
	return tokenGuard{client, certificates, cache.NewLRUExpireCache(mostReviews)}
}

func (g tokenGuard) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.certificates || r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
			next.ServeHTTP(w, r)
			return
		}
		token, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !given || token == "" {
			http.Error(w, "a client certificate signed by --client-ca or a bearer token of a user of the cluster is required", http.StatusUnauthorized)
			return
		}
		status, message := g.check(r, token)
		if status != http.StatusOK {
			http.Error(w, message, status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// check asks the API server who the token is and what that user may do.
func (g tokenGuard) check(r *http.Request, token string) (status int, message string) {
	who, err := g.review(r.Context(), token)
	if err != nil {
		return http.StatusServiceUnavailable, "the API server cannot be asked who you are: " + err.Error()
	}
	if !who.Authenticated {
		return http.StatusUnauthorized, "the bearer token is not one of a user of the cluster"
	}
	user := who.User
	what := &authorizationv1.ResourceAttributes{Verb: "get", Group: v1alpha1.Group, Resource: "queues", Subresource: "consolidation"}
	if queue := mux.Vars(r)["queue"]; queue != "" {
		what.Subresource, what.Name = "pending", queue
	}
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	access, err := g.client.AuthorizationV1().SubjectAccessReviews().Create(r.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: what, User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra},
	}, metav1.CreateOptions{})
	if err != nil {
		return http.StatusServiceUnavailable, "the API server cannot be asked what you may do: " + err.Error()
	}
	if !access.Status.Allowed {
		return http.StatusForbidden, "user " + user.Username + " may not get queues/" + what.Subresource + " of group " + v1alpha1.Group
	}
	return http.StatusOK, ""
}

// review asks the API server who the token is, unless it said so a moment ago.
func (g tokenGuard) review(ctx context.Context, token string) (authenticationv1.TokenReviewStatus, error) {
	key := sha256.Sum256([]byte(token))
	if known, ok := g.reviews.Get(key); ok {
		return known.(authenticationv1.TokenReviewStatus), nil
	}
	review, err := g.client.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.TokenReviewStatus{}, err
	}
	g.reviews.Add(key, review.Status, reviewFor)
	return review.Status, nil
}
