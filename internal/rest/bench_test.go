package rest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-cleanhttp"
	"github.com/stretchr/testify/require"
)

type benchVersion struct {
	Release string `json:"release"`
	RepoID  string `json:"repoid"`
	Version string `json:"version"`
}

// compare runs two ways of doing the same in turns, so that whatever else the machine
// does hits both, and reports how much time the first takes in terms of the second.
func compare(b *testing.B, ours, theirs func(b *testing.B)) {
	b.Helper()
	b.Run("client", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ours(b)
		}
	})
	b.Run("by hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			theirs(b)
		}
	})
	b.Run("in turns", func(b *testing.B) {
		var first, second time.Duration
		for b.Loop() {
			began := time.Now()
			ours(b)
			middle := time.Now()
			theirs(b)
			first += middle.Sub(began)
			second += time.Since(middle)
		}
		b.ReportMetric(first.Seconds()/second.Seconds(), "client/by-hand")
	})
}

// BenchmarkSmallGet compares a call with the same done by hand on net/http.
func BenchmarkSmallGet(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		_, _ = io.WriteString(w, `{"data":{"repoid":"14a22df3","release":"9.2","version":"9.2.11"}}`)
	}))
	defer server.Close()
	const token = "PVEAPIToken=root@pam!t0=12345678-1234-1234-1234-123456789abc"
	client, err := New(Product{}, server.URL, WithAPIToken("", token))
	require.NoError(b, err)
	defer client.CloseIdleConnections()
	plain := cleanhttp.DefaultPooledClient()
	defer plain.CloseIdleConnections()

	compare(b, func(b *testing.B) {
		var v benchVersion
		if err := client.Call(b.Context(), http.MethodGet, "/version", nil, &v); err != nil || v.Release != "9.2" {
			b.Fatal(v, err)
		}
	}, func(b *testing.B) {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, server.URL+"/api2/json/version", nil)
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Authorization", token)
		resp, err := plain.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			b.Fatal(resp.Status, err)
		}
		var v struct{ Data benchVersion }
		if err := json.Unmarshal(body, &v); err != nil || v.Data.Release != "9.2" {
			b.Fatal(v, err)
		}
	})
}

// An endlessFile is a file of zeros that takes no memory.
type endlessFile struct{ left int64 }

func (f *endlessFile) Read(p []byte) (int, error) {
	if f.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), f.left)
	clear(p[:n])
	f.left -= n
	return int(n), nil
}

// BenchmarkUpload compares an upload with the bare bytes through net/http. The size is
// 64 MiB unless PROXKIT_BENCH_UPLOAD gives another number of MiB; peak-MiB is by how
// much the heap grew on the way.
func BenchmarkUpload(b *testing.B) {
	size := int64(64 << 20)
	if text := os.Getenv("PROXKIT_BENCH_UPLOAD"); text != "" {
		mib, err := strconv.ParseInt(text, 10, 32)
		require.NoError(b, err)
		size = mib << 20
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r.Body, make([]byte, 256<<10))
		if err != nil || n < size || n != r.ContentLength {
			w.WriteHeader(http.StatusInternalServerError)
		}
		w.Header().Set("Content-Type", jsonType)
		_, _ = io.WriteString(w, `{"data":null}`)
	}))
	defer server.Close()
	client, err := New(Product{}, server.URL)
	require.NoError(b, err)
	defer client.CloseIdleConnections()
	plain := cleanhttp.DefaultPooledClient()
	defer plain.CloseIdleConnections()

	compare(b, func(b *testing.B) {
		b.SetBytes(size)
		err := client.Upload(b.Context(), http.MethodPost, uploadPath, map[string]string{"content": "iso"},
			Upload{Body: &endlessFile{size}, Size: size, Name: "a.iso", Progress: func(int64, int64) {}}, nil)
		if err != nil {
			b.Fatal(err)
		}
	}, func(b *testing.B) {
		b.SetBytes(size)
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, server.URL, &endlessFile{size})
		if err != nil {
			b.Fatal(err)
		}
		req.ContentLength = size
		resp, err := plain.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			b.Fatal(resp.Status)
		}
	})
	b.Run("memory", func(b *testing.B) {
		peak := watchHeap()
		for b.Loop() {
			err := client.Upload(b.Context(), http.MethodPost, uploadPath, nil, Upload{Body: &endlessFile{size}, Size: size, Name: "a.iso"}, nil)
			if err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(peak(), "peak-MiB")
	})
}

// watchHeap samples the heap until the returned function is called, which tells the
// peak above the beginning in MiB.
func watchHeap() func() float64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	base, peak := stats.HeapAlloc, stats.HeapAlloc
	stop := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				var now runtime.MemStats
				runtime.ReadMemStats(&now)
				peak = max(peak, now.HeapAlloc)
			}
		}
	})
	return func() float64 {
		close(stop)
		wait.Wait()
		return float64(peak-base) / (1 << 20)
	}
}

// BenchmarkClassify is the price of asking what kind of error it is.
func BenchmarkClassify(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		classify("unable to create VM 218 - VM 218 already exists on node 'pve2'")
	}
}
