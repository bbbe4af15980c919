package pvetest

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
)

var (
	unsafeFileChar  = regexp.MustCompile(`[^a-zA-Z0-9_.-]`)
	isoExtension    = regexp.MustCompile(`(?i)\.(iso|img)$`)
	vztmplExtension = regexp.MustCompile(`(?i)\.tar\.(gz|xz|zst|bz2)$`)
	importExtension = regexp.MustCompile(`\.(ova|qcow2|raw|vmdk)$`)
)

// cleanFileName makes of a client's file name what PVE stores it as.
func cleanFileName(name string) string {
	name = strings.TrimSuffix(name, "\n")
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	return unsafeFileChar.ReplaceAllString(name, "_")
}

// uploadTarget checks a file name for a content type and returns the volume
// that it becomes.
func uploadTarget(content, name string) (*volume, error) {
	name = cleanFileName(name)
	v := &volume{Name: content + "/" + name, Content: content}
	ok := false
	switch content {
	case "iso":
		ok, v.Format = isoExtension.MatchString(name), "iso"
	case "vztmpl":
		ok = vztmplExtension.MatchString(name)
		v.Format = "t" + name[strings.LastIndexByte(name, '.')+1:]
	case "import":
		ok = importExtension.MatchString(name)
		v.Format = name[strings.LastIndexByte(name, '.')+1:]
	}
	if !ok && content == "import" {
		return nil, failParam("filename", "invalid filename or wrong extension")
	}
	if !ok {
		return nil, failParam("filename", "wrong file extension")
	}
	return v, nil
}

// uploadStorage returns the call's storage, if files of a content type can be
// put on it.
func (c *call) uploadStorage(content string) (*storage, error) {
	st, err := c.cl().storage(c.vars["storage"])
	if err != nil {
		return nil, err
	}
	if err := st.checkEnabled(c.node); err != nil {
		return nil, err
	}
	if !st.has(content) {
		return nil, fail(500, "storage '%s' is not configured for content-type '%s'", st.ID, content)
	}
	if !st.kind().files {
		return nil, fail(500, "can't upload to storage type '%s', not a file based storage!", st.Type)
	}
	return st, nil
}

func storageUpload(c *call) (any, error) {
	content := c.p.str("content")
	st, err := c.uploadStorage(content)
	if err != nil {
		return nil, err
	}
	if c.upload == nil {
		return nil, failParam("filename", "property is missing and it is not optional")
	}
	v, err := uploadTarget(content, c.upload.Name)
	if err != nil {
		return nil, err
	}
	if c.p.has("checksum") && !c.p.has("checksum-algorithm") {
		return nil, failParam("checksum-algorithm", "missing property required by 'checksum'")
	}
	blob, err := c.s.keepBlob(c.upload.Path)
	if err != nil {
		return nil, err
	}
	size := c.upload.Size
	return c.task("imgcopy", "", func(t *task) error {
		err := c.importFile(t, st, v, blob, size)
		if err != nil {
			c.s.releaseBlob(blob)
		}
		return err
	}), nil
}

// importFile is the work of an upload: it checks the file and puts it on the
// storage.
func (c *call) importFile(t *task, st *storage, v *volume, blob string, size int64) error {
	tmp := fmt.Sprintf("/var/tmp/pveupload-%016x%016x", c.s.rng.Uint64(), c.s.rng.Uint64())
	target := st.filePath(v.Content, v.Name)
	t.logf("starting file import from: %s", tmp)
	if err := st.activate(c.node); err != nil {
		return err
	}
	if err := c.checksum(t, blob); err != nil {
		return err
	}
	if err := c.probe(t, v, blob, size, tmp); err != nil {
		return err
	}
	t.logf("target node: %s", c.node)
	t.logf("target file: %s", target)
	t.logf("file size is: %d", size)
	t.logf("command: cp -- %s %s", tmp, target)
	if _, _, avail := c.cl().usage(st, c.node); roundUp(size, 4*kib) > avail {
		return fail(500, "import failed: cp: error writing '%s': No space left on device", target)
	}
	c.putFile(st, v, blob, size)
	t.logf("finished file import successfully")
	return nil
}

// putFile enters a file with its bytes, in the place of one with its name.
func (c *call) putFile(st *storage, v *volume, blob string, size int64) {
	old := st.on(c.node)[v.Name]
	v.File, v.Data, v.Used = size, size, roundUp(size, 4*kib)
	v.CTime, v.Blob = c.s.clock().Unix(), blob
	if v.Size == 0 {
		v.Size = size
	}
	st.put(c.node, v)
	if old != nil {
		c.s.releaseBlob(old.Blob)
	}
}

// probe reads a disk image's size, and refuses one that is not what its name
// says.
func (c *call) probe(t *task, v *volume, blob string, size int64, path string) error {
	v.Size = size
	if v.Content != "import" || v.Format == "ova" {
		return nil
	}
	info, err := probeFile(c.s.blobPath(blob))
	if v.Format == "raw" {
		return nil
	}
	if err != nil || info.format != v.Format {
		t.logf("command '/usr/bin/qemu-img info '--output=json' %s -f %s' failed: exit code 1", path, v.Format)
		return fail(500, "failed to verify file: qemu-img: Could not open '%s': Image is not in %s format", path, v.Format)
	}
	if info.backing {
		return fail(500, "failed to verify file: backing file references are not allowed")
	}
	v.Size = info.size
	return nil
}

// checksum compares a blob with the checksum the call asks for.
func (c *call) checksum(t *task, blob string) error {
	want := strings.ToLower(c.p.str("checksum"))
	if want == "" {
		return nil
	}
	t.logf("calculating checksum...")
	got, err := fileSum(c.p.str("checksum-algorithm"), c.s.blobPath(blob))
	if err != nil {
		return err
	}
	if got != want {
		return fail(500, "checksum mismatch: got '%s' != expect '%s'", got, want)
	}
	t.logf("OK, checksum verified")
	return nil
}

func fileSum(algorithm, path string) (string, error) {
	var h hash.Hash
	switch algorithm {
	case "md5":
		h = md5.New()
	case "sha1":
		h = sha1.New()
	case "sha224":
		h = sha256.New224()
	case "sha256":
		h = sha256.New()
	case "sha384":
		h = sha512.New384()
	default:
		h = sha512.New()
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// fetchError is what wget says of a URL nothing is behind.
func fetchError(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "exit code 1"
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	host := u.Hostname()
	if strings.Trim(host, "0123456789.") != "" && !strings.Contains(host, ":") {
		return fmt.Sprintf("wget: unable to resolve host address '%s'", host)
	}
	return fmt.Sprintf("Connecting to %s:%s... failed: Connection refused.", host, port)
}

func storageDownload(c *call) (any, error) {
	content := c.p.str("content")
	st, err := c.uploadStorage(content)
	if err != nil {
		return nil, err
	}
	v, err := uploadTarget(content, c.p.str("filename"))
	if err != nil {
		return nil, err
	}
	if c.p.has("checksum") && !c.p.has("checksum-algorithm") {
		return nil, failParam("checksum-algorithm", "missing property required by 'checksum'")
	}
	return c.task("download", cleanFileName(c.p.str("filename")), func(t *task) error {
		return c.download(t, st, v, c.p.str("url"))
	}), nil
}

func (c *call) download(t *task, st *storage, v *volume, from string) error {
	target := st.filePath(v.Content, v.Name)
	now := c.s.clock().UTC().Format("2006-01-02 15:04:05")
	t.logf("downloading %s to %s", from, target)
	if st.on(c.node)[v.Name] != nil {
		return fail(500, "refusing to override existing file '%s'", target)
	}
	t.logf("--%s--  %s", now, from)
	data, known := c.cl().URLs[from]
	if !known {
		return fail(500, "download failed: %s", fetchError(from))
	}
	u, err := url.Parse(from)
	if err != nil {
		return fail(500, "download failed: exit code 1")
	}
	t.logf("Connecting to %s... connected.", u.Host)
	if data == nil {
		t.logf("HTTP request sent, awaiting response... 404 File not found")
		t.logf("%s ERROR 404: File not found.", now)
		return fail(500, "download failed: exit code 8")
	}
	size := int64(len(data))
	tmp := fmt.Sprintf("%s.tmp_dwnl.%d", target, t.PID)
	t.logf("HTTP request sent, awaiting response... 200 OK")
	t.logf("Length: %s [application/octet-stream]", wgetSize(size))
	t.logf("Saving to: '%s'", tmp)
	if _, _, avail := c.cl().usage(st, c.node); size > avail {
		return fail(500, "download failed: Cannot write to '%s' (No space left on device).", tmp)
	}
	t.logf("     0K                                    100%%  351M=0.003s")
	t.logf("%s (351 MB/s) - '%s' saved [%d/%[3]d]", now, tmp, size)
	blob, err := c.s.storeBlob(data)
	if err != nil {
		return err
	}
	if err := c.checksum(t, blob); err != nil {
		c.s.releaseBlob(blob)
		return err
	}
	if err := c.probe(t, v, blob, size, tmp); err != nil {
		c.s.releaseBlob(blob)
		return err
	}
	c.putFile(st, v, blob, size)
	t.logf("download of '%s' to '%s' finished", from, target)
	return nil
}

// wgetSize is a length as wget prints it.
func wgetSize(n int64) string {
	text := strconv.FormatInt(n, 10)
	for _, unit := range []struct {
		size int64
		name string
	}{{gib, "G"}, {mib, "M"}, {kib, "K"}} {
		if f := float64(n) / float64(unit.size); f >= 10 {
			return fmt.Sprintf("%s (%.0f%s)", text, f, unit.name)
		} else if f >= 1 {
			return fmt.Sprintf("%s (%.1f%s)", text, f, unit.name)
		}
	}
	return text
}

func queryURL(c *call) (any, error) {
	from := c.p.str("url")
	data, known := c.cl().URLs[from]
	if !known {
		u, err := url.Parse(from)
		if err != nil {
			return nil, fail(500, "invalid URL")
		}
		host := u.Host
		if u.Port() == "" {
			host += map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
		}
		return nil, fail(500, "invalid server response: '500 Can't connect to %s (Connection refused)'", host)
	}
	if data == nil {
		return nil, fail(500, "invalid server response: '404 File not found'")
	}
	return map[string]any{
		"filename": cleanFileName(from[strings.LastIndexByte(from, '/')+1:]),
		"size":     len(data), "mimetype": "application/octet-stream",
	}, nil
}
