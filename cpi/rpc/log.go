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
	// mask hides secrets. It comes before a line is cut or joined: half a secret
	// would pass it.
	mask func(string) string
}

// Printf adds one line. Line breaks in it become spaces.
func (l *Log) Printf(format string, args ...any) {
	if l == nil {
		return
	}
	line := fmt.Sprintf(format, args...)
	if l.mask != nil {
		line = l.mask(line)
	}
	line = shorten(strings.TrimSpace(strings.ReplaceAll(line, "\n", " ")), maxLogLine)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+len(line)+1 > maxLog {
		l.dropped++
		return
	}
	l.size += len(line) + 1
	l.lines = append(l.lines, line)
}

// String returns the lines collected so far.
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
