package apidoc

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-cleanhttp"
)

// maxSize limits what is read: the largest published file has 4 MB.
const maxSize = 64 << 20

// A Source says where an API description is and how to trust the host.
type Source struct {
	Product string // picks port and path when From is a host: pve, pmg, pbs or pdm

	// From is a file, a URL, or a host name with or without a port.
	From string

	// Fingerprint is the SHA-256 of the host's certificate in hex, with or
	// without colons; CA a file of certificates in PEM form. Either replaces
	// the system's certificate authorities.
	Fingerprint string
	CA          string
}

// viewers tells where a product's host publishes its API viewer.
func viewer(product string) (port, dir string, ok bool) {
	switch product {
	case "pve":
		return "8006", "/pve-docs/api-viewer/", true
	case "pmg":
		return "8006", "/pmg-docs/api-viewer/", true
	case "pbs":
		return "8007", "/docs/api-viewer/", true
	case "pdm":
		return "8443", "/docs/api-viewer/", true
	}
	return "", "", false
}

// Fetch reads the API description that s names. The origin says where it came
// from without naming the machine: the file's base name or the URL's path.
func Fetch(ctx context.Context, s Source) (data []byte, origin string, err error) {
	if s.From == "" {
		return nil, "", errors.New("no source: name a file, a URL or a Proxmox host")
	}
	if strings.Contains(s.From, "://") {
		u, err := url.Parse(s.From)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return nil, "", fmt.Errorf("%q is no http or https URL", redact(s.From))
		}
		client, err := s.client()
		if err != nil {
			return nil, "", err
		}
		data, err = get(ctx, client, u.String())
		return data, u.Path, err
	}
	info, statErr := os.Stat(s.From)
	switch {
	case statErr == nil && info.IsDir():
		return nil, "", fmt.Errorf("%s is a directory: name the file in it", s.From)
	case statErr == nil && info.Size() > maxSize:
		return nil, "", fmt.Errorf("%s has %d bytes, more than an API description can have", s.From, info.Size())
	case statErr == nil:
		data, err = os.ReadFile(s.From)
		return data, filepath.Base(s.From), err
	case !looksLikeHost(s.From):
		return nil, "", fmt.Errorf("no such file, and no host name: %w", statErr)
	}
	return s.fromHost(ctx)
}

func (s Source) fromHost(ctx context.Context) ([]byte, string, error) {
	port, dir, ok := viewer(s.Product)
	if !ok {
		return nil, "", fmt.Errorf("%s: no such file, and where a host of product %q publishes its API is not known: give the URL", s.From, s.Product)
	}
	host := s.From
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(strings.Trim(host, "[]"), port)
	}
	client, err := s.client()
	if err != nil {
		return nil, "", err
	}
	var errs []error
	for _, name := range []string{"apidoc.js", "apidata.js"} {
		u := url.URL{Scheme: "https", Host: host, Path: path.Join(dir, name)}
		data, err := get(ctx, client, u.String())
		if err == nil {
			return data, u.Path, nil
		}
		errs = append(errs, err)
		var status statusError
		if !errors.As(err, &status) {
			break // the host does not answer: the other name would fail alike
		}
	}
	return nil, "", errors.Join(errs...)
}

type statusError struct {
	url, status string
}

func (e statusError) Error() string { return fmt.Sprintf("GET %s: %s", e.url, e.status) }

func get(ctx context.Context, client *http.Client, u string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return nil, errors.New("the URL cannot be used: " + redact(u))
	}
	resp, err := client.Do(req)
	if err != nil {
		if unknown := (x509.UnknownAuthorityError{}); errors.As(err, &unknown) {
			return nil, fmt.Errorf("%w: give the certificate's SHA-256 with -fingerprint, or the authority's file with -ca", err)
		}
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, statusError{redact(u), resp.Status}
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("GET %s: the answer broke off: %w", redact(u), err)
	}
	if len(data) > maxSize {
		return nil, fmt.Errorf("GET %s: the answer is larger than an API description can be", redact(u))
	}
	return data, nil
}

func (s Source) client() (*http.Client, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.Fingerprint != "" && s.CA != "" {
		return nil, errors.New("give a fingerprint or a CA file, not both")
	}
	if s.CA != "" {
		pem, err := os.ReadFile(s.CA)
		if err != nil {
			return nil, err
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate in PEM form", s.CA)
		}
	}
	if s.Fingerprint != "" {
		want, err := hex.DecodeString(strings.ReplaceAll(s.Fingerprint, ":", ""))
		if err != nil || len(want) != sha256.Size {
			return nil, errors.New("the fingerprint is no SHA-256: want 64 hex digits, with or without colons")
		}
		conf.InsecureSkipVerify = true // VerifyConnection checks instead
		conf.VerifyConnection = func(cs tls.ConnectionState) error {
			got := sha256.Sum256(cs.PeerCertificates[0].Raw)
			if string(got[:]) != string(want) {
				return fmt.Errorf("the host's certificate has the fingerprint %s, not the given one", hex.EncodeToString(got[:]))
			}
			return nil
		}
	}
	tr := cleanhttp.DefaultTransport()
	tr.TLSClientConfig = conf
	return &http.Client{Transport: tr}, nil
}

// looksLikeHost tells a host name from a mistyped file name.
func looksLikeHost(s string) bool {
	if strings.ContainsAny(s, "/\\ ") {
		return false
	}
	switch filepath.Ext(s) {
	case ".js", ".json", ".txt", ".gz", ".html":
		return false
	}
	return true
}

// redact drops a password from a URL.
func redact(s string) string {
	if u, err := url.Parse(s); err == nil {
		return u.Redacted()
	}
	return "(unreadable)"
}
