package pvetest

import (
	"bufio"
	"bytes"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
)

func FuzzDecodeForm(f *testing.F) {
	for _, s := range []string{"a=1&b=2", "a=1;a=2", "a=b=c", "a", "a=", "%zz=%41&+=%", "&&;;="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for k, v := range decodeForm(s) {
			if v.kind == isArray && len(v.list) < 2 {
				t.Errorf("%q is an array of %d", k, len(v.list))
			}
		}
	})
}

func FuzzDecodeBody(f *testing.F) {
	for _, s := range []string{`{"a":1,"b":[true,null,{}],"c":1.5e3}`, `[1]`, `{`, ``, `{} x`, `null`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := decodeBody(data)
		if err != nil && out != nil {
			t.Error("both a result and an error")
		}
		if err != nil && strings.ContainsAny(plain(500, err.Error()).phrase, "\r\n") {
			t.Error("a phrase of two lines")
		}
	})
}

func FuzzPropString(f *testing.F) {
	doc, err := facts()
	if err != nil {
		f.Fatal(err)
	}
	r := newRegistry(doc)
	schema := r.byName["PUT /nodes/{node}/qemu/{vmid}/config"].Parameters
	for _, s := range []string{"virtio=BC:24:11:00:00:01,bridge=vmbr0", "virtio,virtio", "=,=", "a", "model=virtio,model=e1000", ",,", "local:1,size=4G"} {
		f.Add("net0", s)
		f.Add("scsi0", s)
		f.Add("cpu", s)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		sub := lookup(schema, name)
		if sub == nil {
			return
		}
		errs := complaints{}
		r.check.check(name, sub, rawValue{text: text}, errs)
		for k := range errs {
			if !strings.HasPrefix(k, name) {
				t.Errorf("a complaint about %q", k)
			}
		}
	})
}

func FuzzReadRequest(f *testing.F) {
	f.Add([]byte("GET /api2/json/version HTTP/1.1\r\nHost: x\r\n\r\n"))
	f.Add([]byte("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n"))
	f.Add([]byte("\r\n\r\nGET"))
	f.Fuzz(func(t *testing.T, data []byte) {
		req, err := readRequest(nil, bufio.NewReader(bytes.NewReader(data)))
		if err == nil && (req.method == "" || req.length < -1) {
			t.Errorf("%+v", req)
		}
	})
}

func FuzzSpool(f *testing.F) {
	f.Add("x", []byte("--x\r\nContent-Disposition: form-data; name=\"content\"\r\n\r\niso\r\n--x\r\nContent-Disposition: form-data; name=\"filename\"; filename=\"a.iso\"\r\n\r\ndata\r\n--x--\r\n"))
	f.Add("x", []byte("--x\r\n\r\n\r\n--x--"))
	f.Add("", []byte("----"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, boundary string, data []byte) {
		s := &Server{dir: dir}
		client, server := net.Pipe()
		defer client.Close()
		defer server.Close()
		up, err := s.spool(&rawRequest{length: int64(len(data)), body: bufio.NewReader(bytes.NewReader(data)), conn: server}, boundary)
		if err != nil || up.Path == "" {
			return
		}
		info, serr := os.Stat(up.Path)
		if serr != nil || info.Size() != up.Size {
			t.Errorf("%v, %d bytes", serr, up.Size)
		}
		up.discard()
	})
}

func FuzzGoPattern(f *testing.F) {
	f.Add(`(?^:[a-z]+)`, "abc")
	f.Add(`/(\+?)\d+(\.\d+)?[KMGT]?/`, "+1G")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		v := &validator{patterns: map[string]*regexp.Regexp{}}
		first := v.matches(pattern, text) // compiles the pattern
		if again := v.matches(pattern, text); again != first {
			t.Error("changes its mind")
		}
	})
}
