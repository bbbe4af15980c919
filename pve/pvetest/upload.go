package pvetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// A spooled is a multipart request whose file part has been written to disk.
type spooled struct {
	upload
	fields map[string]rawValue
}

// discard removes the file, unless a handler has taken it.
func (u *spooled) discard() { _ = os.Remove(u.Path) }

// isUploadPath tells the call that takes a file.
func isUploadPath(uri string) bool {
	parts := strings.FieldsFunc(uri, func(r rune) bool { return r == '/' })
	return len(parts) == 5 && parts[0] == "nodes" && parts[2] == "storage" && parts[4] == "upload"
}

// spool reads a multipart body the way the API server does: fields first, and
// everything after the head of the file part up to the final boundary is the
// file, fields that come after it included.
func (s *Server) spool(req *rawRequest, boundary string) (*spooled, error) {
	body := &io.LimitedReader{R: req.body, N: req.length}
	up := &spooled{fields: map[string]rawValue{}}
	delim := "--" + boundary
	for {
		line, err := readLine(body)
		if err != nil {
			return nil, errors.New("upload failed - no file part")
		}
		if line == delim {
			break
		}
	}
	for {
		name, file, isFile, err := partHead(body)
		if err != nil {
			return nil, fmt.Errorf("upload failed - %w", err)
		}
		if isFile {
			if name != "filename" || file == "" {
				return nil, errors.New("upload failed - wrong field name of the file part")
			}
			up.Name = file
			up.fields["filename"] = rawValue{text: file}
			return up, s.spoolFile(up, body, delim)
		}
		text, last, err := partText(body, delim)
		if err != nil {
			return nil, fmt.Errorf("upload failed - %w", err)
		}
		up.fields[name] = rawValue{text: text}
		if last {
			return up, nil
		}
	}
}

// partHead reads the head of a part.
func partHead(body io.Reader) (name, file string, isFile bool, err error) {
	for range 16 {
		line, err := readLine(body)
		if err != nil {
			return "", "", false, err
		}
		if line == "" {
			return name, file, isFile, nil
		}
		key, val, _ := strings.Cut(line, ":")
		if !strings.EqualFold(key, "Content-Disposition") {
			continue
		}
		for part := range strings.SplitSeq(val, ";") {
			k, v, _ := strings.Cut(strings.TrimSpace(part), "=")
			switch v = strings.Trim(v, `"`); k {
			case "name":
				name = v
			case "filename":
				file, isFile = v, true
			}
		}
	}
	return "", "", false, errors.New("too many headers in a part")
}

// partText reads a field's value; last tells that no part follows.
func partText(body io.Reader, delim string) (text string, last bool, err error) {
	var lines []string
	for {
		line, err := readLine(body)
		switch {
		case err != nil:
			return "", false, err
		case line == delim || line == delim+"--":
			return strings.Join(lines, "\r\n"), line != delim, nil
		}
		if lines = append(lines, line); len(lines) > 1000 {
			return "", false, errors.New("field too long")
		}
	}
}

// spoolFile writes the rest of the body to a file, less the final boundary.
func (s *Server) spoolFile(up *spooled, body io.Reader, delim string) error {
	dir := filepath.Join(s.dir, "uploads")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "pveupload-")
	if err != nil {
		return err
	}
	defer f.Close()
	up.Path = f.Name()
	n, err := io.Copy(f, body)
	if err == nil {
		n, err = trimEnd(f, n, "\r\n"+delim+"--")
	}
	if err != nil {
		up.discard()
		return fmt.Errorf("upload failed - %w", err)
	}
	up.Size = n
	return nil
}

// trimEnd cuts the final boundary off a file and returns its new size.
func trimEnd(f *os.File, size int64, end string) (int64, error) {
	tail := make([]byte, min(size, int64(len(end)+4)))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil && err != io.EOF {
		return 0, err
	}
	i := bytes.LastIndex(tail, []byte(end))
	if i < 0 {
		return 0, errors.New("wrong boundary")
	}
	size -= int64(len(tail) - i)
	return size, f.Truncate(size)
}

// readLine reads a line byte by byte, so that nothing after it is consumed.
func readLine(r io.Reader) (string, error) {
	var line []byte
	var b [1]byte
	for {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return "", err
		}
		if b[0] == '\n' {
			return strings.TrimSuffix(string(line), "\r"), nil
		}
		if line = append(line, b[0]); len(line) > maxBody {
			return "", errors.New("line too long")
		}
	}
}
