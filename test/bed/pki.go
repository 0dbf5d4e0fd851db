// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority signs certificates. Keys are ECDSA P-256: issuing one takes well
// under a millisecond.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// identity is a certificate with its key, both PEM.
type identity struct{ cert, key []byte }

func newAuthority(name string) (*authority, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	a := &authority{}
	id, err := a.sign(template)
	if err != nil {
		return nil, err
	}
	a.pem = id.cert
	return a, nil
}

// client issues a certificate that the API server takes for the user with the
// groups.
func (a *authority) client(user string, groups ...string) (identity, error) {
	return a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// server issues a serving certificate for loopback and the given names or
// addresses.
func (a *authority) server(hosts ...string) (identity, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "fairslice test bed"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return a.sign(template)
}

// sign completes the template, makes a key for it and signs it; an authority
// without a certificate signs its own.
func (a *authority) sign(template *x509.Certificate) (identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return identity{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return identity{}, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(30 * 24 * time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return identity{}, fmt.Errorf("issue a certificate for %s: %w", template.Subject, err)
	}
	if a.cert == nil {
		if a.cert, err = x509.ParseCertificate(der); err != nil {
			return identity{}, err
		}
		a.key = key
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return identity{}, err
	}
	return identity{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}, nil
}

// write stores the identity as <name>.crt and, if it has a key, <name>.key in
// the folder.
func (id identity) write(folder, name string) error {
	err := os.WriteFile(filepath.Join(folder, name+".crt"), id.cert, 0o644)
	if err != nil || id.key == nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name+".key"), id.key, 0o600)
}

// identity of the authority itself.
func (a *authority) identity() (identity, error) {
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return identity{}, err
	}
	return identity{cert: a.pem, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})}, nil
}
