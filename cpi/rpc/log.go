package rpc

import (
	"fmt"
	"strings"
	"sync"
)

// The Director reads a response byte by byte and copies the log into its task
// log, so a log that explains the call is worth more than one that records it.
const (
	maxLog     = 8 << 10
	maxLogLine = 1 << 10
	maxMessage = 4 << 10
)

// A Log collects the lines that the response carries in its log. It is safe for
// concurrent use, and bounded: what exceeds a few KiB is dropped and counted.
type Log struct {
	mu      sync.Mutex
	lines   []string
	size    int
	dropped int
}

// Printf adds one line. Line breaks in it become spaces.
func (l *Log) Printf(format string, args ...any) {
	if l == nil {
		return
	}
	line := strings.TrimSpace(strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " "))
	line = shorten(line, maxLogLine)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+len(line)+1 > maxLog {
		l.dropped++
		return
	}
	l.size += len(line) + 1
	l.lines = append(l.lines, line)
}

// String returns the lines collected so far, unmasked.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.Join(l.lines, "\n")
	if l.dropped > 0 {
		text += fmt.Sprintf("\n(%d more lines)", l.dropped)
	}
	return text
}

// shorten cuts text to at most limit bytes, at a character's end, and says so.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const mark = " … (cut)"
	return strings.ToValidUTF8(text[:limit-len(mark)], "") + mark
}
