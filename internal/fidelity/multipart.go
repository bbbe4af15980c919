package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

var fileSize = regexp.MustCompile(`^file size is: (\d+)$`)

// isUpload tells whether an exchange sends a file.
func isUpload(e *exchange) bool {
	return strings.HasPrefix(e.Request.Headers["Content-Type"], "multipart/form-data")
}

// uploadBody restores the body of an upload. A recording is text: line ends
// were normalised and the file's bytes are not in it, or not all of them, so
// the file is made of zeroes, as many as the task's log says.
func (p *player) uploadBody(e *exchange) string {
	_, boundary, _ := strings.Cut(e.Request.Headers["Content-Type"], "boundary=")
	var b bytes.Buffer
	var after int // bytes of the fields that follow the file
	file := -1
	for _, part := range strings.Split(strings.ReplaceAll(e.Request.Body, "\r\n", "\n"), "--"+boundary) {
		head, content, ok := strings.Cut(strings.TrimPrefix(part, "\n"), "\n\n")
		if !ok || !strings.Contains(head, "form-data") {
			continue
		}
		start := b.Len()
		b.WriteString("--" + boundary + "\r\n" + strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n")
		if strings.Contains(head, "filename=") && file < 0 {
			file = b.Len()
			b.WriteString("\r\n")
			continue
		}
		b.WriteString(strings.TrimSuffix(content, "\n") + "\r\n")
		if file >= 0 {
			after += b.Len() - start
		}
	}
	out := b.String()
	if file >= 0 {
		out = out[:file] + strings.Repeat("\x00", max(p.recordedSize(e.Name)-after, 1)) + out[file:]
	}
	return out + "--" + boundary + "--\r\n"
}

// recordedSize is the size of an uploaded file as the task's log says it.
func (p *player) recordedSize(name string) int {
	log := p.all[name+"-tasklog"]
	if log == nil {
		return 1
	}
	var got struct{ Data []struct{ T string } }
	if json.Unmarshal(log.Answer.JSON, &got) != nil {
		return 1
	}
	for _, line := range got.Data {
		if m := fileSize.FindStringSubmatch(line.T); m != nil {
			n, err := strconv.Atoi(m[1])
			if err == nil {
				return n
			}
		}
	}
	return 1
}
